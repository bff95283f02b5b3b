"""Charts as Vega-Lite specifications: plain dictionaries, made from answers of the API.

They are written by hand rather than with Altair, which would do the same and takes a second to import. Every mark that
carries a number has a `description`, which becomes the text that is read on hover and focus. Text of a codebook may be
only in `data`, where Vega takes it literally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hubbub.shortening import letters, shortened_all
from hubbub_aggregator.dashboard.chart_style import Spec, axis, chart, percent, plain, rows_of, rule, times
from hubbub_aggregator.dashboard.palette import INK, LINES, MUTED

__all__ = [
    "FEW",
    "LETTERS",
    "Bar",
    "Moment",
    "bars",
    "course",
    "data_of",
    "differences",
    "down_the_side",
    "extent",
    "number_line",
    "whiskers",
]

FEW = 31
"""Up to this many periods, each has a whisker and a point to aim at. More of them would hide the band."""
LETTERS = 18
"""Most letters of a name beside a chart. A longer one is cut in the middle; the text of its mark has it whole."""
_HEADED = 34
"""Most letters of a name above a chart."""
_WIDEST = 200
"""Most pixels for names beside a chart."""
_MARGIN = 46
"""Pixels left of each of several charts, for the numbers of its axis."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One value with its interval; `raw` if `estimate` is post-processed, `name` if its label is too long."""

    label: str
    estimate: float
    low: float | None
    high: float | None
    text: str
    raw: float | None = None
    name: str = ""


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
    """Shares as horizontal bars with whiskers; if they are post-processed, the raw ones as diamonds."""
    data = [{**datum, "raw": row.raw} for datum, row in zip(data_of(rows), rows, strict=True)]
    y = down_the_side(data)
    x = {"type": "quantitative", "title": None, "axis": axis(format=percent(data)), "scale": {"nice": True}}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "color": LINES[0], "opacity": 0.55, "height": {"band": 0.62}},
            "encoding": {"x": {"field": "v", **x}, "y": y, "description": {"field": "text"}},
        },
        *whiskers("y", y, x),
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
    """A mean with its interval, close enough to see the interval, and not beyond the values that can be recorded."""
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
        *whiskers("y", y, x, width=3),
        {
            "mark": {"type": "point", "filled": True, "size": 140, "color": LINES[0], "opacity": 1},
            "encoding": {"x": {"field": "v", **x}, "y": y, "description": {"field": "text"}},
        },
    ]
    return chart({"values": data}, layers, height=44)


def course(rows: Sequence[Moment], labels: Sequence[str], *, share: bool, edits: Sequence[str] = ()) -> Spec:
    """Estimates over time, each with the band of its interval; several values one below the other.

    Each value has its own scale, so that its band can be seen however far apart the values are.
    """
    sizes = Counter(row.run for row in rows)
    names = dict(zip(labels, shortened_all(labels, _HEADED), strict=True))
    labels = list(names.values())
    data = [
        {
            "t": row.period,
            "label": names[row.label],
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
    few = periods <= FEW
    limits = {"x": x, "y": {"field": "lo", **y}, "y2": {"field": "hi"}, "color": color}
    spans = {"mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6, "aria": False}, "encoding": limits}
    layers: list[Spec] = [
        {"mark": {"type": "area", "opacity": 0.3, "aria": False}, "encoding": {**limits, "detail": detail}},
        spans if few else {"transform": [{"filter": "datum.alone"}], **spans},
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
    """A format with enough digits for the value that spreads least."""
    return max((percent([row for row in data if row["label"] == label]) for label in labels), default=".0%")


def differences(rows: Sequence[Bar], *, share: bool) -> Spec:
    """Changes with their intervals, around a line at no change."""
    data = [{**datum, "lo": row.low, "hi": row.high} for datum, row in zip(data_of(rows), rows, strict=True)]
    y = down_the_side(data)
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
        *whiskers("y", y, x, color=LINES[1]),
        {
            "mark": {"type": "point", "filled": True, "size": 60, "color": LINES[1], "opacity": 1},
            "encoding": {"x": {"field": "v", **x}, "y": y, "description": {"field": "text"}},
        },
    ]
    return chart({"values": data}, layers, height={"step": 26})


def data_of(rows: Sequence[Bar]) -> list[Spec]:
    """What is drawn for each value. No two names are the same."""
    names = shortened_all([row.label for row in rows], LETTERS)
    return [
        {
            "name": row.name or name,
            "v": row.estimate,
            "lo": row.low if row.low is not None else row.estimate,
            "hi": row.high if row.high is not None else row.estimate,
            "text": row.text,
        }
        for row, name in zip(rows, names, strict=True)
    ]


def down_the_side(data: Sequence[Spec]) -> Spec:
    """Values one below the other, by name."""
    room = extent([row["name"] for row in data])
    names = {"labelLimit": _WIDEST, "minExtent": room, "domain": False, "ticks": False, "labelPadding": 8}
    return {"field": "name", "type": "nominal", "sort": None, "title": None, "axis": names}


def extent(names: Sequence[str]) -> int:
    """Room for names by their letters: the browser's font may be wider than the one that vl-convert measures with."""
    return min(_WIDEST, 16 + 8 * max(map(letters, names), default=1))


def whiskers(across: str, place: Spec, along: Spec, *, width: float = 1.5, color: str = INK) -> list[Spec]:
    """The interval from `lo` to `hi`, with a cap at each end."""
    cap = {"type": "tick", "color": color, "thickness": width, "size": 9, "aria": False}
    return [
        {
            "mark": rule(width, color),
            "encoding": {across: place, "x": {"field": "lo", **along}, "x2": {"field": "hi"}},
        },
        *({"mark": cap, "encoding": {across: place, "x": {"field": end, **along}}} for end in ("lo", "hi")),
    ]
