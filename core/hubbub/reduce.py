"""Reducers, which turn many recorded values into at most one per metric and period, on the device.

They bound what a device contributes: however many values were recorded, one is randomized. A reducer is a pure
step over a small JSON state that the SDK stores between records:

    state = reducer.add(state, value, rng)      # state is None at first
    value = reducer.result(state)

Values are as `Metric.recorded` returns them: a bool, a string, a finite number, or a list of these. No sequence of
them can give NaN or infinity: `Metric.recorded` has replaced infinite numbers by a bound, and a sum beyond the largest
float stays at that float, which the metric's bounds then clamp.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypeAlias, TypedDict

from hubbub.errors import InvalidParameter, InvalidValue, did_you_mean

if TYPE_CHECKING:
    from hubbub.randomness import Randomness

__all__ = ["REDUCERS", "Reducer", "State", "Value", "reducer"]

Value: TypeAlias = "bool | str | float | list[Value]"
"""What a device keeps of a recorded value, as JSON. A list is a value of several attributes."""

MOST_REMEMBERED = 255
"""Most values that a median or a most common value is made from. If there are more, the median uses a fair sample of
this size, and the other reducer keeps the most frequent values."""


class State(TypedDict):
    """What is kept between records, as JSON. `value` is the result so far."""

    count: int
    value: Value
    seen: NotRequired[list[Any]]
    """Only for a reducer that needs more than one value to continue."""


@dataclass(frozen=True, slots=True)
class Reducer:
    """One way to make one value of many. Each metric type says which reducers fit it (`MetricType.reducers`)."""

    name: str
    meaning: str
    to_the_person: str
    """The same for the person whose device it is. Completes "at most once a day, ..."."""
    merge: Callable[[State, Value, int, Randomness], State]
    """(state, new value, number of values with the new one, randomness) -> state."""
    begin: Callable[[Value], State]
    of_nothing: int | None = None
    """The result when nothing was recorded, or None if there is none."""

    def add(self, state: State | None, value: Value, rng: Randomness) -> State:
        """The state after one more value. The given state is not changed."""
        value = _checked(value)
        return self.begin(value) if state is None else self.merge(state, value, state["count"] + 1, rng)

    def result(self, state: State) -> Value:
        """The one value that stands for all recorded ones."""
        return state["value"]


_Step: TypeAlias = "Callable[[Value, Value, int, Randomness], Value]"
"""(kept value, new value, number of values with the new one, randomness) -> kept value."""


def _begin(value: Value) -> State:
    return {"count": 1, "value": value}


def _of_one(name: str, meaning: str, to_the_person: str, step: _Step) -> Reducer:
    """A reducer that keeps one value and nothing else."""

    def merge(state: State, new: Value, count: int, rng: Randomness) -> State:
        return {"count": count, "value": step(state["value"], new, count, rng)}

    return Reducer(name, meaning, to_the_person, merge, _begin)


def _first(kept: Value, _new: Value, _count: int, _rng: Randomness) -> Value:
    return kept


def _last(_kept: Value, new: Value, _count: int, _rng: Randomness) -> Value:
    return new


def _sum(kept: Value, new: Value, _count: int, _rng: Randomness) -> Value:
    return max(-sys.float_info.max, min(_number(kept) + _number(new), sys.float_info.max))


def _max(kept: Value, new: Value, _count: int, _rng: Randomness) -> Value:
    return max(_number(kept), _number(new))


def _min(kept: Value, new: Value, _count: int, _rng: Randomness) -> Value:
    return min(_number(kept), _number(new))


def _mean(kept: Value, new: Value, count: int, _rng: Randomness) -> Value:
    # a running mean, term by term, because the sum and even the difference of two values could overflow
    return _number(kept) - _number(kept) / count + _number(new) / count


def _reservoir(kept: Value, new: Value, count: int, rng: Randomness) -> Value:
    return new if rng.coin(1, count) else kept


def _begin_count(_value: Value) -> State:
    return {"count": 1, "value": 1.0}


def _count(_state: State, _new: Value, count: int, _rng: Randomness) -> State:
    return {"count": count, "value": float(count)}


def _begin_median(value: Value) -> State:
    return {"count": 1, "value": _number(value), "seen": [_number(value)]}


def _median(state: State, new: Value, count: int, rng: Randomness) -> State:
    seen = list(state.get("seen", [state["value"]]))
    if len(seen) < MOST_REMEMBERED:
        seen.append(_number(new))
    elif rng.coin(MOST_REMEMBERED, count):
        seen[rng.below(MOST_REMEMBERED)] = _number(new)
    ordered = sorted(seen)
    middle = len(ordered) // 2
    # halve each one first, since their sum could overflow
    value = ordered[middle] if len(ordered) % 2 else ordered[middle - 1] / 2 + ordered[middle] / 2
    return {"count": count, "value": value, "seen": seen}


def _begin_most_common(value: Value) -> State:
    return {"count": 1, "value": value, "seen": [[value, 1]]}


def _most_common(state: State, new: Value, count: int, _rng: Randomness) -> State:
    """Keep the value recorded most often; of equals, the earliest. Beyond the limit of different values, the rarest one
    makes room (Metwally, Agrawal and El Abbadi, ICDT 2005: a value above a share of 1/MOST_REMEMBERED is never
    forgotten)."""
    seen = [list(pair) for pair in state.get("seen", [[state["value"], 1]])]
    known = next((pair for pair in seen if type(pair[0]) is type(new) and pair[0] == new), None)
    if known is not None:
        known[1] += 1
    elif len(seen) < MOST_REMEMBERED:
        seen.append([new, 1])
    else:
        rarest = min(seen, key=lambda pair: pair[1])
        rarest[:] = [new, rarest[1] + 1]
    return {"count": count, "value": max(seen, key=lambda pair: pair[1])[0], "seen": seen}


REDUCERS: Mapping[str, Reducer] = {
    reducer.name: reducer
    for reducer in (
        _of_one(
            "first",
            "the value recorded first; due at once, unless `missing` is declared",
            "the first one that is recorded",
            _first,
        ),
        _of_one("last", "the value recorded last", "the last one that is recorded", _last),
        _of_one("sum", "the sum of all values", "the sum of all that are recorded", _sum),
        _of_one(
            "max", "the largest value; of booleans, whether any was true", "the largest one that is recorded", _max
        ),
        _of_one(
            "min", "the smallest value; of booleans, whether all were true", "the smallest one that is recorded", _min
        ),
        _of_one("mean", "the mean of all values", "the average of all that are recorded", _mean),
        Reducer(
            "median",
            f"the middle value; if there are more than {MOST_REMEMBERED}, the middle of a fair sample of that size",
            "the middle one of those that are recorded",
            _median,
            _begin_median,
        ),
        Reducer(
            "most_common",
            f"the value recorded most often; of equals, the earliest; {MOST_REMEMBERED} different ones are remembered",
            "the one that is recorded most often",
            _most_common,
            _begin_most_common,
        ),
        Reducer(
            "count",
            "how many values were recorded, whatever they are; declare missing = 0",
            "how many are recorded",
            _count,
            _begin_count,
            of_nothing=0,
        ),
        _of_one(
            "reservoir",
            "one of the values, each equally likely",
            "one of those that are recorded, drawn at random",
            _reservoir,
        ),
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
    if isinstance(value, list):
        return [_checked(one) for one in value]
    if not isinstance(value, int | float):
        raise InvalidValue(f"a reducer takes booleans, strings, numbers and lists of them, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValue(f"a reducer takes finite numbers, got {number}: use Metric.recorded, which clamps")
    return number


def _number(value: Value) -> float:
    if isinstance(value, str | list):
        raise InvalidValue(f"this reducer takes only numbers, got {value!r}: use first, last or reservoir")
    return value
