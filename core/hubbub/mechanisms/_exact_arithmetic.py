"""Epsilon and its exponential in rational arithmetic, rounded towards more privacy.

A probability leaves this module only as an integer or a Fraction. Floats describe; they never decide.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction

from hubbub.errors import InvalidParameter

SMALLEST_EPSILON = Fraction(1, 10_000)
LARGEST_EPSILON = Fraction(30)
_DIGITS = 60
_LARGEST_EXPONENT = 400


def exact_number(value: object, what: str) -> Fraction:
    """The number as a person wrote it: 0.3 means 3/10, not the nearest binary float."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal | Fraction):
        raise InvalidParameter(f"{what} must be a number, got {value!r}")
    try:
        _refuse_if_endless(value)
        number = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (ValueError, OverflowError, InvalidOperation, ZeroDivisionError) as error:
        raise InvalidParameter(f"{what} must be a finite number of ordinary size, got {value!r}") from error
    return number


def _refuse_if_endless(value: object) -> None:
    """Refuse numbers like `1e5000000`: nine characters that would take seconds to compute with. Floats end at 1e308."""
    exponent = value.lower().partition("e")[2] if isinstance(value, str) else ""
    if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
        raise OverflowError
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise OverflowError


def exact_epsilon(value: object) -> Fraction:
    """A usable local epsilon, exactly as written."""
    epsilon = exact_number(value, "epsilon")
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise InvalidParameter(
            f"epsilon must be between {float(SMALLEST_EPSILON)} and {float(LARGEST_EPSILON):g}, got {value}: "
            "below that a report says nothing, and above it hides nothing (0.5 to 4 is usual)"
        )
    return epsilon


def exp_below(exponent: Fraction) -> Fraction:
    """A rational just below exp(exponent), within a relative 1e-57.

    The exponent is rounded down. `Decimal.exp` is correctly rounded, so one step down is below the true value.
    """
    down = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    power = down.exp(down.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
    return Fraction(down.next_minus(power))


def log_above(ratio: Fraction) -> Fraction:
    """A rational at or just above ln(ratio), for ratio >= 1, within 1e-57."""
    up = Context(prec=_DIGITS, rounding=ROUND_CEILING)
    return Fraction(up.next_plus(up.ln(up.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))))


def float_above(number: Fraction) -> float:
    """The smallest float at or above a rational."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def threshold(probability: Fraction) -> int:
    """The largest integer out of 2**64 that does not exceed a probability."""
    return int(probability * 2**64)


def short_threshold_above(probability: Fraction, digits: int = 24) -> int:
    """The least integer out of 2**64 that is not below a probability and has `digits` significant binary digits.

    Coins for many bits at once cost a random bit for each digit. 24 digits lose a ten-millionth of epsilon.
    """
    above = -((-probability.numerator * 2**64) // probability.denominator)
    spare = max(above.bit_length() - digits, 0)
    return -(-above >> spare) << spare


def decimal_text(number: Fraction) -> str:
    """The number as text that `Fraction` reads back exactly: a decimal if there is one, otherwise a/b."""
    denominator = number.denominator
    while denominator % 2 == 0:
        denominator //= 2
    while denominator % 5 == 0:
        denominator //= 5
    if denominator != 1:
        return str(number)
    wide = Context(prec=2000)
    text = format(wide.divide(Decimal(number.numerator), Decimal(number.denominator)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
