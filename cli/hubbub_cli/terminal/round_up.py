"""Privacy figures in a few digits, never shown better than they are."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context

__all__ = ["above"]

_MEANT = Context(prec=12)
"""Digits up to which a float is taken as exact: 1.0000000000000002 is 1, rounded up by the accountant."""
_LARGE = 1000
"""From here on, numbers get a thousands separator and no decimals."""


def above(number: float, digits: int = 3) -> str:
    """The number, rounded up to this many significant digits."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(_MEANT.create_decimal(repr(number)))
    if rounded < _LARGE or not rounded.is_finite():
        return f"{float(rounded):.{digits}g}"
    return f"{rounded.to_integral_value(ROUND_CEILING):,f}"  # written without decimals, so rounded up again
