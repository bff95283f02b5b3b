"""Charts as Vega-Lite specifications: plain dictionaries, made from answers of the API.

They are written by hand rather than with Altair, which would say the same and takes a second to import. Every mark that
carries a number has a `description`: it becomes the text that is read on hover and focus. Nothing a codebook says may
stand anywhere but in `data`, where Vega takes it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hubbub_aggregator.dashboard.palette import AXIS, GRID, INK, LINES, MUTED

__all__ = ["Bar", "Moment", "Spec", "bars", "course", "differences", "epsilons", "ledger", "number_line", "posterior"]

Spec = dict[str, Any]
_WIDTH = 430
"""Of the whole chart: two stand side by side on a desk, and on a phone one is shrunk by a quarter."""
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 3])
_FEW = 60
"""Periods up to which dashes and shapes can be seen; beyond, they are noise."""
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


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
    x = {"type": "quantitative", "title": None, "axis": _axis(format=_percent(data)), "scale": {"nice": True}}
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
    return _chart({"values": data}, layers, height={"step": 26})


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
        "axis": _axis(format=_plain(data, *ends)),
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
    return _chart({"values": data}, layers, height=44)


def course(
    rows: Sequence[Moment], labels: Sequence[str], *, share: bool, edits: Sequence[str] = (), legend: bool = False
) -> Spec:
    """Estimates over time, each with the band of its interval; `labels` in the order of the legend.

    In a page the legend is HTML, where long names wrap; a file of its own has it inside.
    """
    data = [
        {
            "t": row.period,
            "label": row.label,
            "v": row.estimate,
            "lo": row.low if row.low is not None else row.estimate,
            "hi": row.high if row.high is not None else row.estimate,
            "run": row.run,
            "text": row.text,
        }
        for row in rows
    ]
    periods = len({row.period for row in rows})
    x = {"field": "t", "type": "temporal", "title": None, "scale": {"type": "utc"}, "axis": _times(periods)}
    y = {
        "type": "quantitative",
        "title": None,
        "scale": {"zero": False, "nice": True, "padding": 6},
        "axis": _axis(format=_percent(data) if share else _plain(data)),
    }
    by = {"field": "label", "type": "nominal", "sort": list(labels)}
    color = {
        **by,
        "scale": {"domain": list(labels), "range": list(LINES[: len(labels)])},
        "legend": _legend(legend and len(labels) > 1),
    }
    few = periods <= _FEW
    dashes, shapes = (_DASHES, _SHAPES) if few else ((_DASHES[0],) * len(_DASHES), (_SHAPES[0],) * len(_SHAPES))
    dash = {**by, "scale": {"domain": list(labels), "range": list(dashes[: len(labels)])}, "legend": None}
    shape = {**by, "scale": {"domain": list(labels), "range": list(shapes[: len(labels)])}, "legend": None}
    detail = {"field": "run", "type": "nominal"}
    layers: list[Spec] = [
        {
            "mark": {"type": "area", "opacity": 0.2, "aria": False},
            "encoding": {
                "x": x,
                "y": {"field": "lo", **y},
                "y2": {"field": "hi"},
                "color": color,
                "detail": detail,
            },
        },
        {
            "mark": {"type": "line", "strokeWidth": 1.8, "aria": False},
            "encoding": {"x": x, "y": {"field": "v", **y}, "color": color, "strokeDash": dash, "detail": detail},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 42 if few else 6, "opacity": 1},
            "encoding": {
                "x": x,
                "y": {"field": "v", **y},
                "color": color,
                "shape": shape,
                "description": {"field": "text"},
            },
        },
    ]
    if periods == 1:
        layers.insert(1, {"mark": _rule(2), "encoding": {"x": x, "y": {"field": "lo", **y}, "y2": {"field": "hi"}}})
    if edits:
        layers.append(
            {
                "data": {"values": [{"t": edit} for edit in edits]},
                "mark": {"type": "rule", "color": MUTED, "strokeDash": [3, 3], "aria": False},
                "encoding": {"x": x},
            }
        )
    return _chart({"values": data}, layers, height=190)


def differences(rows: Sequence[Bar], *, share: bool) -> Spec:
    """Changes with their intervals, around a line at no change."""
    data = [{"label": r.label, "v": r.estimate, "lo": r.low, "hi": r.high, "text": r.text} for r in rows]
    y = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": _names(rows)}
    x = {
        "type": "quantitative",
        "title": None,
        "axis": _axis(format="+" + (_percent(data) if share else _plain(data))),
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
    return _chart({"values": data}, layers, height={"step": 26})


def ledger(rows: Sequence[Spec], labels: Sequence[str]) -> Spec:
    """Epsilon over time on a logarithmic scale: rows have t, label, v and text."""
    periods = len({row["t"] for row in rows})
    x = {"field": "t", "type": "temporal", "title": None, "scale": {"type": "utc"}, "axis": _times(periods)}
    y = {"field": "v", "type": "quantitative", "title": "ε, logarithmic", **_log([row["v"] for row in rows])}
    domain = list(labels)
    by = {"field": "label", "type": "nominal", "sort": domain}
    colors = [LINES[0], LINES[1], LINES[0], LINES[1]][: len(domain)]
    dashes = [[1, 0], [1, 0], [4, 3], [4, 3]][: len(domain)]
    dash = {**by, "scale": {"domain": domain, "range": dashes}, "legend": None}
    color = {**by, "scale": {"domain": domain, "range": colors}, "legend": None}
    layers = [
        {
            "mark": {"type": "line", "strokeWidth": 1.8, "aria": False},
            "encoding": {"x": x, "y": y, "color": color, "strokeDash": dash},
        },
        {
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": 36 if periods <= 40 else 12},
            "encoding": {"x": x, "y": y, "color": color, "description": {"field": "text"}},
        },
    ]
    return _chart({"values": list(rows)}, layers, height=210)


def epsilons(rows: Sequence[Spec], *, local: float, now: Spec | None, target: float | None) -> Spec:
    """Epsilon of one release against the number of honest reports, both logarithmic, with the present crowd marked."""
    x = {
        "field": "n",
        "type": "quantitative",
        "title": "honest reports in a batch",
        **_log([row["n"] for row in rows], format="~s"),
    }
    heights = [*(row["e"] for row in rows), local, *([target] if target else [])]
    y = {"field": "e", "type": "quantitative", "title": "ε of one release", **_log(heights)}
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": LINES[0], "aria": False, "strokeWidth": 1.8}, "encoding": {"x": x, "y": y}},
        {
            "mark": {"type": "point", "filled": True, "color": LINES[0], "size": 30, "opacity": 1},
            "encoding": {"x": x, "y": y, "description": {"field": "text"}},
        },
        _level(local, y, LINES[1], f"local ε {local:g}"),
    ]
    if target is not None:
        layers.append(_level(target, y, LINES[2], f"release target {target:g}", dash=[4, 3]))
    if now is not None:
        layers += [
            {
                "data": {"values": [now]},
                "mark": {"type": "rule", "color": INK, "strokeDash": [3, 3], "aria": False},
                "encoding": {"x": x},
            },
            {
                "data": {"values": [now]},
                "mark": {
                    "type": "point",
                    "filled": True,
                    "shape": "diamond",
                    "size": 130,
                    "color": INK,
                    "opacity": 1,
                },
                "encoding": {"x": x, "y": y, "description": {"field": "text"}},
            },
            {
                "data": {"values": [now]},
                "mark": {
                    "type": "text",
                    "align": "left",
                    "dx": 9,
                    "dy": -9,
                    "color": INK,
                    "fontSize": 12,
                    "aria": False,
                },
                "encoding": {"x": x, "y": y, "text": {"value": "now"}},
            },
        ]
    return _chart({"values": list(rows)}, layers, height=200)


def posterior(rows: Sequence[Spec], labels: Sequence[str]) -> Spec:
    """What somebody may believe afterwards against what they believed before: rows have prior, low, high, label."""
    x = {
        "field": "prior",
        "type": "quantitative",
        "title": "belief before",
        "axis": _axis(5, format=".0%"),
        "scale": {"domain": [0, 1]},
    }
    y = {"type": "quantitative", "title": "belief after", "axis": _axis(5, format=".0%"), "scale": {"domain": [0, 1]}}
    color = {
        "field": "label",
        "type": "nominal",
        "sort": list(labels),
        "scale": {"domain": list(labels), "range": [LINES[1], LINES[0]][: len(labels)]},
        "legend": None,
    }
    layers: list[Spec] = [
        {
            "mark": {"type": "area", "opacity": 0.25, "aria": False},
            "encoding": {"x": x, "y": {"field": "low", **y}, "y2": {"field": "high"}, "color": color},
        },
        *(
            {
                "mark": {"type": "line", "strokeWidth": 1.6, "aria": False},
                "encoding": {"x": x, "y": {"field": edge, **y}, "color": color},
            }
            for edge in ("low", "high")
        ),
        {
            "transform": [{"filter": "datum.shown"}],
            "mark": {"type": "point", "filled": True, "size": 32, "opacity": 1},
            "encoding": {
                "x": x,
                "y": {"field": "high", **y},
                "color": color,
                "description": {"field": "text"},
            },
        },
        {
            "data": {"values": [{"prior": 0, "low": 0}, {"prior": 1, "low": 1}]},
            "mark": {"type": "line", "color": INK, "strokeDash": [3, 3], "strokeWidth": 1.2, "aria": False},
            "encoding": {"x": x, "y": {"field": "low", **y}},
        },
    ]
    return _chart({"values": list(rows)}, layers, height=220)


def _chart(data: Spec, layers: list[Spec], *, height: Any, width: int = _WIDTH) -> Spec:
    return {
        "data": data,
        "layer": layers,
        "width": width,
        "height": height,
        "background": None,
        "padding": 4,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": {
            "font": _FONT,
            "view": {"stroke": None},
            "axis": {
                "labelFontSize": 13,
                "titleFontSize": 13,
                "titleFontWeight": "normal",
                "labelColor": INK,
                "titleColor": MUTED,
                "gridColor": GRID,
                "domainColor": AXIS,
                "tickColor": AXIS,
                "aria": False,
            },
        },
    }


def _axis(ticks: int = 5, **more: Any) -> Spec:
    return {"tickCount": ticks, "domain": False, "ticks": False, "labelPadding": 6, **more}


def _log(numbers: Sequence[float], **more: Any) -> Spec:
    """A logarithmic scale from power to power of ten, or finer where the numbers span little."""
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    steps = (1,) if high - low > 2 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps if step * 10.0**power <= 10.0**high]
    inside = [tick for tick in ticks if tick >= min(numbers) * 0.999] or ticks
    start = max((tick for tick in ticks if tick <= min(numbers) * 1.001), default=ticks[0])
    stop = min((tick for tick in ticks if tick >= max(numbers) * 0.999), default=ticks[-1])
    shown = [tick for tick in {start, *inside} if start <= tick <= stop]
    return {"scale": {"type": "log", "domain": [start, stop]}, "axis": _axis(values=sorted(shown), **more)}


def _names(rows: Sequence[Bar]) -> Spec:
    """Room by the number of letters: the browser's font may be wider than the one that vl-convert measures with."""
    longest = max((len(row.label) for row in rows), default=1)
    return {
        "labelLimit": 120,
        "minExtent": min(155, 16 + 8 * longest),
        "domain": False,
        "ticks": False,
        "labelPadding": 8,
    }


def _times(periods: int) -> Spec:
    return {"grid": False, "tickCount": min(5, max(1, periods)), "labelOverlap": "greedy", "labelFlush": True}


def _legend(shown: bool) -> Spec | None:
    if not shown:
        return None
    return {
        "orient": "top",
        "direction": "horizontal",
        "columns": 2,
        "title": None,
        "labelFontSize": 13,
        "labelColor": INK,
        "labelLimit": 140,
        "symbolOpacity": 1,
        "symbolSize": 90,
        "aria": False,
    }


def _rule(width: float, color: str = INK) -> Spec:
    return {"type": "rule", "color": color, "strokeWidth": width, "aria": False}


def _whiskers(across: str, place: Spec, along: Spec, *, width: float = 1.5, color: str = INK) -> list[Spec]:
    """The interval from `lo` to `hi`, with a cap at each end."""
    cap = {"type": "tick", "color": color, "thickness": width, "size": 9, "aria": False}
    return [
        {
            "mark": _rule(width, color),
            "encoding": {across: place, "x": {"field": "lo", **along}, "x2": {"field": "hi"}},
        },
        *({"mark": cap, "encoding": {across: place, "x": {"field": end, **along}}} for end in ("lo", "hi")),
    ]


def _level(at: float, y: Spec, color: str, text: str, dash: list[int] | None = None) -> Spec:
    where = {**y, "field": "e"}
    return {
        "data": {"values": [{"e": at, "name": text}]},
        "layer": [
            {
                "mark": {"type": "rule", "color": color, "strokeDash": dash or [1, 0], "aria": False},
                "encoding": {"y": where},
            },
            {
                "mark": {
                    "type": "text",
                    "align": "right",
                    "baseline": "bottom",
                    "dy": -3,
                    "x": "width",
                    "color": color,
                    "fontSize": 12,
                    "aria": False,
                },
                "encoding": {"y": where, "text": {"field": "name"}},
            },
        ],
    }


def _plain(data: Sequence[Spec], *ends: float) -> str:
    """As many digits as tell the ticks apart, and no multiples: people know what 1,500 is."""
    found = [*ends, *(row[name] for row in data for name in ("lo", "hi", "v") if row.get(name) is not None)]
    spread = (max(found) - min(found)) or abs(max(found)) or 1.0
    digits = min(12, max(0, 1 - math.floor(math.log10(spread))))
    return f",.{digits}f" if spread < 1e7 else "~s"


def _percent(data: Sequence[Spec]) -> str:
    """As many digits as the spread of the numbers needs."""
    ends = [row[name] for row in data for name in ("lo", "hi", "v") if row.get(name) is not None]
    spread = max(ends) - min([*ends, 0.0] if "raw" in data[0] else ends) if ends else 1.0
    return ".0%" if spread > 0.04 else ".1%" if spread > 0.004 else ".2%"
