"""How a privacy figure is written: in a few digits, and never better than it is."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context

__all__ = ["above"]

_MEANT = Context(prec=12)
"""Digits in which a float is what was meant: 1.0000000000000002 is 1, rounded up by the accountant."""


def above(number: float, digits: int = 3) -> str:
    """The number rounded up to so many digits."""
    rounded = float(Context(prec=digits, rounding=ROUND_CEILING).create_decimal(_MEANT.create_decimal(repr(number))))
    return f"{rounded:,.0f}" if rounded >= 1000 else f"{rounded:.{digits}g}"
