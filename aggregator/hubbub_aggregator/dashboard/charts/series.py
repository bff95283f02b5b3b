"""A chart of estimates over time: each value with its band, one below the other, over one axis of periods.

The line stays inside its band, both stop where there is no number, and the chart says there why. An edit of the
codebook is a dashed line. Anywhere in the column of a period its numbers can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from hubbub.shortening import shortened_all
from hubbub_aggregator.dashboard.charts.drawn import spot
from hubbub_aggregator.dashboard.charts.time_ticks import time_ticks
from hubbub_aggregator.dashboard.palette import AXIS, GRID, INK, LINES, MUTED
from hubbub_aggregator.dashboard.svg_canvas import Canvas, Scale, margin, scale_of

__all__ = ["Column", "Edit", "Reading", "SeriesChart"]

_HEIGHTS = (230, 140, 105)
"""Of one line, of each of two, and of each of more."""
_HEAD, _GAP, _FOOT = 22, 18, 34
"""Above each line for its name, between lines, and below for dates."""
_DOTS = 45
"""Up to this many periods, each has a dot. More of them would hide the band."""
_FEW = 7
"""Up to this many periods, the newest date stands in the middle of its period."""
_NAME = 30
"""Most letters of a name above its line."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One value in one period, as it is shown."""

    value: float
    low: float
    high: float
    words: str
    """The value with its unit."""


@dataclass(frozen=True, slots=True)
class Column:
    """One period: the values that are followed, in their order, or why there are none."""

    period: str
    words: str
    """What its spot says."""
    run: str
    """What may be joined by a line: the id that was released. Empty if there is no number."""
    readings: tuple[Reading | None, ...] = ()
    is_discarded: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """From this column on, the name stands for another question."""

    at: int
    words: str


@dataclass(frozen=True, slots=True)
class SeriesChart:
    columns: Sequence[Column]
    labels: Sequence[str]
    is_share: bool
    edits: Sequence[Edit] = ()

    def svg(self, width: int | None = None) -> str:
        lines = range(len(self.labels))
        each = _HEIGHTS[min(len(lines), len(_HEIGHTS)) - 1]
        tops = [index * (each + _HEAD + _GAP) + _HEAD for index in lines]
        foot = tops[-1] + each
        scales = [
            scale_of(numbers, is_share=self.is_share, top=top, bottom=top + each, most=4 if len(lines) == 1 else 2)
            if (numbers := [number for _, one in self._known(line) for number in (one.low, one.high)])
            else None
            for line, top in zip(lines, tops, strict=True)
        ]
        ends = [scale.label(tick) for scale in scales if scale for tick in scale.ticks]
        newest = [last[1].words for line in lines if (last := self._newest(line))]
        canvas = Canvas(foot + _FOOT, width, left=margin(ends), right=margin(newest))
        names = shortened_all(self.labels, _NAME)
        for line, scale, name in zip(lines, scales, names, strict=True):
            canvas.text(0, tops[line] - 8, name, color=LINES[line], font_weight="600")
            if scale is None:
                continue
            self._gaps(canvas, tops[line], each)
            for tick in scale.ticks:
                canvas.line(0, scale.y(tick), 1, scale.y(tick))
                canvas.text(0, scale.y(tick), scale.label(tick), anchor="end", color=MUTED, dx="-8", dy="0.32em")
            self._line(canvas, line, scale)
        self._edits(canvas, tops[0] - 6, foot)
        self._dates(canvas, foot)
        for at, column in enumerate(self.columns):
            spot(canvas, at / len(self.columns), 0, 1 / len(self.columns), foot, column.words)
        return canvas.svg()

    def _x(self, at: float) -> float:
        return (at + 0.5) / len(self.columns)

    def _known(self, line: int) -> Iterator[tuple[int, Reading]]:
        for at, column in enumerate(self.columns):
            found = column.readings[line] if line < len(column.readings) else None
            if found is not None:
                yield at, found

    def _newest(self, line: int) -> tuple[int, Reading] | None:
        return max(self._known(line), key=lambda one: one[0], default=None)

    def _line(self, canvas: Canvas, line: int, scale: Scale) -> None:
        color, known = LINES[line], dict(self._known(line))
        runs = [
            [at for at, _ in places]
            for run, places in groupby(enumerate(self.columns), lambda one: one[1].run if one[0] in known else "")
            if run
        ]
        paths = []
        for places in runs:
            if len(places) == 1:
                continue
            upper = [(self._x(at), scale.y(known[at].high)) for at in places]
            lower = [(self._x(at), scale.y(known[at].low)) for at in reversed(places)]
            paths.append(canvas.path([*upper, *lower], color=color, fill=0.2, class_="data band"))
        for places in runs:
            if len(places) > 1:
                middle = [(self._x(at), scale.y(known[at].value)) for at in places]
                thin = "2" if len(self.columns) <= 2 * _DOTS else "1.5"
                paths.append(
                    canvas.path(middle, color=color, class_="data line", stroke_width=thin, stroke_linejoin="round")
                )
        canvas.stretched(paths)
        alone = {places[0] for places in runs if len(places) == 1}
        for at, one in known.items():
            if at in alone:
                ends = {"stroke_width": "3", "opacity": "0.4", "class_": "data whisker"}
                canvas.line(self._x(at), scale.y(one.low), self._x(at), scale.y(one.high), color=color, **ends)
            if at in alone or len(self.columns) <= _DOTS:
                canvas.dot(self._x(at), scale.y(one.value), 2.6, color=color, class_="data")
        if (last := self._newest(line)) is not None:
            at, one = last
            canvas.dot(self._x(at), scale.y(one.value), 4.2, color=color, class_="data newest")
            canvas.text(1, scale.y(one.value), one.words, color=INK, dx="8", dy="0.32em", font_weight="600")

    def _gaps(self, canvas: Canvas, top: float, height: float) -> None:
        """Periods without a number, grey where they are; what the shuffler discarded has a cross."""
        size = len(self.columns)
        for (is_gap, is_discarded), places in groupby(
            enumerate(self.columns), lambda one: (not any(one[1].readings), one[1].is_discarded)
        ):
            if not is_gap:
                continue
            first, *_ = found = [at for at, _ in places]
            canvas.add(canvas.rect(first / size, top, len(found) / size, height, color=GRID, class_="gap"))
            if is_discarded:
                middle = (first + len(found) / 2) / size
                canvas.text(middle, top, "×", anchor="middle", color=MUTED, dy="0.85em", aria_hidden="true")

    def _edits(self, canvas: Canvas, top: float, foot: float) -> None:
        for edit in self.edits:
            x = edit.at / len(self.columns)
            canvas.line(x, top, x, foot, color=INK, stroke_dasharray="3 3", class_="edit")
            side = {"anchor": "end", "dx": "-5"} if x > 0.5 else {"anchor": "start", "dx": "5"}
            canvas.text(x, top, edit.words, color=INK, dy="0.1em", class_="edit-words", **side)

    def _dates(self, canvas: Canvas, foot: float) -> None:
        canvas.line(0, foot, 1, foot, color=AXIS)
        if len(self.columns) <= _DOTS:
            for at in range(len(self.columns)):
                canvas.line(self._x(at), foot, self._x(at), foot + 3, color=AXIS)
        for tick in time_ticks([column.period for column in self.columns]):
            x = self._x(tick.at)
            wide = {"class_": "only-wide"} if tick.is_wide else {}
            canvas.line(x, foot, x, foot + 5, color=AXIS, **wide)
            if tick.is_newest:
                # among many it ends at the chart's edge; among few there is room on both sides of its period
                anchor, place = ("end", 1.0) if len(self.columns) > _FEW else ("middle", x)
                canvas.text(place, foot, tick.words, anchor=anchor, color=INK, dy="1.6em")
            else:
                canvas.text(x, foot, tick.words, anchor="middle", color=MUTED, dy="1.6em", **wide)
