"""Reducers: one finite value comes out of any values that went in."""

from __future__ import annotations

import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import InvalidParameter, InvalidValue
from hubbub.metric_types import metric_type, registered
from hubbub.randomness import Randomness, SystemRandomness
from hubbub.reduce import MOST_REMEMBERED, REDUCERS, State, Value, reducer

numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)
NUMERIC = list(metric_type("mean").reducers)


class Script(Randomness):
    """Answers coins from a list and remembers the odds it was asked for."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers, self.odds = answers, list[tuple[int, int]]()

    def bits(self, count: int) -> int:
        raise AssertionError(f"no reducer needs {count} bits directly")

    def coin(self, numerator: int, denominator: int) -> bool:
        self.odds.append((numerator, denominator))
        return self.answers.pop(0)


class Place(Script):
    """Draws the fourth place, too."""

    def bits(self, count: int) -> int:
        assert count == 8
        return 3


def reduced(name: str, values: list[Value], rng: Randomness | None = None) -> Value:
    state: State | None = None
    for value in values:
        state = reducer(name).add(state, value, rng or SystemRandomness())
        state = json.loads(json.dumps(state, allow_nan=False))  # as the SDK stores it
    assert state is not None
    return reducer(name).result(state)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("first", ["a", "b", "c"], "a"),
        ("last", ["a", "b", "c"], "c"),
        ("first", [True, False], True),
        ("last", [True, False], False),
        ("max", [False, True, False], True),
        ("max", [3, 7.5, -1], 7.5),
        ("sum", [3, 7.5, -1], 9.5),
        ("mean", [1, 2, 3, 6], 3.0),
        ("mean", [5], 5.0),
        ("min", [3, 7.5, -1], -1),
        ("min", [True, False], False),
        ("median", [9, 1, 5], 5),
        ("median", [9, 1, 5, 6], 5.5),
        ("median", [1e308, 1.7e308], 1.35e308),
        ("most_common", ["a", "b", "b", "c"], "b"),
        ("most_common", ["b", "a", "a", "b"], "b"),
        ("most_common", [True, False, False], False),
        ("most_common", [["a", "x"], ["b", "x"], ["b", "x"]], ["b", "x"]),
        ("count", ["a", 3, True], 3),
    ],
)
def test_a_reducer_does_what_its_name_says(name: str, values: list[Value], expected: Value) -> None:
    assert reduced(name, values) == expected


@pytest.mark.parametrize("name", NUMERIC)
@given(values=numbers)
def test_no_sequence_of_finite_numbers_gives_nan_or_infinity(name: str, values: list[Value]) -> None:
    result = reduced(name, values)

    assert isinstance(result, float)
    assert math.isfinite(result)


@given(numbers)
def test_a_mean_lies_between_the_least_and_the_largest_value(values: list[float]) -> None:
    result = reduced("mean", list(values))

    slack = 1e-12 * max(map(abs, values))
    assert isinstance(result, float)
    assert min(values) - slack <= result <= max(values) + slack


def test_a_sum_beyond_the_largest_float_stays_at_it() -> None:
    largest = sys.float_info.max

    assert reduced("sum", [largest, largest]) == largest
    assert reduced("sum", [-largest, -largest, -largest]) == -largest


def test_a_reservoir_keeps_the_nth_value_with_chance_one_in_n() -> None:
    rng = Script([True, False, True])

    assert reduced("reservoir", ["a", "b", "c", "d"], rng) == "d"
    assert rng.odds == [(1, 2), (1, 3), (1, 4)]


def test_a_reservoir_draws_every_value_equally_often() -> None:
    """Follows from the odds: kept with 1/n, then survives n/(n+1) ... each value ends with 1/4."""
    law: dict[Value, float] = {}
    for path in range(8):
        coins = [bool(path >> step & 1) for step in range(3)]
        weight = math.prod(1 / (n + 2) if coin else 1 - 1 / (n + 2) for n, coin in enumerate(coins))
        drawn = reduced("reservoir", ["a", "b", "c", "d"], Script(coins))
        law[drawn] = law.get(drawn, 0) + weight

    assert law == pytest.approx({"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25})


@pytest.mark.parametrize("name", REDUCERS)
def test_adding_does_not_change_the_state_it_was_given(name: str) -> None:
    state = reducer(name).add(None, True, SystemRandomness())
    kept = dict(state)

    reducer(name).add(state, False, SystemRandomness())

    assert state == kept


@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, None, [math.nan], {"a": 1}, b"x"])
def test_what_is_no_value_is_refused_by_every_reducer(name: str, value: Value) -> None:
    with pytest.raises(InvalidValue):
        reducer(name).add(None, value, SystemRandomness())


def test_strings_are_refused_where_only_numbers_can_be_reduced() -> None:
    state = reducer("sum").add(None, "a", SystemRandomness())

    with pytest.raises(InvalidValue, match="use first, last or reservoir"):
        reducer("sum").add(state, "b", SystemRandomness())


def test_an_unknown_reducer_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidParameter, match="did you mean 'mean'"):
        reducer("meen")
    with pytest.raises(InvalidParameter, match="use one of first, last, sum, max, min, mean, median"):
        reducer("xyz")


def test_a_median_of_very_many_is_that_of_a_fair_sample() -> None:
    """Each later value takes the place of one that was kept with a chance of those kept in all: as in a reservoir."""
    rng = Place([False, True])
    state: State | None = None
    for value in [*range(MOST_REMEMBERED), 1e6, -1e6]:
        state = reducer("median").add(state, value, rng)
    assert state is not None
    assert rng.odds == [(MOST_REMEMBERED, MOST_REMEMBERED + 1), (MOST_REMEMBERED, MOST_REMEMBERED + 2)]
    assert len(state["seen"]) == MOST_REMEMBERED
    assert -1e6 in state["seen"]


def test_what_is_recorded_most_often_is_never_forgotten_however_many_others_come() -> None:
    """Also where more different values come than are remembered; what a device keeps stays bounded."""
    state: State | None = None
    for number in range(2_000):
        state = reducer("most_common").add(state, "usual" if number % 5 == 0 else f"rare {number}", SystemRandomness())
    assert state is not None
    assert reducer("most_common").result(state) == "usual"
    assert len(state["seen"]) == MOST_REMEMBERED


def test_every_type_names_reducers_that_there_are() -> None:
    for name, found in registered().items():
        assert set(found.reducers) <= set(REDUCERS), name
    assert {name for found in registered().values() for name in found.reducers} == set(REDUCERS)
