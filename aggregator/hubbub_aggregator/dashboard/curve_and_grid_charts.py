"""Charts of values that run along axes: a curve, a grid, numbers by group.

A value is placed by its label, never by its place in an answer, where the largest may come first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from hubbub.result_shapes import cell_label
from hubbub.shortening import letters, shortened, shortened_all
from hubbub_aggregator.dashboard.chart_style import WIDTH, Spec, axis, chart, percent, plain
from hubbub_aggregator.dashboard.palette import GRID, INK, LINES
from hubbub_aggregator.dashboard.vega_specs import FEW, LETTERS, Bar, data_of, down_the_side, extent, whiskers

__all__ = ["curve", "dots", "every_named", "grid"]

_SIDE_BY_SIDE = 32
"""Letters of column names, with a space each, that fit side by side. If there are more, the names are drawn upright."""
_UPRIGHT = 15
"""Pixels that an upright name needs so that it does not touch the next."""
_CELL = 30
"""Height of a cell of a grid."""
_NUMBERED = 5
"""Columns of a grid up to which every cell has room for its number."""
_ABOVE = 24
"""Most letters of the title of the columns."""


def dots(rows: Sequence[Bar]) -> Spec:
    """A number for each group, with whiskers, on one scale."""
    data = data_of(rows)
    y = down_the_side(data)
    scale: Spec = {"zero": False, "nice": True}
    x = {"type": "quantitative", "title": None, "axis": axis(format=plain(data)), "scale": scale}
    point = {"type": "point", "filled": True, "size": 60, "color": LINES[0], "opacity": 1}
    layers: list[Spec] = [
        *whiskers("y", y, x),
        {"mark": point, "encoding": {"x": {"field": "v", **x}, "y": y, "description": {"field": "text"}}},
    ]
    return chart({"values": data}, layers, height={"step": 26})


def curve(
    rows: Sequence[Bar],
    labels: Sequence[str],
    places: Sequence[float] | None,
    title: str,
    *,
    share: bool,
    changes: bool = False,
) -> Spec:
    """Values over an axis, with the band of their intervals. Without `places`, each is one step. Changes have signs."""
    at = dict(zip(labels, places or range(len(labels)), strict=True))
    data = [{**datum, "at": at[row.label]} for datum, row in zip(data_of(rows), rows, strict=True)]
    scale: Spec = {"zero": False, "nice": False}
    along = axis(format=plain([{"v": row["at"]} for row in data]), grid=False, title=title)
    if places is None:
        along = axis(labels=False, grid=False, title=title)
    x = {"field": "at", "type": "quantitative", "scale": scale, "axis": along}
    y = {
        "type": "quantitative",
        "title": None,
        "axis": axis(format=("+" if changes else "") + (percent(data) if share else plain(data))),
        "scale": {"zero": share or changes, "nice": True},
    }
    color = LINES[1 if changes else 0]
    line = {"type": "line", "color": color, "strokeWidth": 1.8, "aria": False}
    point = {"type": "point", "filled": True, "size": 26 if len(rows) <= FEW else 6, "color": color, "opacity": 1}
    layers: list[Spec] = [
        {
            "mark": {"type": "area", "opacity": 0.3, "color": color, "aria": False},
            "encoding": {"x": x, "y": {"field": "lo", **y}, "y2": {"field": "hi"}},
        },
        {"mark": line, "encoding": {"x": x, "y": {"field": "v", **y}}},
        {"mark": point, "encoding": {"x": x, "y": {"field": "v", **y}, "description": {"field": "text"}}},
    ]
    if changes:
        zero = {"type": "rule", "color": INK, "strokeWidth": 1.2, "aria": False}
        layers.insert(0, {"data": {"values": [{"zero": 0}]}, "mark": zero, "encoding": {"y": {"field": "zero", **y}}})
    return chart({"values": data}, layers, height=210)


def grid(cells: Sequence[Bar], down: Sequence[str], across: Sequence[str], names: tuple[str, str]) -> Spec:
    """The share in each cell: the stronger the colour, the larger. Small grids show the numbers too."""
    found = {cell.label: (cell, datum) for cell, datum in zip(cells, data_of(cells), strict=True)}
    rows, columns = (dict(zip(side, shortened_all(side, LETTERS), strict=True)) for side in (down, across))
    data = [
        {**found[label][1], "row": rows[row], "column": columns[column], "shown": max(0.0, found[label][0].estimate)}
        for row, column in product(down, across)
        if (label := cell_label(row, column)) in found
    ]
    largest = max((float(row["shown"]) for row in data), default=0.0) or 1.0
    digits = percent(data)
    tidy: Spec = {"domain": False, "ticks": False, "labelPadding": 6, "labelLimit": WIDTH / 2}
    named = list(columns.values())[:: every_named(down, across, names[0])]
    upright = len(across) * (max(map(letters, named), default=1) + 1) > _SIDE_BY_SIDE
    x = {
        "field": "column",
        "type": "nominal",
        "sort": None,
        "title": shortened(names[1], _ABOVE),
        "axis": {**tidy, "orient": "top", "labelAngle": -90 if upright else 0, "titleLimit": WIDTH / 2}
        | ({"minExtent": extent(named) - _CELL // 2} if upright else {})
        | ({"values": named, "labelOverlap": False} if len(named) < len(across) else {}),
    }
    room = _beside(down, names[0])
    corner = {"titleAngle": 0, "titleAlign": "left", "titleBaseline": "bottom", "titleX": -room, "titleY": -6}
    beside = {**tidy, "minExtent": room, "maxExtent": room, "titleLimit": room, **corner}
    y = {"field": "row", "type": "nominal", "sort": None, "title": shortened(names[0], LETTERS), "axis": beside}
    # by opacity, so that a style sheet can replace the colour in dark mode
    shade = {"field": "shown", "type": "quantitative", "scale": {"domain": [0, largest], "range": [0.03, 0.6]}}
    layers: list[Spec] = [
        {
            "mark": {"type": "rect", "fill": LINES[0], "stroke": GRID, "strokeWidth": 1},
            "encoding": {"x": x, "y": y, "fillOpacity": {**shade, "legend": None}, "description": {"field": "text"}},
        }
    ]
    if len(across) <= _NUMBERED:
        layers.append(
            {
                "mark": {"type": "text", "fontSize": 12, "color": INK, "aria": False},
                "encoding": {
                    "x": x,
                    "y": y,
                    "text": {"field": "v", "type": "quantitative", "format": digits},
                },
            }
        )
    return chart({"values": data}, layers, height={"step": _CELL})


def every_named(down: Sequence[str], across: Sequence[str], name: str) -> int:
    """The N for which every Nth column name is drawn, so that the names do not overlap."""
    return max(1, math.ceil(_UPRIGHT * len(across) / (WIDTH - _beside(down, name))))


def _beside(down: Sequence[str], name: str) -> int:
    """Room for the names of the rows, and for their title above them."""
    return extent([*shortened_all(down, LETTERS), shortened(name, LETTERS)])
