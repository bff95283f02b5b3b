"""Periods: every time is in exactly one, and its index, label and boundaries agree."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import InvalidParameter
from hubbub.period import LARGEST_INDEX, Calendar, Period, duration_seconds, duration_text

LENGTHS = ["1s", "30s", "15m", "1h", "6h", "1d", "2d", "30d", "1w", "7d", "2w"]
calendars = st.sampled_from(LENGTHS).map(Calendar.parse)
times = st.integers(0, 2**32 - 2)  # the last second that has a successor in 32 bits


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@given(calendars, times)
def test_every_time_is_in_exactly_one_period(calendar: Calendar, time: int) -> None:
    period = calendar.at(time)

    assert period.start <= time < period.end
    assert time in period
    assert period.end == calendar.period(period.index + 1).start
    assert 0 <= period.index <= LARGEST_INDEX


@given(calendars, times)
def test_a_label_is_read_back_as_the_boundary_it_names(calendar: Calendar, time: int) -> None:
    period = calendar.at(time)

    assert calendar.boundary(period.label) == period.index


@given(calendars, st.floats(0, 2**32 - 1))
def test_a_fraction_of_a_second_never_moves_a_time_to_another_period(calendar: Calendar, time: float) -> None:
    assert calendar.index_at(time) == calendar.index_at(math.floor(time))


@given(st.sampled_from(["1w", "7d", "2w"]).map(Calendar.parse), times)
def test_a_week_starts_on_monday(calendar: Calendar, time: int) -> None:
    assert datetime.fromtimestamp(calendar.at(time).start, UTC).isoweekday() == 1


def test_indexes_count_from_the_epoch_or_the_monday_before_it() -> None:
    assert Calendar.parse("1d").index_at(0) == 0
    assert Calendar.parse("1w").at(0).start == unix("1969-12-29")
    assert Calendar.parse("1w").boundary("1969-12-29") == 0
    assert Calendar.parse("1d").boundary("2027-01-04") == unix("2027-01-04") // 86_400


def test_seven_days_are_one_week() -> None:
    assert Calendar.parse("7d") == Calendar.parse("1w")
    assert str(Calendar.parse("7d")) == "1w"


@pytest.mark.parametrize(
    ("length", "time", "label"),
    [
        ("1d", "2027-01-05T13:14:15", "2027-01-05"),
        ("1w", "2027-01-05T13:14:15", "2027-01-04"),
        ("6h", "2027-01-05T13:14:15", "2027-01-05T12:00Z"),
        ("15m", "2027-01-05T13:14:15", "2027-01-05T13:00Z"),
        ("30s", "2027-01-05T13:14:45", "2027-01-05T13:14:30Z"),
    ],
)
def test_a_label_is_the_start_in_iso_8601(length: str, time: str, label: str) -> None:
    assert Calendar.parse(length).at(unix(time)).label == label


@given(st.integers(1, 10**8))
def test_a_duration_is_read_back_from_its_text(seconds: int) -> None:
    assert duration_seconds(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    "text", ["", "1", "d", "0d", "-1d", "1.5h", "1 d", "1D", "1y", "1d ", "999999999w", 86_400, None]
)
def test_what_is_not_a_duration_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(InvalidParameter, match=r"1d|520w"):
        duration_seconds(text)


@pytest.mark.parametrize(
    ("length", "instead"), [("7h", "6h"), ("25h", "1d"), ("36h", "2d"), ("50m", "48m"), ("11s", "10s")]
)
def test_a_length_that_does_not_divide_a_day_is_refused_with_the_nearest_that_does(length: str, instead: str) -> None:
    with pytest.raises(InvalidParameter, match=f'{length} does not: use "{instead}"'):
        Calendar.parse(length)


def test_an_unaligned_date_is_refused_with_the_nearest_aligned_ones() -> None:
    with pytest.raises(InvalidParameter, match="the nearest are 2027-01-04 and 2027-01-11"):
        Calendar.parse("1w").boundary("2027-01-05")
    with pytest.raises(InvalidParameter, match="the nearest are 2027-01-05T12:00Z and 2027-01-05T18:00Z"):
        Calendar.parse("6h").boundary("2027-01-05T13:00")
    with pytest.raises(InvalidParameter, match="the nearest are"):
        Calendar.parse("1s").boundary("2027-01-05T13:00:00.5")


def test_a_date_with_an_offset_is_taken_at_its_own_instant() -> None:
    hourly = Calendar.parse("1h")

    assert hourly.boundary("2027-01-05T13:00+02:00") == hourly.boundary("2027-01-05T11:00Z")


@pytest.mark.parametrize("text", ["", "yesterday", "2027-13-01", "9999-12-31", "1965-01-01"])
def test_what_is_not_a_date_in_range_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter):
        Calendar.parse("1d").boundary(text)


def test_a_range_leaves_its_end_out_and_is_never_empty() -> None:
    daily = Calendar.parse("1d")

    assert len(daily.range("2027-01-01", "2027-01-08")) == 7
    with pytest.raises(InvalidParameter, match="end after it starts"):
        daily.range("2027-01-08", "2027-01-08")


def test_a_period_closes_after_its_grace_and_is_forgotten_after_its_horizon() -> None:
    period = Calendar.parse("1d").at(unix("2027-01-05"))

    assert period.closes_at(grace=3600) == unix("2027-01-06T01:00")
    assert period.horizon(grace=3600, forward_horizon=7 * 86_400) == unix("2027-01-13T01:00")


@pytest.mark.parametrize("time", [-1, math.nan, math.inf, 10**12])
def test_a_time_outside_the_calendar_is_refused(time: float) -> None:
    with pytest.raises(InvalidParameter, match="Unix seconds"):
        Calendar.parse("1d").index_at(time)


@pytest.mark.parametrize("index", [-1, 2**32, 10**7, True, 1.5])
def test_an_index_outside_the_calendar_is_refused(index: int) -> None:
    with pytest.raises(InvalidParameter):
        Period(Calendar.parse("1d"), index)


@pytest.mark.parametrize("seconds", [0, -86_400, True, 1.5, 521 * 7 * 86_400])
def test_a_length_that_is_no_length_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidParameter):
        Calendar(seconds)
