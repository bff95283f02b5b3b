"""Bounded numbers: a value's exact place between its bounds, and unbiased random rounding to a grid."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.errors import InvalidValue
from hubbub.number_format import amount
from hubbub.randomness import WORD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.mechanisms.domains import Bounds
    from hubbub.randomness import BulkRandomness, Randomness


def position(value: object, bounds: Bounds, name: str) -> tuple[int, int]:
    """How far the value is from the lower bound to the upper one, as a ratio of integers, clamped to 0 .. 1."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Decimal):
        raise InvalidValue(f"{name} randomizes a number, got {value!r}: record a number or nothing")
    if isinstance(value, Decimal) and not value.is_finite():
        value = math.nan if value.is_nan() else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise InvalidValue(f"{name} randomizes a number, got NaN: record a number or nothing")
        return (1, 1) if value > 0 else (0, 1)
    numerator, denominator = value.as_integer_ratio()
    low, width = bounds.lower, bounds.width
    up = (numerator * low.denominator - low.numerator * denominator) * width.denominator
    whole = denominator * low.denominator * width.numerator
    if up <= 0:
        return 0, 1
    return (up, whole) if up < whole else (1, 1)


def round_to_grid(value: object, bounds: Bounds, steps: int, name: str, rng: Randomness) -> int:
    """A random grid point 0 .. steps whose expectation is the value's exact place."""
    up, whole = position(value, bounds, name)
    below, rest = divmod(up * steps, whole)
    return below + rng.coin(rest, whole)


def positions(values: ArrayLike, bounds: Bounds, name: str) -> NDArray[np.float64]:
    """`position` of many values, as floats."""
    import numpy as np

    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or np.isnan(array).any():
        raise InvalidValue(f"{name} randomizes numbers that are not NaN; got an array of {array.dtype}")
    return np.clip((array.astype(np.float64) - float(bounds.lower)) / float(bounds.width), 0, 1)


def round_many_to_grid(
    values: ArrayLike, bounds: Bounds, steps: int, name: str, rng: BulkRandomness
) -> NDArray[np.int64]:
    """`round_to_grid` of many values. A place is a float here, exact to 2**-52. That affects the mean in the
    sixteenth digit. It does not affect privacy, which rests on the noise that follows."""
    import numpy as np

    scaled = positions(values, bounds, name) * steps
    below = np.floor(scaled)
    threshold = np.minimum(np.ldexp(scaled - below, 64), np.nextafter(WORD, 0)).astype(np.uint64)
    return below.astype(np.int64) + (rng.words(len(threshold)) < threshold)


def clamped(bounds: Bounds) -> str:
    """The beginning of a sentence about a mechanism for numbers."""
    low, high = map(amount, bounds.limits)
    return f"Each device clamps its number to {low} to {high}"
