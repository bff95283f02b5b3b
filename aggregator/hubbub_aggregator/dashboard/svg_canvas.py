"""Responsive SVG: charts as wide as their place, with type that keeps its size.

A fluid chart has its x coordinates in percent, and its lines in an inner picture that is stretched. One drawing then
serves a phone and a wall: only the distances change, never the letters. A downloaded file has a width, and the same
chart is drawn in pixels. Colours are attributes in the light palette: a style sheet or `themed` exchanges them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from hubbub.number_format import amount, share
from hubbub.shortening import letters
from hubbub_aggregator.dashboard.palette import GRID, INK

__all__ = ["FILE_WIDTH", "FONT", "MOST_MARGIN", "Canvas", "Scale", "margin", "scale_of"]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
FILE_WIDTH = 760
"""Pixels of a downloaded chart, without its margins."""
MOST_MARGIN = 160
_UNITS = 1000
"""Width of the stretched picture, in its own units."""
_TYPE = 12.5
_LETTER = 7.2
"""Pixels of a letter or digit, in the widest of the fonts."""


@dataclass(slots=True)
class Canvas:
    """Parts of a chart, drawn between x = 0 and x = 1. `left` and `right` are the margins that labels reach into."""

    height: float
    width: int | None = None
    left: int = 0
    right: int = 0
    _parts: list[str] = field(default_factory=list)

    def x(self, at: float) -> str:
        return f"{_short(100 * at)}%" if self.width is None else _short(self.width * at)

    def add(self, markup: str) -> None:
        self._parts.append(markup)

    def path(self, points: Iterable[tuple[float, float]], *, color: str, fill: float | None = None, **more: str) -> str:
        """A line through points, or with `fill` an area of that opacity."""
        wide = self.width or _UNITS
        placed = [f"{_short(wide * x)},{_short(y)}" for x, y in points]
        drawn = "M" + "L".join(placed) + ("" if fill is None else "Z")
        look = f'fill="none" stroke="{color}"' if fill is None else f'fill="{color}" fill-opacity="{fill:g}"'
        stretched = ' vector-effect="non-scaling-stroke"' if self.width is None and fill is None else ""
        return f'<path d="{drawn}" {look}{stretched}{_attributes(more)}/>'

    def stretched(self, paths: Sequence[str]) -> None:
        """Add paths. In a fluid chart they stretch with it."""
        if not paths:
            return
        inside = "".join(paths)
        if self.width is None:
            box = f'viewBox="0 0 {_UNITS} {_short(self.height)}" preserveAspectRatio="none"'
            inside = f'<svg class="stretch" width="100%" height="{_short(self.height)}" {box}>{inside}</svg>'
        self.add(inside)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, color: str = GRID, **more: str) -> None:
        self.add(
            f'<line x1="{self.x(x1)}" y1="{_short(y1)}" x2="{self.x(x2)}" y2="{_short(y2)}" stroke="{color}"'
            f"{_attributes(more)}/>"
        )

    def rect(self, x: float, y: float, width: float, height: float, *, color: str, **more: str) -> str:
        return (
            f'<rect x="{self.x(x)}" y="{_short(y)}" width="{self.x(width)}" height="{_short(height)}" fill="{color}"'
            f"{_attributes(more)}/>"
        )

    def dot(self, x: float, y: float, r: float, *, color: str, **more: str) -> None:
        self.add(f'<circle cx="{self.x(x)}" cy="{_short(y)}" r="{r:g}" fill="{color}"{_attributes(more)}/>')

    def text(self, x: float, y: float, words: str, *, anchor: str = "start", color: str = INK, **more: str) -> None:
        """Words at a place. `dx` moves them by pixels."""
        side = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.add(
            f'<text x="{self.x(x)}" y="{_short(y)}"{side} fill="{color}"{_attributes(more)}>{escape(words)}</text>'
        )

    def svg(self) -> str:
        """The whole chart. The style sheet gives a fluid one its margins, by its classes."""
        head = f'xmlns="http://www.w3.org/2000/svg" font-family="{FONT}" font-size="{_TYPE}"'
        inside = "".join(self._parts)
        if self.width is None:
            classes = f"fluid left-{self.left} right-{self.right}"
            return f'<svg class="{classes}" {head} width="100%" height="{_short(self.height)}">{inside}</svg>'
        head = f"<svg {head}"
        wide, tall = self.width + self.left + self.right + 16, self.height + 24
        size = f'width="{_short(wide)}" height="{_short(tall)}" viewBox="0 0 {_short(wide)} {_short(tall)}"'
        return f'{head} {size}><g transform="translate({self.left + 8},12)">{inside}</g></svg>'


@dataclass(frozen=True, slots=True)
class Scale:
    """From a number to pixels from the top, with ticks at round numbers and a format that tells them apart."""

    low: float
    high: float
    ticks: tuple[float, ...]
    top: float
    bottom: float
    is_share: bool

    def y(self, number: float) -> float:
        return self.bottom - (number - self.low) / (self.high - self.low) * (self.bottom - self.top)

    def x(self, number: float) -> float:
        return (number - self.low) / (self.high - self.low)

    def label(self, tick: float) -> str:
        """The tick as text: percentages with only the digits that are needed."""
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else abs(tick) or 1.0
        if self.is_share:
            return share(tick, max(0, min(6, -math.floor(math.log10(step * 100) + 1e-9))))
        if max(map(abs, self.ticks)) >= 1e7 or step < 1e-4:
            return amount(tick)
        return f"{tick:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}".replace("-", "\N{MINUS SIGN}")


def margin(words: Iterable[str]) -> int:
    """Pixels for labels beside a chart: a multiple of eight, for which the style sheet has a class."""
    return min(MOST_MARGIN, 8 * math.ceil((10 + _LETTER * max(map(letters, words), default=0)) / 8))


def scale_of(
    numbers: Sequence[float], *, is_share: bool, top: float, bottom: float, most: int = 4, zero: bool = False
) -> Scale:
    """A scale around these numbers that ends at round ticks; with `zero`, it begins or ends there."""
    low, high = min(numbers), max(numbers)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low < 1e-12 * max(1.0, abs(high)):
        around = abs(high) * 0.1 or 1.0
        low, high = low - around, high + around
        if is_share:
            low, high = max(low, 0.0), min(high, 1.0) if high > 1 else high
    step = _step((high - low) / most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    if is_share and last * step > 1 >= high:
        last = math.floor(1 / step + 1e-9)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    return Scale(min(ticks[0], low), max(ticks[-1], high), ticks, top, bottom, is_share)


def _step(rough: float) -> float:
    """The least of 1, 2, 2.5 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= rough * (1 - 1e-9))


def _short(number: float) -> str:
    text = f"{number:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _attributes(more: dict[str, str]) -> str:
    return "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for name, value in more.items())
