"""tests/vectors/v1/reducers.json: what is kept after each of a sequence of recorded values."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle, islice
from typing import Any

from hubbub.errors import InvalidValue
from hubbub.mechanisms import Bounds
from hubbub.metric_types import metric_type
from hubbub.reduce import MOST_REMEMBERED, reducer
from scripts.vectors.streams import Recorded, stream

__all__ = ["reduced", "reducers"]

_LARGEST = sys.float_info.max
_NUMBERS: dict[str, list[float]] = {
    "few": [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0],
    "thirds": [0.1, 0.2, 0.3, 1 / 3, 2 / 3, 1e-3],
    "cancelling": [1e16, 1.0, -1e16, 1.0, 1.0],
    "zeros": [-0.0, 0.0, -0.0, 0.0],
    "overflow": [_LARGEST, _LARGEST, -_LARGEST, _LARGEST / 2, -_LARGEST, -_LARGEST],
    "smallest": [5e-324, 5e-324, -5e-324, 2.2250738585072014e-308, 5e-324],
    "infinite": [math.inf, 1.0, -math.inf, math.inf],
    "whole": [2.0**53, 1.0, 2.0**53 + 2, -1.0],
}


def reducers() -> list[dict[str, Any]]:
    return list(_cases())


def reduced(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Count and value after each value of the case."""
    rng, made, state = Recorded(bytes.fromhex(case["stream"])), reducer(case["reduce"]), None
    bounds = Bounds(*map(Fraction, case["bounds"])) if "bounds" in case else None
    after = []
    for written in case["values"]:
        value = float.fromhex(written) if case["of"] == "doubles" else written
        if bounds is not None:
            value = _number_in(bounds, value)
        state = made.add(state, value, rng)
        after.append({"count": state["count"], "value": _written(made.result(state))})
    return after


def _number_in(bounds: Bounds, value: Any) -> Any:
    """As a metric with these bounds records it: an infinite number becomes a bound."""
    made = metric_type("mean").around(bounds)
    if made is None:
        raise InvalidValue("no type of numbers")
    return made.recorded(value)


def _written(value: Any) -> Any:
    """A double as C writes it in hex, so that every language reads the same one."""
    return value.hex() if isinstance(value, float) else value


def _case(name: str, values: list[Any], size: int = 0, **more: Any) -> dict[str, Any]:
    kinds: dict[type, str] = {float: "doubles", bool: "flags", str: "words"}
    case = {"reduce": name, "of": kinds[type(values[0])], **more, "values": [_written(value) for value in values]}
    drawn = stream(f"{name} {len(values)}", size)
    return case | {"stream": drawn.hex(), "after": reduced(case | {"stream": drawn.hex()})}


def _cases() -> Iterator[dict[str, Any]]:
    for name in ("first", "last", "sum", "min", "max", "mean", "median", "count"):
        for values in _NUMBERS.values():
            yield _case(name, values, bounds=["-1000", "1000"])
    for name in ("first", "last", "max", "min", "most_common"):
        for flags in ([False, True, False], [True, False, False], [False, False]):
            yield _case(name, [*flags])
    words = ["b", "a", "a", "c", "b", "\u00e9", "b"]
    for name in ("first", "last", "most_common"):
        yield _case(name, words)
    for some in ([*words, *words], [1.0, 2.0, 3.0, 4.0], [True, False] * 3):
        yield _case("reservoir", [*some], 64)
    yield _exact(_case("reservoir", [str(place) for place in range(300)], 1_000))
    many = [float(place * 7 % 300) for place in range(MOST_REMEMBERED + 45)]
    yield _exact(_case("median", many, 200, bounds=["0", "300"]))
    different = [str(place) for place in range(MOST_REMEMBERED)]
    yield _last_few(_case("most_common", [*different, "new", *islice(cycle(["1", "newer", "new"]), 8)]))


def _exact(case: dict[str, Any]) -> dict[str, Any]:
    """The case with no more of the stream than it takes, and only the last states of many."""
    size = len(case["stream"]) // 2
    while size:
        try:
            reduced(case | {"stream": case["stream"][: 2 * size - 2]})
        except EOFError:
            break
        size -= 1
    return _last_few(case | {"stream": case["stream"][: 2 * size]})


def _last_few(case: dict[str, Any]) -> dict[str, Any]:
    """`after` holds the states after the last values only."""
    return case | {"after": case["after"][-50:]}
