"""Charts as Vega-Lite specifications: plain dictionaries, made from answers of the API.

They are written by hand rather than with Altair, which would say the same and takes a second to import. Every mark that
carries a number has a `description`: it becomes the text that is read on hover and focus. Nothing a codebook says may
stand anywhere but in `data`, where Vega takes it as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hubbub_aggregator.dashboard.palette import GRID, INK, LINES, MUTED
from hubbub_aggregator.dashboard.vega import WIDTH, Spec, axis, chart, percent, plain, rows_of, rule, times

__all__ = ["Bar", "Moment", "bars", "course", "curve", "differences", "dots", "grid", "number_line"]

_FEW = 31
"""Periods up to which every one has a whisker and a point to be aimed at; beyond, they would hide the band."""
_SIDE_BY_SIDE = 32
"""Letters, with a space each, of names of columns that stand side by side; beyond, the names stand upright."""
_CELL = 30
"""Height of a cell of a grid."""
_NUMBERED = 5
"""Columns of a grid up to which every cell has room for its number."""
_MARGIN = 46
"""Left of each of several charts, for the numbers of its axis."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One value with its interval; `raw` where `estimate` is post-processed."""

    label: str
    estimate: float
    low: float | None
    high: float | None
    text: str
    raw: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """One value in one period; points of one `run` are joined."""

    period: str
    label: str
    estimate: float
    low: float | None
    high: float | None
    text: str
    run: str = ""


def bars(rows: Sequence[Bar], *, processed: bool = False) -> Spec:
    """Shares as horizontal bars with whiskers; where they are post-processed, the raw ones as diamonds."""
    data = [
        {
            "label": row.label,
            "v": row.estimate,
            "lo": row.low if row.low is not None else row.estimate,
            "hi": row.high if row.high is not None else row.estimate,
            "raw": row.raw,
            "text": row.text,
        }
        for row in rows
    ]
    y = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": _names(rows)}
    x = {"type": "quantitative", "title": None, "axis": axis(format=percent(data)), "scale": {"nice": True}}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "color": LINES[0], "opacity": 0.55, "height": {"band": 0.62}},
            "encoding": {"x": {"field": "v", **x}, "y": y, "description": {"field": "text"}},
        },
        *_whiskers("y", y, x),
    ]
    if processed:
        layers.append(
            {
                "mark": {
                    "type": "point",
                    "shape": "diamond",
                    "filled": True,
                    "size": 55,
                    "color": LINES[1],
                    "aria": False,
                },
                "encoding": {"x": {"field": "raw", **x}, "y": y},
            }
        )
    return chart({"values": data}, layers, height={"step": 26})


def number_line(row: Bar, bounds: tuple[float, float] | None) -> Spec:
    """A mean with its interval, near enough to see it, and no farther out than what can be recorded."""
    low, high = (limit if limit is not None else row.estimate for limit in (row.low, row.high))
    data = [{"label": "", "v": row.estimate, "lo": low, "hi": high, "raw": row.raw, "text": row.text}]
    around = 1.5 * (high - low) or abs(row.estimate) or 1.0
    ends = (low - around, high + around)
    if bounds is not None:
        ends = (min(low, max(ends[0], bounds[0])), max(high, min(ends[1], bounds[1])))
    scale: Spec = {"zero": False, "nice": False, "domain": list(ends)}
    x = {
        "type": "quantitative",
        "title": None,
        "axis": axis(format=plain(data, *ends)),
        "scale": scale,
    }
    y = {"field": "label", "type": "nominal", "axis": None}
    layers = [
        *_whiskers("y", y, x, width=3),
        {
            "mark": {"type": "point", "filled": True, "size": 140, "color": LINES[0], "opacity": 1},
            "encoding": {"x": {"field": "v", **x}, "y": y, "description": {"field": "text"}},
        },
    ]
    return chart({"values": data}, layers, height=44)


def course(rows: Sequence[Moment], labels: Sequence[str], *, share: bool, edits: Sequence[str] = ()) -> Spec:
    """Estimates over time, each with the band of its interval; several values one below the other.

    Each value has a scale of its own, so that its band is seen however far apart the values are.
    """
    sizes = Counter(row.run for row in rows)
    data = [
        {
            "t": row.period,
            "label": row.label,
            "v": row.estimate,
            "lo": row.low if row.low is not None else row.estimate,
            "hi": row.high if row.high is not None else row.estimate,
            "run": row.run,
            "alone": sizes[row.run] == 1,
            "text": row.text,
        }
        for row in rows
    ]
    periods = len({row.period for row in rows})
    x = {"field": "t", "type": "temporal", "title": None, "scale": {"type": "utc"}, "axis": times(periods)}
    several = len(labels) > 1
    y = {
        "type": "quantitative",
        "title": None,
        "scale": {"zero": False, "nice": True, "padding": 6},
        "axis": axis(
            3 if several else 5,
            format=_finest(data, labels) if share else plain(data),
            **({"minExtent": _MARGIN, "maxExtent": _MARGIN} if several else {}),
        ),
    }
    color = {
        "field": "label",
        "type": "nominal",
        "sort": list(labels),
        "scale": {"domain": list(labels), "range": list(LINES[: len(labels)])},
        "legend": None,
    }
    detail = {"field": "run", "type": "nominal"}
    few = periods <= _FEW
    limits = {"x": x, "y": {"field": "lo", **y}, "y2": {"field": "hi"}, "color": color}
    whiskers = {"mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6, "aria": False}, "encoding": limits}
    layers: list[Spec] = [
        {"mark": {"type": "area", "opacity": 0.3, "aria": False}, "encoding": {**limits, "detail": detail}},
        whiskers if few else {"transform": [{"filter": "datum.alone"}], **whiskers},
        {
            "mark": {"type": "line", "strokeWidth": 1.8 if few else 1.2, "aria": False},
            "encoding": {"x": x, "y": {"field": "v", **y}, "color": color, "detail": detail},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 42 if few else 5, "opacity": 1},
            "encoding": {"x": x, "y": {"field": "v", **y}, "color": color, "description": {"field": "text"}},
        },
    ]
    if edits:
        layers.append(
            {
                "data": {"values": [{"t": edit} for edit in edits]},
                "mark": {"type": "rule", "color": MUTED, "strokeDash": [3, 3], "aria": False},
                "encoding": {"x": x},
            }
        )
    if several:
        return rows_of(data, layers, labels, height=76)
    return chart({"values": data}, layers, height=190)


def _finest(data: Sequence[Spec], labels: Sequence[str]) -> str:
    """A format with as many digits as the value needs that spreads least."""
    return max((percent([row for row in data if row["label"] == label]) for label in labels), default=".0%")


def differences(rows: Sequence[Bar], *, share: bool) -> Spec:
    """Changes with their intervals, around a line at no change."""
    data = [{"label": r.label, "v": r.estimate, "lo": r.low, "hi": r.high, "text": r.text} for r in rows]
    y = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": _names(rows)}
    x = {
        "type": "quantitative",
        "title": None,
        "axis": axis(format="+" + (percent(data) if share else plain(data)), labelSeparation=14),
        "scale": {"zero": True, "nice": True},
    }
    layers = [
        {
            "data": {"values": [{"zero": 0}]},
            "mark": {"type": "rule", "color": INK, "strokeWidth": 1.2, "aria": False},
            "encoding": {"x": {"field": "zero", **x}},
        },
        *_whiskers("y", y, x, color=LINES[1]),
        {
            "mark": {"type": "point", "filled": True, "size": 60, "color": LINES[1], "opacity": 1},
            "encoding": {"x": {"field": "v", **x}, "y": y, "description": {"field": "text"}},
        },
    ]
    return chart({"values": data}, layers, height={"step": 26})


def dots(rows: Sequence[Bar]) -> Spec:
    """A number for each group, with whiskers, on one scale."""
    data = [_datum(row) for row in rows]
    y = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": _names(rows)}
    scale: Spec = {"zero": False, "nice": True}
    x = {"type": "quantitative", "title": None, "axis": axis(format=plain(data)), "scale": scale}
    point = {"type": "point", "filled": True, "size": 60, "color": LINES[0], "opacity": 1}
    layers: list[Spec] = [
        *_whiskers("y", y, x),
        {"mark": point, "encoding": {"x": {"field": "v", **x}, "y": y, "description": {"field": "text"}}},
    ]
    return chart({"values": data}, layers, height={"step": 26})


def curve(rows: Sequence[Bar], places: Sequence[float] | None, title: str, *, share: bool) -> Spec:
    """Values over an axis with the band of their intervals; without places, one step for each."""
    data = [{**_datum(row), "at": at} for row, at in zip(rows, places or range(len(rows)), strict=True)]
    scale: Spec = {"zero": False, "nice": False}
    along = axis(format=plain([{"v": row["at"]} for row in data]), grid=False, title=title)
    if places is None:
        along = axis(labels=False, grid=False, title=title)
    x = {"field": "at", "type": "quantitative", "scale": scale, "axis": along}
    y = {
        "type": "quantitative",
        "title": None,
        "axis": axis(format=percent(data) if share else plain(data)),
        "scale": {"zero": share, "nice": True},
    }
    line = {"type": "line", "color": LINES[0], "strokeWidth": 1.8, "aria": False}
    point = {"type": "point", "filled": True, "size": 26 if len(rows) <= _FEW else 6, "color": LINES[0], "opacity": 1}
    layers: list[Spec] = [
        {
            "mark": {"type": "area", "opacity": 0.3, "color": LINES[0], "aria": False},
            "encoding": {"x": x, "y": {"field": "lo", **y}, "y2": {"field": "hi"}},
        },
        {"mark": line, "encoding": {"x": x, "y": {"field": "v", **y}}},
        {"mark": point, "encoding": {"x": x, "y": {"field": "v", **y}, "description": {"field": "text"}}},
    ]
    return chart({"values": data}, layers, height=210)


def grid(cells: Sequence[Bar], down: Sequence[str], across: Sequence[str], names: tuple[str, str]) -> Spec:
    """The share in each cell: the stronger the colour, the larger; in small grids with its number."""
    data = [
        {**_datum(cell), "row": row, "column": column, "shown": max(0.0, cell.estimate)}
        for cell, (row, column) in zip(cells, product(down, across), strict=True)
    ]
    largest = max((float(row["shown"]) for row in data), default=0.0) or 1.0
    digits = percent(data)
    tidy: Spec = {"domain": False, "ticks": False, "labelPadding": 6, "labelLimit": 120}
    letters = max(map(len, across), default=1)
    upright = len(across) * (letters + 1) > _SIDE_BY_SIDE
    x = {
        "field": "column",
        "type": "nominal",
        "sort": None,
        "title": names[1],
        "axis": {**tidy, "orient": "top", "labelAngle": -90 if upright else 0, "titleLimit": WIDTH / 2},
    }
    beside = {**tidy, "minExtent": _extent(down), "titleLimit": _CELL * max(len(down), 3) * 2 / 3}
    y = {"field": "row", "type": "nominal", "sort": None, "title": names[0], "axis": beside}
    # by opacity, so that a style sheet can exchange the colour for the dark
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


def _datum(row: Bar) -> Spec:
    low, high = (limit if limit is not None else row.estimate for limit in (row.low, row.high))
    return {"label": row.label, "v": row.estimate, "lo": low, "hi": high, "text": row.text}


def _names(rows: Sequence[Bar]) -> Spec:
    """Values down the side of a chart."""
    labels = [row.label for row in rows]
    return {"labelLimit": 120, "minExtent": _extent(labels), "domain": False, "ticks": False, "labelPadding": 8}


def _extent(labels: Sequence[str]) -> int:
    """Room by the number of letters: the browser's font may be wider than the one that vl-convert measures with."""
    return min(155, 16 + 8 * max(map(len, labels), default=1))


def _whiskers(across: str, place: Spec, along: Spec, *, width: float = 1.5, color: str = INK) -> list[Spec]:
    """The interval from `lo` to `hi`, with a cap at each end."""
    cap = {"type": "tick", "color": color, "thickness": width, "size": 9, "aria": False}
    return [
        {
            "mark": rule(width, color),
            "encoding": {across: place, "x": {"field": "lo", **along}, "x2": {"field": "hi"}},
        },
        *({"mark": cap, "encoding": {across: place, "x": {"field": end, **along}}} for end in ("lo", "hi")),
    ]
