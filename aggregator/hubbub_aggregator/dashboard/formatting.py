"""Numbers, times and lengths as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from hubbub.number_format import amount, count, probability, raised
from hubbub.period import duration_seconds

__all__ = [
    "ago",
    "amount",
    "change",
    "count",
    "delta",
    "epsilon",
    "every",
    "interval",
    "length",
    "moment",
    "odds",
    "probability",
    "sentence",
    "share",
    "size",
    "span",
    "value",
    "within",
]

_MINUS = "\N{MINUS SIGN}"
_THIN = "\N{NARROW NO-BREAK SPACE}"
_BEYOND = 20
"""From this epsilon on, e^epsilon is too long a number to mean anything to a reader."""
_UNITS = {"w": "week", "d": "day", "h": "hour", "m": "minute", "s": "second"}


def share(number: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    if number is None:
        return "–"
    text = f"{abs(100 * number):.{digits}f}"
    sign = _MINUS if number < 0 and float(text) else ""
    return f"{sign}{text}{_THIN}%"


def value(number: float | None, *, is_share: bool, unit: str | None = None) -> str:
    return share(number) if is_share else amount(number) + (f"{_THIN}{unit}" if unit and number is not None else "")


def change(number: float | None, *, is_share: bool, unit: str | None = None) -> str:
    """A difference, with its sign; of shares in percentage points."""
    if number is None:
        return "–"
    sign = "+" if number > 0 else ""
    told = f"{100 * number:.1f} pp".replace("-", _MINUS) if is_share else value(number, is_share=False, unit=unit)
    return sign + told


def interval(low: float | None, high: float | None, *, is_share: bool, unit: str | None = None) -> str:
    """From the lower to the upper limit."""
    return f"{value(low, is_share=is_share)} to {value(high, is_share=is_share, unit=unit)}"


def epsilon(number: float) -> str:
    """Three digits, rounded up: a guarantee is never shown better than it is."""
    if number <= 0 or not math.isfinite(number):
        return f"{number:g}"
    places = max(0, 2 - math.floor(math.log10(number)))
    scaled = number * 10**places
    nearest = round(scaled)
    up = nearest if abs(scaled - nearest) < 1e-9 * max(1.0, scaled) else math.ceil(scaled)
    text = f"{up / 10**places:,.{places}f}".replace(",", _THIN)
    return text.rstrip("0").rstrip(".") if "." in text else text


def odds(number: float) -> str:
    """e^epsilon, the most by which a report can be likelier from one value than from another, rounded up as well."""
    return epsilon(math.exp(number)) if number < _BEYOND else f"e to the power of {epsilon(number)}"


def delta(number: float) -> str:
    """Two digits after the point at most, rounded up, times a power of ten."""
    if number <= 0:
        return "0"
    exponent = math.floor(math.log10(number))
    front = math.ceil(number / 10**exponent * 100 - 1e-6) / 100
    if front >= 10:
        front, exponent = front / 10, exponent + 1
    power = f"10{raised(exponent)}"
    return power if front == 1 else f"{front:g} × {power}"


def length(text: str) -> str:
    """A period's length in words: `1d` is a day."""
    number, unit = text[:-1], _UNITS[text[-1]]
    return unit if number == "1" else f"{number} {unit}s"


def every(text: str) -> str:
    """How often, in words: `1d` is once a day."""
    return f"once a {length(text)}" if text[:-1] == "1" else f"once {within(text)}"


def within(text: str) -> str:
    """Within which time, in words: `1d` is in a day."""
    return f"in a {length(text)}" if text[:-1] == "1" else f"in {length(text)}"


def span(first: str, last: str) -> str:
    """From one period to another. If both are on one day, the day is named once."""
    day, _, hour = last.partition("T")
    return f"{first} to {hour if hour and first.startswith(day) else last}"


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def ago(seconds: float) -> str:
    """How long ago, in one unit, rounded down."""
    seconds = max(0.0, seconds)
    for unit in ("w", "d", "h", "m"):
        each = duration_seconds(f"1{unit}")
        if seconds >= 2 * each:
            return f"{int(seconds // each)} {_UNITS[unit]}s ago"
    return "just now" if seconds < 60 else "1 minute ago"


def sentence(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def size(number: int | None) -> str:
    if number is None:
        return "unknown"
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000  # type: ignore[assignment]  # a float from here on
    return f"{number:,.0f}{_THIN}{unit}" if unit == "bytes" else f"{number:,.1f}{_THIN}{unit}"
