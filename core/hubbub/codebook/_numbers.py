"""Numbers as a person wrote them: exact, and small enough to compute with.

0.3 means 3/10. In the compiled form a number is its shortest decimal text, so that ids do not depend on how
any language prints floats.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from hubbub.mechanisms._exact import decimal_text
from hubbub.problems import InvalidParameter

__all__ = ["decimal_text", "exact"]

_MOST_DIGITS = 50
_LARGEST_EXPONENT = 300


def exact(value: object) -> Fraction:
    """A TOML number, exactly. Refuses what would take gigabytes to write out, such as 1e999999999."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise InvalidParameter(f"expected a number, got {value!r}")
    number = Decimal(value)
    if not number.is_finite():
        raise InvalidParameter(f"expected a finite number, got {value}")
    if len(number.as_tuple().digits) > _MOST_DIGITS or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise InvalidParameter(f"expected at most {_MOST_DIGITS} digits and an exponent within ±{_LARGEST_EXPONENT}")
    return Fraction(number)
