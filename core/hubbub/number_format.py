"""Number formatting for people: shares, counts, amounts and probabilities, on pages, in charts and in terminals.

A percentage has no space before its sign, thousands have commas, and a page's minus is the typographic one: what
Vega-Lite writes on an axis. A terminal gets the plain minus from `ascii_minus`, because its output is copied into
programs. CSV and JSON have unformatted numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "MINUS",
    "amount",
    "ascii_minus",
    "by_chance",
    "change",
    "count",
    "interval",
    "plain",
    "probability",
    "raised",
    "share",
    "value",
]

MINUS = "\N{MINUS SIGN}"
_THIN = "\N{NARROW NO-BREAK SPACE}"
_LEAST_CHANCE = 1e-6
_MISSING = "–"


def share(number: float | None, digits: int = 1) -> str:
    """A share as a percentage. A share that rounds to zero has no sign."""
    if number is None:
        return _MISSING
    text = f"{abs(100 * number):,.{digits}f}"
    sign = MINUS if number < 0 and float(text.replace(",", "")) else ""
    return f"{sign}{text}%"


def count(number: float | None) -> str:
    return _MISSING if number is None else f"{round(number):,}".replace("-", MINUS)


def amount(number: float | None) -> str:
    """A number that has its own unit: three or four significant digits, with thousands set apart."""
    if number is None:
        return _MISSING
    if number and not 1e-3 <= abs(number) < 1e9:
        front, _, power = f"{number:.2e}".partition("e")
        return f"{front} × 10{raised(int(power))}".replace("-", MINUS)
    digits = 0 if abs(number) >= 100 else max(0, 2 - (math.floor(math.log10(abs(number))) if number else 2))
    return f"{number:,.{digits}f}".replace("-", MINUS)


def value(number: float | None, *, is_share: bool, unit: str | None = None) -> str:
    """A share as a percentage, or an amount with its unit."""
    return share(number) if is_share else amount(number) + (f"{_THIN}{unit}" if unit and number is not None else "")


def change(number: float | None, *, is_share: bool, unit: str | None = None) -> str:
    """A difference, with its sign; of shares in percentage points. No change has no sign."""
    if number is None:
        return _MISSING
    told = share(number).removesuffix("%") if is_share else amount(number)
    sign = "+" if number > 0 and any(digit in told for digit in "123456789") else ""
    after = "pp" if is_share else unit
    return f"{sign}{told}{_THIN}{after}" if after else f"{sign}{told}"


def interval(low: float | None, high: float | None, *, is_share: bool, unit: str | None = None) -> str:
    """From the lower to the upper limit."""
    return f"{value(low, is_share=is_share)} to {value(high, is_share=is_share, unit=unit)}"


def probability(number: float) -> str:
    """The probability in two digits. Never 0 or 1 unless it is exactly that."""
    if 0.005 <= number <= 0.995:
        return f"{number:.2f}"
    if number < 0.005:
        return f"{number:.2g}"
    digits = f"{number:.6f}".rstrip("0").rstrip(".")
    return "above 0.999999" if digits == "1" and number < 1 else digits


def by_chance(p: float) -> str:
    """A p-value in words: how often chance alone would do this. Rounded toward more often.

    It completes a sentence: "chance alone would do that about once in 250 times".
    """
    if p >= 0.1:
        return f"about {min(99, math.ceil(100 * p))} times in 100"
    if p < _LEAST_CHANCE:
        return "less than once in a million times"
    times = 1 / p
    step = 10.0 ** max(0, math.floor(math.log10(times)) - 1)
    return f"about once in {count(math.floor(times / step + 1e-9) * step)} times"


def ascii_minus(text: str) -> str:
    """For a terminal: the plain minus, and ordinary spaces."""
    return text.replace(MINUS, "-").replace(_THIN, " ").replace(_MISSING, "-")


def plain(number: float | Fraction) -> str:
    """At most four decimals in ASCII, as one would type the number; six digits of a very large or very small one."""
    value = float(number)
    if value and not 1e-3 <= abs(value) < 1e15:
        return f"{value:.6g}"
    return f"{value:.4f}".rstrip("0").rstrip(".")


def raised(exponent: int) -> str:
    """The exponent in superscript digits."""
    return "".join("⁻" if c == "-" else "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] for c in str(exponent))
