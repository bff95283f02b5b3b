"""Words and digits on pages: they are true, and no guarantee is made to look better than it is."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.mechanisms import Bounds, Categories, mechanism, registered
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.mechanism_wording import paragraph, rebuilt
from hubbub_aggregator.models.mechanism import MechanismModel

_THIN = "\N{NARROW NO-BREAK SPACE}"


@given(st.floats(1e-9, 1e6))
def test_epsilon_is_rounded_up_and_not_far(number: float) -> None:
    shown = float(formatting.epsilon(number).replace(",", ""))
    assert shown >= number * (1 - 1e-9)
    assert shown <= number * 1.0101


@given(st.floats(1e-30, 1.0))
def test_delta_is_rounded_up_and_not_far(number: float) -> None:
    text = (
        formatting.delta(number).replace("10", "1e", 1)
        if "×" not in formatting.delta(number)
        else formatting.delta(number)
    )
    front, _, power = text.rpartition(" × ")
    digits = power.removeprefix("1e").removeprefix("10")
    exponent = int("".join("-" if c == "⁻" else str("⁰¹²³⁴⁵⁶⁷⁸⁹".index(c)) for c in digits))
    shown = float(front or 1) * 10.0**exponent
    assert shown >= number * (1 - 1e-7)
    assert shown <= number * 1.0101


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0.3333, "33.3%"), (-0.00001, "0.0%"), (-0.0123, "−1.2%"), (1.0, "100.0%"), (None, "–")],
)
def test_shares_are_percentages(number: float | None, shown: str) -> None:
    assert formatting.share(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (812.4, "812"), (1234.5, "1,234"), (3.14159, "3.14"), (-42.42, "−42.4"), (3.96e14, "3.96 × 10¹⁴")],
)
def test_means_have_as_many_digits_as_help(number: float, shown: str) -> None:
    assert formatting.amount(number).replace(_THIN, " ") == shown


@pytest.mark.parametrize("name", sorted(registered()))
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_every_mechanism_says_its_law_in_one_sentence(name: str, epsilon: float) -> None:
    for built in mechanism(name).examples(epsilon):
        said = built.in_words()
        assert said.startswith("Each device ")
        assert said.endswith(".")
        assert not re.search(r"[.] [A-Z]", said), "one sentence"
        assert not re.search(r"None|nan|inf|Fraction|[{}<>]", said)


@pytest.mark.parametrize("name", ["rr", "krr", "sue", "oue", "subset", "hadamard", "linear-hash", "olh"])
def test_the_probability_of_the_truth_is_the_one_that_runs(name: str) -> None:
    built: Any
    for built in mechanism(name).examples(1.0):
        assert formatting.probability(float(built.p)) in built.in_words()
        assert (
            name in {"rr", "krr", "hadamard"}
            or getattr(built, "count", 0) == 1
            or formatting.probability(float(built.q)) in built.in_words()
        )


def test_sizes_are_those_of_the_class() -> None:
    list_ = Categories(1000)
    assert "a random set of 18 of the 1000 values" in _flat(mechanism("subset").calibrate(4, list_).in_words())
    assert "into 64 groups" in mechanism("linear-hash").calibrate(4, list_).in_words()
    assert "into 53 groups" in mechanism("olh").calibrate(4, list_).in_words()
    assert "each of the 1000 values" in _flat(mechanism("oue").calibrate(4, list_).in_words())


@pytest.mark.parametrize("name", ["piecewise", "hybrid"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_window_is_drawn_as_often_as_is_said(name: str, epsilon: float) -> None:
    built: Any = mechanism(name).calibrate(epsilon, Bounds(Fraction(0), Fraction(5000)))
    row = [Fraction(weight, sum(built.rows[0])) for weight in built.rows[0]]
    chance = sum(row[: built.window]) if name == "piecewise" else sum(row[:-2])  # at the lower end it lies in front
    if len(row) == 2:
        chance = row[0]  # only the ends are left, and that is the lower one's
    assert f"with probability {formatting.probability(float(chance))} " in built.in_words()
    if len(row) > 2:
        assert f"one of {built.symbols} numbers" in built.in_words()
        ends = [formatting.amount(float(5000 * place)) for place in (min(built.places), max(built.places))]
        assert f"from {ends[0]} to {ends[1]}" in built.in_words()


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_spread_of_laplace_noise_is_its_own(epsilon: float) -> None:
    built: Any = mechanism("laplace").calibrate(epsilon, Bounds(Fraction(0), Fraction(1)), steps=1)
    law = {report: built.likelihood(report, Fraction(0)) for report in built.outputs()}
    mean = sum(report * chance for report, chance in law.items())
    spread = math.sqrt(sum((report - mean) ** 2 * chance for report, chance in law.items()))
    said = float(built.in_words().rpartition("about ")[2].rstrip(".").replace(",", ""))
    assert said == pytest.approx(spread, rel=0.02)


def _flat(text: str) -> str:
    return text.replace(",", "")


def test_truth_with_probability_three_quarters_is_said_so() -> None:
    built = mechanism("rr").calibrate("1.0986", Categories(2))
    assert "tells the truth with probability 0.75 " in built.in_words()
    model = MechanismModel(name="rr", epsilon=1.0986, parameters=built.parameters())
    assert "more than 3 times as likely" in paragraph(model, rebuilt(model, 2, None))


def test_odds_are_rounded_up_as_epsilons_are() -> None:
    for number in (0.01, 0.1, 1.1, 1.5, 2.25, 4.0, 8.0, 12.5):
        assert math.exp(number) <= float(_flat(formatting.odds(number))) <= math.exp(number) * 1.01
    assert formatting.odds(1.1) == "3.01"
    assert formatting.odds(400.0) == "e to the power of 400"


def test_a_mechanism_of_tomorrow_is_explained_by_what_all_have() -> None:
    model = MechanismModel(name="of-tomorrow", epsilon=2.0, parameters={})
    assert rebuilt(model, 4, None) is None
    said = paragraph(model, None)
    assert "of-tomorrow" in said
    assert "local ε, 2 " in said


def test_a_mean_is_rebuilt_from_its_bounds() -> None:
    built = mechanism("laplace").calibrate(1.0, Bounds(Fraction("0.1"), Fraction(3)))
    model = MechanismModel(name="laplace", epsilon=1.0, parameters=built.parameters())
    assert rebuilt(model, None, (0.1, 3.0)) == built


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (1.0, "about 99 times in 100"),
        (0.1, "about 10 times in 100"),
        (0.05, "about once in 20 times"),
        (0.0041, "about once in 240 times"),
        (2e-5, "about once in 50,000 times"),
        (4.2e-9, "less than once in a million times"),
        (0.0, "less than once in a million times"),
    ],
)
def test_a_p_value_is_said_in_words(number: float, shown: str) -> None:
    assert formatting.by_chance(number) == shown


@given(st.floats(1e-6, 0.0999))
def test_chance_in_words_is_never_rarer_than_the_p_value(number: float) -> None:
    times = float(_flat(formatting.by_chance(number)).removeprefix("about once in ").removesuffix(" times"))
    assert number <= 1 / times * (1 + 1e-9) <= number * 1.11 + 1e-9


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0.0974, "+9.7 pp"), (-0.0974, "−9.7 pp"), (0.0001, "0.0 pp"), (-0.0001, "0.0 pp"), (None, "–")],
)
def test_a_change_of_a_share_has_its_sign_and_zero_has_none(number: float | None, shown: str) -> None:
    assert formatting.change(number, is_share=True).replace(_THIN, " ") == shown


def test_a_change_of_a_mean_has_its_unit() -> None:
    assert formatting.change(12.0, is_share=False, unit="ms") == f"+12.0{_THIN}ms"
    assert formatting.change(0.0, is_share=False) == "0"


def test_a_span_says_once_what_both_ends_share() -> None:
    assert formatting.span("2027-01-04T06:00Z", "2027-01-04T08:00Z") == "4 Jan 2027, 06:00 to 08:00 UTC"
    assert formatting.span("2027-01-03T23:00Z", "2027-01-04T08:00Z") == "3 Jan 2027, 23:00 to 4 Jan 2027, 08:00 UTC"
    assert formatting.span("2027-01-04", "2027-01-05") == "4 to 5 Jan 2027"
    assert formatting.span("2027-01-31", "2027-02-05") == "31 Jan to 5 Feb 2027"
    assert formatting.span("2026-12-31", "2027-01-05") == "31 Dec 2026 to 5 Jan 2027"


def test_a_range_names_its_last_day_and_not_the_one_after() -> None:
    assert formatting.between("2027-01-08", "2027-01-15") == "8 to 14 Jan 2027"
    assert formatting.between("2027-01-08", "2027-01-09") == "8 Jan 2027"
    assert formatting.between("2027-01-08T06:00Z", "2027-01-08T07:00Z") == "8 Jan 2027, 06:00 to 07:00 UTC"


def test_a_time_has_its_zone_and_no_more_digits_than_it_needs() -> None:
    now = 1_800_000_000.0  # 2027-01-15 08:00 UTC
    assert formatting.moment(now) == "15 Jan 2027, 08:00 UTC"
    assert formatting.moment(now + 10) == "15 Jan 2027, 08:00:10 UTC"
    assert formatting.date("2027-01-15T06:30Z", now) == "Today 06:30 UTC"
    assert formatting.date("2027-01-14T23:59:30Z", now) == "Yesterday 23:59:30 UTC"
    assert formatting.date("2027-01-16T06:30Z", now) == "16 Jan 2027, 06:30 UTC"
    assert formatting.date("2027-01-15", now) == "15 Jan 2027"
    assert formatting.stamp(now) == "2027-01-15T08:00:00Z"


def test_periods_are_said_in_grammatical_words() -> None:
    said = [formatting.a_period(text) for text in ("1d", "1h", "10s", "8h", "2w")]
    assert said == ["a day", "an hour", "a 10-second period", "an 8-hour period", "a 2-week period"]
    assert [formatting.every(text) for text in ("1d", "10s")] == ["once a day", "once in 10 seconds"]
