"""Reducers: many recorded values become at most one per metric and period, on the device.

This bounds what a device contributes: whatever was recorded, one value is randomized. A reducer is a pure
step over a small JSON state that the SDK stores between records:

    state = reducer.add(state, value, rng)      # state is None at first
    value = reducer.result(state)

Values are as `Metric.recorded` returns them: a bool, a string or a finite number. No sequence of them can
give NaN or infinity: infinite numbers became a bound before they came here, and a sum beyond the largest
float stays at it, from where the metric's bounds clamp it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from hubbub.problems import InvalidParameter, InvalidValue, did_you_mean

if TYPE_CHECKING:
    from hubbub.randomness import Randomness

__all__ = ["REDUCERS", "Reducer", "State", "Value", "ValueKind", "reducer"]

Value: TypeAlias = bool | str | float
ValueKind: TypeAlias = Literal["boolean", "category", "number"]


class State(TypedDict):
    """What is kept between records: JSON as it stands."""

    count: int
    value: Value


@dataclass(frozen=True, slots=True)
class Reducer:
    """One way to make one value of many."""

    name: str
    meaning: str
    fits: frozenset[ValueKind]
    """The kinds of value for which the result means something."""
    merge: Callable[[Value, Value, int, Randomness], Value]
    """(kept value, new value, how many with the new one, randomness) -> kept value."""

    def add(self, state: State | None, value: Value, rng: Randomness) -> State:
        """The state after one more value; the state that was given is not changed."""
        value = _checked(value)
        if state is None:
            return {"count": 1, "value": value}
        count = state["count"] + 1
        return {"count": count, "value": self.merge(state["value"], value, count, rng)}

    def result(self, state: State) -> Value:
        """The one value that stands for all."""
        return state["value"]


def _first(kept: Value, _new: Value, _count: int, _rng: Randomness) -> Value:
    return kept


def _last(_kept: Value, new: Value, _count: int, _rng: Randomness) -> Value:
    return new


def _sum(kept: Value, new: Value, _count: int, _rng: Randomness) -> Value:
    return max(-sys.float_info.max, min(_number(kept) + _number(new), sys.float_info.max))


def _max(kept: Value, new: Value, _count: int, _rng: Randomness) -> Value:
    return max(_number(kept), _number(new))


def _mean(kept: Value, new: Value, count: int, _rng: Randomness) -> Value:
    # a running mean, term by term: the sum, and even the difference of two values, could overflow
    return _number(kept) - _number(kept) / count + _number(new) / count


def _reservoir(kept: Value, new: Value, count: int, rng: Randomness) -> Value:
    return new if rng.coin(1, count) else kept


_ANY: frozenset[ValueKind] = frozenset({"boolean", "category", "number"})
_ORDERED: frozenset[ValueKind] = frozenset({"boolean", "number"})
_NUMBER: frozenset[ValueKind] = frozenset({"number"})

REDUCERS: Mapping[str, Reducer] = {
    reducer.name: reducer
    for reducer in (
        Reducer("first", "the value recorded first; due at once, unless `missing` is declared", _ANY, _first),
        Reducer("last", "the value recorded last", _ANY, _last),
        Reducer("sum", "the sum of all values", _NUMBER, _sum),
        Reducer("max", "the largest value; of booleans, whether any was true", _ORDERED, _max),
        Reducer("mean", "the mean of all values", _NUMBER, _mean),
        Reducer("reservoir", "one of the values, each equally likely", _ANY, _reservoir),
    )
}


def reducer(name: str) -> Reducer:
    """The reducer of this name, or InvalidParameter that suggests the nearest one."""
    if name in REDUCERS:
        return REDUCERS[name]
    raise InvalidParameter(
        f"no reducer is named {name!r}: {did_you_mean(name, REDUCERS) or 'use one of ' + ', '.join(REDUCERS)}"
    )


def _checked(value: Value) -> Value:
    if isinstance(value, bool | str):
        return value
    if not isinstance(value, int | float):
        raise InvalidValue(f"a reducer takes booleans, strings and numbers, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValue(f"a reducer takes finite numbers, got {number}: use Metric.recorded, which clamps")
    return number


def _number(value: Value) -> float:
    if isinstance(value, str):
        raise InvalidValue(f"only numbers can be reduced so, got {value!r}: use first, last or reservoir")
    return value
