"""A chart of the share in each cell of two axes: the stronger the colour, the larger the share.

A cell is placed by its label, never by its place in an answer, where the largest may come first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from hubbub.number_format import share
from hubbub.result_shapes import cell_label
from hubbub.shortening import letters, shortened, shortened_all
from hubbub_aggregator.dashboard.charts.rows import Row
from hubbub_aggregator.dashboard.palette import GRID, INK, LINES, MUTED
from hubbub_aggregator.dashboard.svg_canvas import Canvas, margin

__all__ = ["GridChart", "every_named"]

_CELL, _HEAD = 30, 26
"""Height of a cell, and of the title of the columns."""
_NAME, _TITLE = 16, 34
"""Most letters of a name beside or above the cells, and of the title of the columns."""
_NARROW, _WIDE = 150, 560
"""Pixels that the columns have on a phone, and at least on a wide chart."""
_UPRIGHT, _LETTER = 15, 7.2
"""Pixels that an upright name needs so that it does not touch the next, and of a letter."""
_NUMBER = 44
"""Pixels that a cell needs to show its number."""


@dataclass(frozen=True, slots=True)
class GridChart:
    cells: Sequence[Row]
    down: Sequence[str]
    across: Sequence[str]
    titles: tuple[str, str]
    """Of the rows and of the columns."""

    def svg(self, width: int | None = None) -> str:
        rows, columns = shortened_all(self.down, _NAME), shortened_all(self.across, _NAME)
        longest = max(map(letters, columns), default=1)
        is_upright = len(columns) * (longest + 1) * _LETTER > _NARROW
        top = _HEAD + (longest * _LETTER + 10 if is_upright else 22)
        title = shortened(self.titles[0], _NAME)
        canvas = Canvas(top + _CELL * len(rows) + 4, width, left=margin([*rows, title]), right=8)
        canvas.text(0.5, 16, shortened(self.titles[1], _TITLE), anchor="middle", color=MUTED)
        canvas.text(0, top - 8, title, anchor="end", color=MUTED, dx="-8")
        self._columns(canvas, columns, top, is_upright=is_upright)
        for index, name in enumerate(rows):
            middle = top + _CELL * (index + 0.5)
            canvas.text(0, middle, name, anchor="end", color=INK, dx="-8", dy="0.34em", unicode_bidi="isolate")
        self._cells(canvas, top)
        return canvas.svg()

    def _columns(self, canvas: Canvas, columns: Sequence[str], top: float, *, is_upright: bool) -> None:
        every, often = every_named(len(columns), _NARROW), every_named(len(columns), _WIDE)
        for index, name in enumerate(columns):
            if index % often:
                continue
            more = {} if index % every == 0 or not is_upright else {"class_": "only-wide"}
            if is_upright:
                canvas.text(
                    (index + 0.5) / len(columns), top - 6, name, anchor="end", writing_mode="vertical-rl", **more
                )
            else:
                canvas.text((index + 0.5) / len(columns), top - 8, name, anchor="middle", **more)

    def _cells(self, canvas: Canvas, top: float) -> None:
        known = {cell.label: cell for cell in self.cells}
        largest = max((cell.value for cell in self.cells), default=0.0) or 1.0
        wide = 1 / len(self.across)
        has_room = [room * wide >= _NUMBER for room in (_WIDE, _NARROW)]
        for i, row in enumerate(self.down):
            for j, column in enumerate(self.across):
                cell = known.get(cell_label(row, column))
                if cell is None:
                    continue
                words = escape(f"{cell.label}\n{cell.words}")
                y, shade = top + _CELL * i, 0.03 + 0.57 * max(0.0, cell.value) / largest
                canvas.add(
                    f'<rect class="mark" role="graphics-symbol" x="{canvas.x(j * wide)}" y="{y:g}" '
                    f'width="{canvas.x(wide)}" height="{_CELL}" fill="{LINES[0]}" fill-opacity="{shade:.3f}" '
                    f'stroke="{GRID}"><title>{words}</title></rect>'
                )
                if has_room[0]:
                    more = {} if has_room[1] else {"class_": "only-wide"}
                    middle = y + _CELL / 2
                    canvas.text((j + 0.5) * wide, middle, share(cell.value), anchor="middle", dy="0.34em", **more)


def every_named(columns: int, room: int = _WIDE) -> int:
    """The N for which every Nth column name is drawn, so that the names do not overlap."""
    return max(1, math.ceil(_UPRIGHT * columns / room))
