"""A chart of values over an axis: a line with its band, or the bars of a histogram with their intervals.

A metric type uses it through its shape, `hubbub.result_shapes.Curve`, and writes no drawing code. The labels of the
axis have `places`, on a scale that is logarithmic if the places are. Values that are shares of a whole are drawn as a
histogram, others as a line. `marks` are places that have a meaning, such as quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hubbub_aggregator.dashboard.charts.drawn import spot
from hubbub_aggregator.dashboard.charts.rows import Row
from hubbub_aggregator.dashboard.palette import AXIS, INK, LINES, MUTED
from hubbub_aggregator.dashboard.svg_canvas import Canvas, Scale, margin, scale_of

__all__ = ["CurveChart", "Mark"]

_TOP, _FOOT, _BELOW = 24, 254, 46
"""Where the plot begins and ends, and the room for numbers and the title of the axis."""
_DOTS = 31
"""Up to this many places, each has a dot."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the axis that has a name, such as p95, and from where to where it may lie."""

    place: float
    words: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class CurveChart:
    rows: Sequence[Row]
    """In the order of the axis."""
    places: Sequence[float]
    """One for each row; the steps 0, 1, 2, ... if the axis has no scale."""
    title: str
    is_share: bool
    has_places: bool = True
    is_histogram: bool = False
    is_change: bool = False
    marks: Sequence[Mark] = ()

    def svg(self, width: int | None = None) -> str:
        numbers = [number for row in self.rows for number in (row.low, row.high)]
        numbers += [row.raw for row in self.rows if row.raw is not None]
        scale = scale_of(numbers, is_share=self.is_share, top=_TOP, bottom=_FOOT, zero=self.is_share or self.is_change)
        canvas = Canvas(_FOOT + _BELOW, width, left=margin(map(scale.label, scale.ticks)), right=16)
        for tick in scale.ticks:
            canvas.line(0, scale.y(tick), 1, scale.y(tick))
            canvas.text(0, scale.y(tick), scale.label(tick), anchor="end", color=MUTED, dx="-8", dy="0.32em")
        across = _Across.of(self.places)
        color = LINES[1 if self.is_change else 0]
        if self.is_change:
            canvas.line(0, scale.y(0), 1, scale.y(0), color=INK)
        if self.is_histogram and not self.is_change:
            self._bars(canvas, scale, across, color)
        else:
            self._line(canvas, scale, across, color)
        self._axis(canvas, across)
        for mark in self.marks:
            self._mark(canvas, across, mark)
        for at, row in enumerate(self.rows):
            left, right = across.column(at)
            spot(canvas, left, _TOP, right - left, _FOOT - _TOP, f"{row.label}\n{row.words}")
        return canvas.svg()

    def _line(self, canvas: Canvas, scale: Scale, across: _Across, color: str) -> None:
        middle = [(across.at(place), scale.y(row.value)) for place, row in zip(self.places, self.rows, strict=True)]
        upper = [(x, scale.y(row.high)) for (x, _), row in zip(middle, self.rows, strict=True)]
        lower = [(x, scale.y(row.low)) for (x, _), row in zip(middle, self.rows, strict=True)]
        canvas.stretched(
            [
                canvas.path([*upper, *reversed(lower)], color=color, fill=0.2, class_="data band"),
                canvas.path(middle, color=color, class_="data line", stroke_width="2", stroke_linejoin="round"),
            ]
        )
        if len(self.rows) <= _DOTS:
            for x, y in middle:
                canvas.dot(x, y, 3, color=color, class_="data")
        self._raw(canvas, scale, across)

    def _bars(self, canvas: Canvas, scale: Scale, across: _Across, color: str) -> None:
        for at, row in enumerate(self.rows):
            left, right = across.column(at)
            space = 0.06 * (right - left)
            top, bottom = sorted((scale.y(0), scale.y(row.value)))
            bar = canvas.rect(left + space, top, right - left - 2 * space, bottom - top, color=color, **_BAR)
            canvas.add(bar)
            x = (left + right) / 2
            canvas.line(x, scale.y(row.low), x, scale.y(row.high), color=INK, stroke_width="1.4")
        self._raw(canvas, scale, across)

    def _raw(self, canvas: Canvas, scale: Scale, across: _Across) -> None:
        for place, row in zip(self.places, self.rows, strict=True):
            if row.raw is not None:
                at = across.at(place)
                canvas.text(at, scale.y(row.raw), "◆", anchor="middle", color=LINES[1], dy="0.36em", font_size="9")

    def _axis(self, canvas: Canvas, across: _Across) -> None:
        canvas.line(0, _FOOT, 1, _FOOT, color=AXIS)
        canvas.text(0.5, _FOOT, self.title, anchor="middle", color=MUTED, dy="2.9em")
        if not self.has_places:
            return
        for place, label in across.ticks():
            canvas.line(across.at(place), _FOOT, across.at(place), _FOOT + 5, color=AXIS)
            canvas.text(across.at(place), _FOOT, label, anchor="middle", color=MUTED, dy="1.6em")

    def _mark(self, canvas: Canvas, across: _Across, mark: Mark) -> None:
        x = across.at(mark.place)
        if mark.low is not None and mark.high is not None:
            left, right = across.at(mark.low), across.at(mark.high)
            canvas.add(canvas.rect(left, _TOP, right - left, _FOOT - _TOP, color=LINES[2], fill_opacity="0.16"))
        canvas.line(x, _TOP - 4, x, _FOOT, color=LINES[2], stroke_dasharray="4 3")
        canvas.text(x, _TOP - 8, mark.words, anchor="end" if x > 0.8 else "middle", color=INK)


_BAR = {"fill_opacity": "0.5", "class_": "data"}


class _Across:
    """The axis from 0 to 1: linear, or logarithmic if the places grow by an even factor."""

    def __init__(self, places: Sequence[float], *, is_log: bool) -> None:
        self._places, self._is_log = places, is_log
        ends = [self._step(place) for place in places]
        around = (ends[-1] - ends[0]) / max(1, len(ends) - 1) / 2 or 0.5
        self._low, self._high = ends[0] - around, ends[-1] + around

    @classmethod
    def of(cls, places: Sequence[float]) -> _Across:
        return cls(places, is_log=_grows_evenly(places))

    def _step(self, place: float) -> float:
        return math.log10(place) if self._is_log else place

    def at(self, place: float) -> float:
        if self._is_log and place <= 0:
            return 0.0
        return min(1.0, max(0.0, (self._step(place) - self._low) / (self._high - self._low)))

    def column(self, index: int) -> tuple[float, float]:
        """Halfway to both neighbours."""
        here = self.at(self._places[index])
        left = (self.at(self._places[index - 1]) + here) / 2 if index else 0.0
        right = (self.at(self._places[index + 1]) + here) / 2 if index + 1 < len(self._places) else 1.0
        return left, right

    def ticks(self) -> list[tuple[float, str]]:
        ends = (self._places[0], self._places[-1])
        if not self._is_log:
            scale = scale_of(ends, is_share=False, top=0, bottom=1, most=4)
            return [(tick, scale.label(tick)) for tick in scale.ticks if self._low <= tick <= self._high]
        powers = range(math.floor(math.log10(ends[0])), math.ceil(math.log10(ends[1])) + 1)
        steps = (1,) if len(powers) > 3 else (1, 2, 5) if len(powers) < 3 else (1, 3)
        found = [step * 10.0**power for power in powers for step in steps]
        return [(tick, f"{tick:,.10g}") for tick in found if self._low <= math.log10(tick) <= self._high]


def _grows_evenly(places: Sequence[float]) -> bool:
    if len(places) < 4 or min(places) <= 0:
        return False
    factors = [b / a for a, b in pairwise(places)]
    return min(factors) > 1.01 and max(factors) < 1.05 * min(factors)
