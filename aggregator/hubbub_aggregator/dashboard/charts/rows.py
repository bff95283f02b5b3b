"""A chart of values one below the other, each with its number and its interval: bars, dots or changes.

The name and the number stand above the track, so that nothing beside it takes room on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hubbub.shortening import shortened_all
from hubbub_aggregator.dashboard.charts.drawn import spot
from hubbub_aggregator.dashboard.palette import AXIS, GRID, INK, LINES, MUTED
from hubbub_aggregator.dashboard.svg_canvas import Canvas, Scale, margin, scale_of

__all__ = ["Row", "RowsChart"]

_ROW, _TRACK, _FOOT = 44, 14, 26
"""Height of a row and of its track, and the room for numbers below."""
_NAME = 26
"""Most letters of a name; its spot and the table have the whole one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One value as it is shown: its name, its number with the unit, and its interval."""

    label: str
    value: float
    low: float
    high: float
    number: str
    limits: str
    words: str
    """What its spot says after the name."""
    raw: float | None = None
    """The unbiased estimate, if `value` is post-processed."""
    name: str = ""
    """Instead of the label, if that is too long."""
    line: int | None = 0
    """Which line of the series has the same value, and so the same colour. None: the series has others."""
    is_clear: bool = True
    """Of a change: whether its interval leaves out no change."""


@dataclass(frozen=True, slots=True)
class RowsChart:
    """`bars` begin at zero, `dots` stand near their numbers, `changes` lie around no change."""

    rows: Sequence[Row]
    kind: Literal["bars", "dots", "changes"]
    is_share: bool
    bounds: tuple[float, float] | None = None
    """Of a single number: what it may be. The axis does not go beyond."""

    def svg(self, width: int | None = None) -> str:
        has_names = len(self.rows) > 1 or self.bounds is None
        each = _ROW if has_names else _TRACK + 18
        foot = each * len(self.rows) + (4 if has_names else 0)
        canvas, scale = Canvas(foot + _FOOT, width, left=16, right=16), self._scale()
        for tick in scale.ticks:
            canvas.line(scale.x(tick), each - _TRACK - 6, scale.x(tick), foot, color=GRID)
            sign = "+" if self.kind == "changes" and tick > 0 else ""
            label = sign + scale.label(tick)
            if self.kind == "changes" and self.is_share:
                label = label.removesuffix("%")
            canvas.text(scale.x(tick), foot, label, anchor="middle", color=MUTED, dy="1.3em")
        if self.kind == "changes" or scale.low < 0 < scale.high:
            canvas.line(scale.x(0), each - _TRACK - 6, scale.x(0), foot, color=INK)
        aside = margin(row.number for row in self.rows) + 8
        names = shortened_all([row.name or row.label for row in self.rows], _NAME)
        for index, (row, name) in enumerate(zip(self.rows, names, strict=True)):
            top = each * index
            if has_names:
                self._named(canvas, row, name, top + 18, aside)
            self._track(canvas, scale, row, top + each - _TRACK / 2 - 4)
            spot(canvas, 0, top, 1, each, f"{row.label}\n{row.words}")
        return canvas.svg()

    def _scale(self) -> Scale:
        numbers = [number for row in self.rows for number in (row.low, row.high)]
        numbers += [row.raw for row in self.rows if row.raw is not None]
        if self.bounds is not None:
            around = 1.5 * (max(numbers) - min(numbers)) or abs(max(numbers)) or 1.0
            low, high = max(self.bounds[0], min(numbers) - around), min(self.bounds[1], max(numbers) + around)
            numbers += [min(low, *numbers), max(high, *numbers)]
        return scale_of(numbers, is_share=self.is_share, top=0, bottom=1, most=4, zero=self.kind != "dots")

    def _named(self, canvas: Canvas, row: Row, name: str, y: float, aside: int) -> None:
        canvas.text(0, y, name, color=INK, unicode_bidi="isolate")
        strong = {"font_weight": "600"} if row.is_clear else {}
        canvas.text(1, y, row.number, anchor="end", color=INK, class_="number", **strong)
        canvas.text(1, y, row.limits, anchor="end", color=MUTED, dx=f"-{aside}", class_="only-wide limits")

    def _track(self, canvas: Canvas, scale: Scale, row: Row, y: float) -> None:
        color = AXIS if not row.is_clear or row.line is None else LINES[row.line]
        if self.kind == "bars":
            left, right = sorted((scale.x(0), scale.x(row.value)))
            canvas.add(
                canvas.rect(left, y - 6, right - left, 12, color=color, fill_opacity="0.5", class_="data", rx="2")
            )
        x1, x2 = scale.x(row.low), scale.x(row.high)
        ink = INK if self.kind != "changes" else color
        canvas.line(x1, y, x2, y, color=ink, stroke_width="1.6")
        for x in (x1, x2):
            canvas.line(x, y - 4, x, y + 4, color=ink, stroke_width="1.6")
        if self.kind != "bars":
            canvas.dot(scale.x(row.value), y, 5, color=color, class_="data")
        if row.raw is not None:
            canvas.text(scale.x(row.raw), y, "◆", anchor="middle", color=LINES[1], dy="0.36em", font_size="11")
