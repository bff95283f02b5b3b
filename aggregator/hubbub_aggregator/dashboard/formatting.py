"""Numbers, times and lengths as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from hubbub.number_format import amount, by_chance, change, count, interval, probability, raised, share, value
from hubbub.period import duration_seconds

__all__ = [
    "a_period",
    "ago",
    "amount",
    "between",
    "by_chance",
    "change",
    "count",
    "date",
    "delta",
    "epsilon",
    "every",
    "interval",
    "length",
    "moment",
    "odds",
    "out_of_hundred",
    "probability",
    "sentence",
    "share",
    "size",
    "span",
    "stamp",
    "value",
    "within",
]

_THIN = "\N{NARROW NO-BREAK SPACE}"
_BEYOND = 20
"""From this epsilon on, e^epsilon is too long a number to mean anything to a reader."""
_UNITS = {"w": "week", "d": "day", "h": "hour", "m": "minute", "s": "second"}


def epsilon(number: float) -> str:
    """Three digits, rounded up: a guarantee is never shown better than it is."""
    if number <= 0 or not math.isfinite(number):
        return f"{number:g}"
    places = max(0, 2 - math.floor(math.log10(number)))
    scaled = number * 10**places
    nearest = round(scaled)
    up = nearest if abs(scaled - nearest) < 1e-9 * max(1.0, scaled) else math.ceil(scaled)
    text = f"{up / 10**places:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def odds(number: float) -> str:
    """e^epsilon, the most by which a report can be likelier from one value than from another, rounded up as well."""
    return epsilon(math.exp(number)) if number < _BEYOND else f"e to the power of {epsilon(number)}"


def out_of_hundred(chance: float) -> str:
    """The most of a hundred cases, rounded up: 52.03 % is "53 out of 100".

    From 99 on it has as many digits as tell it from certainty, up to four.
    """
    exact = 100 * Fraction(chance)
    for digits in range(5):
        shown = Fraction(math.ceil(exact * 10**digits), 10**digits)
        if shown < 100:
            return f"{float(shown):.{digits}f} out of 100"
    return "100 out of 100"


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
    """One period as a noun: `1d` is a "day", `10s` a "10-second period"."""
    number, unit = text[:-1], _UNITS[text[-1]]
    return unit if number == "1" else f"{number}-{unit} period"


def a_period(text: str) -> str:
    """One period with its article: `1d` is "a day", `10s` "a 10-second period", `8h` "an 8-hour period"."""
    is_vowel = text == "1h" or text.startswith("8") or text[:-1] in ("11", "18")
    return f"{'an' if is_vowel else 'a'} {length(text)}"


def every(text: str) -> str:
    """How often, in words: `1d` is once a day."""
    return f"once {a_period(text)}" if text[:-1] == "1" else f"once {within(text)}"


def within(text: str) -> str:
    """Within which time, in words: `1d` is in a day."""
    return f"in {a_period(text)}" if text[:-1] == "1" else f"in {text[:-1]} {_UNITS[text[-1]]}s"


def date(text: str, now: float | None = None) -> str:
    """A period's start as people say it: "18 Nov 2026", or "18 Nov 2026, 23:09 UTC" if it has a time.

    With `now`, a time of today or yesterday is "Today 23:09 UTC". A whole day keeps its date.
    """
    when, has_time = _read(text)
    if not has_time:
        return _day(when)
    day = _day(when) + ","
    if now is not None:
        today = datetime.fromtimestamp(now, UTC).date()
        day = {0: "Today", 1: "Yesterday"}.get((today - when.date()).days, day)
    return f"{day} {_clock(when)} UTC"


def span(first: str, last: str) -> str:
    """From one period to another, both included. What the two have in common is said once."""
    (start, has_time), (end, _) = _read(first), _read(last)
    if start == end:
        return date(first)
    if has_time:
        if start.date() == end.date():
            return f"{_day(start)}, {_clock(start)} to {_clock(end)} UTC"
        return f"{_day(start)}, {_clock(start)} to {_day(end)}, {_clock(end)} UTC"
    if start.year != end.year:
        return f"{_day(start)} to {_day(end)}"
    if start.month != end.month:
        return f"{start.day} {start:%b} to {_day(end)}"
    return f"{start.day} to {_day(end)}"


def between(start: str, end: str) -> str:
    """A range of periods whose end is left out, as the API gives it. Of days, the last one inside is named."""
    last, has_time = _read(end)
    if has_time or last <= _read(start)[0]:
        return span(start, end)
    return span(start, (last - timedelta(days=1)).date().isoformat())


def moment(seconds: float, now: float | None = None) -> str:
    """A time with its zone, and with seconds only if it has some: "18 Nov 2026, 23:09 UTC"."""
    return date(stamp(seconds), now)


def stamp(seconds: float) -> str:
    """A time for machines, in ISO 8601, rounded down to seconds."""
    return f"{datetime.fromtimestamp(math.floor(seconds), UTC):%Y-%m-%dT%H:%M:%S}Z"


def _read(text: str) -> tuple[datetime, bool]:
    """A label of a period, and whether it has a time of day."""
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo is None else when.astimezone(UTC)).replace(tzinfo=None), "T" in text


def _day(when: datetime) -> str:
    return f"{when.day} {when:%b %Y}"


def _clock(when: datetime) -> str:
    return f"{when:%H:%M:%S}" if when.second else f"{when:%H:%M}"


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
