"""Charts of the privacy page: the ledger over time, epsilon against the crowd, belief before and after."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub_aggregator.dashboard.chart_style import Spec, axis, chart, log_scale, times
from hubbub_aggregator.dashboard.palette import INK, LINES

__all__ = ["epsilons", "ledger", "posterior"]


def ledger(rows: Sequence[Spec], labels: Sequence[str]) -> Spec:
    """Epsilon over time on a logarithmic scale: rows have t, label, v, text and whether they are shown as points."""
    periods = len({row["t"] for row in rows})
    x = {"field": "t", "type": "temporal", "title": None, "scale": {"type": "utc"}, "axis": times(periods)}
    y = {"field": "v", "type": "quantitative", "title": "ε, logarithmic", **log_scale([row["v"] for row in rows])}
    domain = list(labels)
    by = {"field": "label", "type": "nominal", "sort": domain}
    colors = [LINES[0], LINES[1], LINES[0], LINES[1]][: len(domain)]
    dashes = [[1, 0], [1, 0], [6, 4], [6, 4]][: len(domain)]
    dash = {**by, "scale": {"domain": domain, "range": dashes}, "legend": None}
    color = {**by, "scale": {"domain": domain, "range": colors}, "legend": None}
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "strokeWidth": 1.8, "aria": False},
            "encoding": {"x": x, "y": y, "color": color, "strokeDash": dash},
        },
        {
            "transform": [{"filter": "datum.shown"}],
            "mark": {"type": "point", "filled": True, "opacity": 1, "size": 26},
            "encoding": {"x": x, "y": y, "color": color, "description": {"field": "text"}},
        },
    ]
    return chart({"values": list(rows)}, layers, height=210)


def epsilons(rows: Sequence[Spec], *, local: float, now: Spec | None, target: float | None) -> Spec:
    """Epsilon of one release against the number of honest reports, both logarithmic, with the present crowd marked."""
    x = {
        "field": "n",
        "type": "quantitative",
        "title": "honest reports in a batch",
        **log_scale([row["n"] for row in rows], format="~s"),
    }
    heights = [*(row["e"] for row in rows), local, *([target] if target else [])]
    y = {"field": "e", "type": "quantitative", "title": "ε of one release", **log_scale(heights)}
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
    return chart({"values": list(rows)}, layers, height=200)


def posterior(rows: Sequence[Spec], labels: Sequence[str]) -> Spec:
    """What someone may believe afterwards against what they believed before: rows have prior, low, high, label."""
    x = {
        "field": "prior",
        "type": "quantitative",
        "title": "belief before",
        "axis": axis(5, format=".0%"),
        "scale": {"domain": [0, 1]},
    }
    y = {"type": "quantitative", "title": "belief after", "axis": axis(5, format=".0%"), "scale": {"domain": [0, 1]}}
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
    return chart({"values": list(rows)}, layers, height=220)


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
