"""How a privacy figure is written: in a few digits, and never better than it is."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context

__all__ = ["above"]

_MEANT = Context(prec=12)
"""Digits in which a float is what was meant: 1.0000000000000002 is 1, rounded up by the accountant."""
_LARGE = 1000
"""From here on thousands are set apart, and no decimals are written."""


def above(number: float, digits: int = 3) -> str:
    """The number rounded up to so many digits."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(_MEANT.create_decimal(repr(number)))
    if rounded < _LARGE or not rounded.is_finite():
        return f"{float(rounded):.{digits}g}"
    return f"{rounded.to_integral_value(ROUND_CEILING):,f}"  # written without decimals, so rounded up again
