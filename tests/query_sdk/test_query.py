"""`Query` against a real aggregator: typed answers, and errors in the aggregator's words."""

from __future__ import annotations

import dataclasses
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from hubbub_query import (
    Estimate,
    InvalidQuery,
    NoAnswer,
    NotFound,
    NothingReleased,
    Query,
    Unauthorized,
    UnreadableAnswer,
)
from hubbub_query.read_json import alias, read
from tests.query_sdk.conftest import TOKEN
from tests.support.ports import reserved_port


def as_json(found: Any) -> Any:
    """An object as the API writes it."""
    if dataclasses.is_dataclass(found):
        return {alias(one.name): as_json(getattr(found, one.name)) for one in dataclasses.fields(found)}
    if isinstance(found, tuple):
        return [as_json(one) for one in found]
    return dict(found) if isinstance(found, Mapping) else found


def test_an_answer_is_the_json_of_the_api_member_by_member(query: Query) -> None:
    asked = {"a_from": "2027-01-15", "a_to": "2027-01-16", "b_from": "2027-01-17", "b_to": "2027-01-18"}
    a, b = ("2027-01-15", "2027-01-16"), ("2027-01-17", "2027-01-18")
    assert as_json(query.metrics()) == query.json("/v1/metrics")
    assert as_json(query.estimate("theme")) == query.json("/v1/metrics/theme/estimate")
    assert as_json(query.series("startup_ms")) == query.json("/v1/metrics/startup_ms/series")
    assert as_json(query.compare("theme", a, b)) == query.json("/v1/metrics/theme/compare", asked)
    assert as_json(query.releases()) == query.json("/v1/releases")
    assert as_json(query.privacy()) == query.json("/v1/privacy")
    assert as_json(query.privacy(delta=1e-4)) == query.json("/v1/privacy", {"delta": "0.0001"})


def test_parameters_are_those_of_the_api(query: Query) -> None:
    two = query.estimate("theme", top=2, confidence=0.99, population="superpopulation", end=date(2027, 1, 16))
    assert two.population == "superpopulation"
    assert len(two.newest.values) == 2
    assert two.newest.interval.confidence == 0.99
    assert two.newest.periods.end == "2027-01-16"
    alone = query.estimate("theme", simultaneous=False).newest.interval
    assert (alone.simultaneous, alone.together) == (False, 1)
    assert query.series("theme", composed=False, every=2).privacy is None


def test_dates_may_be_text_dates_or_times_in_any_zone(query: Query) -> None:
    expected = query.estimate("theme", start="2027-01-17")
    east = timezone(timedelta(hours=2))
    for start in (date(2027, 1, 17), datetime(2027, 1, 17, tzinfo=UTC), datetime(2027, 1, 17, 2, tzinfo=east)):
        assert query.estimate("theme", start=start) == expected


def test_a_value_is_found_by_its_label(query: Query) -> None:
    newest = query.estimate("theme").newest
    light = newest["light"]
    assert newest.leading is max(newest.values, key=lambda value: value.estimate)
    mean = query.estimate("startup_ms").newest
    assert mean.leading is mean.values[0]
    assert light in newest.values
    assert light.low is not None
    assert light.low < light.estimate
    with pytest.raises(KeyError, match="did you mean 'light'"):
        newest["ligth"]


def test_a_gap_says_why(query: Query) -> None:
    points = query.series("theme", start="2027-01-15", end="2027-01-18").points
    assert [(point.state, bool(point.values)) for point in points] == [
        ("released", True),
        ("open", False),
        ("released", True),
    ]


def test_all_pages_of_releases_are_joined(query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = query.releases()
    assert len(whole.releases) == 4
    monkeypatch.setattr("hubbub_query.query._MOST_RECORDS", 1)
    assert query.releases() == whole
    assert {one.metric for one in query.releases("theme").releases} == {"theme"}


def test_a_refusal_is_an_error_of_its_own_kind_in_the_words_of_the_problem(query: Query, address: str) -> None:
    with pytest.raises(NotFound, match="did you mean 'theme'") as found:
        query.estimate("thme")
    assert (found.value.name, found.value.status) == ("not-found", 404)
    with pytest.raises(NothingReleased, match="nothing has been released"):
        query.estimate("dark_mode")
    with pytest.raises(InvalidQuery, match="confidence"):
        query.estimate("theme", confidence=2.0)
    for token in (None, "wrong"):
        with pytest.raises(Unauthorized):
            Query(address, token=token).metrics()


def test_the_token_is_not_shown(address: str) -> None:
    assert TOKEN not in repr(Query(address, token=TOKEN))
    with pytest.raises(Unauthorized) as refused:
        Query(address, token=TOKEN[::-1]).metrics()
    assert TOKEN[::-1] not in str(refused.value)


def test_nobody_there_is_told_apart_from_somebody_else(address: str) -> None:
    with pytest.raises(NoAnswer, match="no aggregator answers"):
        Query(f"http://127.0.0.1:{reserved_port()}").metrics()
    with pytest.raises(NoAnswer, match="write it like"):
        Query("127.0.0.1:8702").metrics()
    for answer in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
    ):
        with answering(answer) as other, pytest.raises(UnreadableAnswer, match="is the address right"):
            Query(other).metrics()
    moved = f"HTTP/1.1 302 There\r\nLocation: {address}\r\nContent-Length: 0\r\n\r\n".encode()
    with answering(moved) as other, pytest.raises(UnreadableAnswer, match="sends readers on to"):
        Query(other, token=TOKEN).metrics()  # the token would go with it


def test_an_answer_of_another_version_names_what_is_missing(query: Query) -> None:
    document = query.json("/v1/metrics/theme/estimate")
    assert read(Estimate, {**document, "colour": "green"}) == query.estimate("theme")
    del document["segments"][0]["reports"]
    with pytest.raises(UnreadableAnswer, match="'reports' is missing"):
        read(Estimate, document)


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server that gives one caller these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(10)
