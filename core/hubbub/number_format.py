"""Number formatting for people: probabilities, counts and amounts in the sentences of mechanisms and metric types."""

from __future__ import annotations

import math

__all__ = ["amount", "count", "probability", "raised"]

_MINUS = "\N{MINUS SIGN}"
_THIN = "\N{NARROW NO-BREAK SPACE}"


def probability(number: float) -> str:
    """The probability in two digits. Never 0 or 1 unless it is exactly that."""
    if 0.005 <= number <= 0.995:
        return f"{number:.2f}"
    if number < 0.005:
        return f"{number:.2g}"
    digits = f"{number:.6f}".rstrip("0").rstrip(".")
    return "above 0.999999" if digits == "1" and number < 1 else digits


def count(number: float | None) -> str:
    return "–" if number is None else f"{round(number):,}".replace(",", _THIN).replace("-", _MINUS)


def amount(number: float | None) -> str:
    """A number that has its own unit: three or four significant digits, with thousands set apart."""
    if number is None:
        return "–"
    if number and not 1e-3 <= abs(number) < 1e9:
        front, _, power = f"{number:.2e}".partition("e")
        return f"{front} × 10{raised(int(power))}".replace("-", _MINUS)
    digits = 0 if abs(number) >= 100 else max(0, 2 - (math.floor(math.log10(abs(number))) if number else 2))
    return f"{number:,.{digits}f}".replace("-", _MINUS).replace(",", _THIN)


def raised(exponent: int) -> str:
    """The exponent in superscript digits."""
    return "".join("⁻" if c == "-" else "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(c)] for c in str(exponent))
