"""Numbers in a codebook: exactly as written, and small enough to compute with.

0.3 means 3/10. In the compiled form a number is its shortest decimal text, so that ids do not depend on how
a language prints floats.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import decimal_text
from hubbub.metric_types.base import Key

__all__ = ["UNIT", "a_unit", "decimal_text", "exact"]

_MOST_DIGITS = 50
_LONGEST_UNIT = 20
_NOT_IN_A_UNIT = re.compile(
    "[\\x00-\\x1f\\x7f-\\xa0\\xad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u1680\\u180e\\u2000-\\u200f"
    "\\u2028-\\u202f\\u205f-\\u206f\\u3000\\ud800-\\uf8ff\\ufeff\\ufff0-\\U0010ffff]"
)
"""Controls, format characters, spaces but U+0020, private use, and all above U+FFEF: a list, since what `isprintable`
says depends on the version of Unicode, and other languages have no such function."""
_LARGEST_EXPONENT = 300


def exact(value: object) -> Fraction:
    """A TOML number, exactly. Refuses numbers that would take gigabytes to write out, such as 1e999999999."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise InvalidParameter(f"expected a number, got {value!r}")
    number = Decimal(value)
    if not number.is_finite():
        raise InvalidParameter(f"expected a finite number, got {value}")
    # zeros at the end are free: the compiled form writes 1e100 in full, and must be read again
    if len(bytes(number.as_tuple().digits).rstrip(b"\0")) > _MOST_DIGITS or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise InvalidParameter(f"expected at most {_MOST_DIGITS} digits and an exponent within ±{_LARGEST_EXPONENT}")
    return Fraction(number)


UNIT = Key(
    "unit",
    'text in quotes of 1 to 20 visible characters (no emoji) without spaces around it, such as "ms" or "km/h"',
    "none",
    "The unit in which numbers are shown. Not part of the id, so it may be edited at any time.",
)
"""The key for every type whose results are numbers."""


def a_unit(value: object) -> str:
    """A unit, as read from a codebook."""
    if (
        isinstance(value, str)
        and 1 <= len(value) <= _LONGEST_UNIT
        and value == value.strip(" ")
        and _NOT_IN_A_UNIT.search(value) is None
    ):
        return value
    raise InvalidParameter(f"{value!r} is not a unit")
