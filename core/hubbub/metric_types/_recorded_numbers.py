"""Numbers that an app records: what is kept of them, and the bounds and reducers of every type that takes numbers."""

from __future__ import annotations

import math

from hubbub.errors import InvalidParameter, InvalidValue
from hubbub.mechanisms import Bounds
from hubbub.metric_types._exact_numbers import exact
from hubbub.metric_types.base import Key

__all__ = ["BOUNDS", "NUMBER_REDUCERS", "is_number", "kept", "two_bounds"]

NUMBER_REDUCERS = ("mean", "first", "last", "sum", "max", "min", "median", "count", "reservoir")

BOUNDS = Key(
    "bounds",
    "two numbers, lower and upper, such as [0, 5000]",
    "required for mean, and for distribution without a list of `edges`",
    "Numbers outside are clamped. Take the bounds from domain knowledge, never from the data.",
)


def two_bounds(value: object) -> Bounds:
    """Bounds, as read from a codebook."""
    match value:
        case [lower, upper]:
            return Bounds(exact(lower), exact(upper))
    raise InvalidParameter(f"expected two numbers, got {value!r}")


def kept(value: object, kind: str, lower: float, upper: float) -> float:
    """A finite float. Only infinity is clamped here, because a sum may be in bounds although its parts are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValue(f"a {kind} metric takes int or float, got {value!r}: pass float(...), or record nothing")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        raise InvalidValue(f"a {kind} metric takes numbers, got NaN: check the value, or record nothing")
    if math.isinf(number):
        return upper if number > 0 else lower
    return number


def is_number(value: object) -> bool:
    """Whether `kept` would keep the value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or not math.isnan(value)  # math.isnan fails for a very large integer
