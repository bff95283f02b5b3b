"""Answers of an aggregator as text: the numbers, then what they rest on and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any, TypeAlias

import click

from hubbub_cli.terminal import estimate_bars
from hubbub_cli.terminal.period_names import between, in_list, named
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.table import table, table_or_records
from hubbub_cli.terminal.wrapped_text import wrapped
from hubbub_query import (
    Comparison,
    Difference,
    Estimate,
    IntervalKind,
    Manipulation,
    MetricList,
    NamedMetric,
    Point,
    Privacy,
    Segment,
    Series,
    Shaped,
    Side,
    Value,
)

__all__ = ["ROWS", "comparison", "course", "estimate", "interval", "listing"]

_Row: TypeAlias = Mapping[str, Any]
_FINE_P, _LEAST_P = 0.01, 1e-6
"""Below the first, a p-value has six decimals. Below the second, it is said to be below it."""
ROWS = 20
"""Number of values that fit a screen."""
_LONG_GAP = 3
"""Periods without a number from which on they share a row."""
_LONGEST_GAP = 36
"""The longest name of such a row has two dates with times."""
_NOT_FINAL = "not final: a batch that comes late still counts"


def listing(answer: MetricList) -> str:
    """The metrics, with type, mechanism and releases."""
    rows = [
        {
            "metric": metric.name,
            "type": metric.versions[-1].type,
            "mechanism": metric.versions[-1].mechanism.name,
            "releases": metric.versions[-1].released_periods,
            "newest": named(last) if (last := metric.versions[-1].last) else "nothing yet",
        }
        for metric in answer.metrics
    ]
    return table_or_records(rows) if rows else ""


def estimate(answer: Estimate) -> str:
    """A section for each id of the metric: the estimates, from how many reports, at what cost."""
    return "\n\n".join("\n".join(_segment(answer, segment)) for segment in answer.segments)


def _segment(answer: Estimate, segment: Segment) -> Iterator[str]:
    periods = segment.periods
    covered = between(periods.start, periods.end)
    yield _title(answer.metric, f"{covered}: {segment.reports:,} reports by {segment.mechanism.name}")
    yield from shaped(segment)
    if (left := segment.value_count - len(segment.values)) > 0:
        yield f"and {left:,} smaller ones"
    yield ""
    yield from interval(segment.interval)
    yield from _postprocessed(segment.postprocess)
    if not segment.complete:
        yield _NOT_FINAL
    yield from _cost(segment.privacy, segment.manipulation, segment, what="an estimate")


def shaped(segment: Segment) -> Iterator[str]:
    """The values of a segment in the form of their shape, and a note on values left out."""
    values = segment.values
    if segment.shape == "grid" and len(values) == segment.value_count:
        yield estimate_bars.grid([_row(value) for value in values], *segment.axes)
        return
    listed, left_out = _in_order(segment)
    names = _names(listed, segment)
    first, share = _heading(segment), segment.measure == "share"
    rows = [_row(value) for value in listed]
    yield estimate_bars.estimates(rows, names, share=share, first=first, longest=estimate_bars.LONGEST_CELL)
    if segment.unit:
        yield f"in {segment.unit}"
    yield from left_out


def _row(value: Value) -> _Row:
    return {"label": value.label, "shown": asdict(value.shown)}


def _in_order(shown: Segment | Comparison) -> tuple[Sequence[Any], list[str]]:
    """Values in the order of the list. A curve keeps its own order, and is thinned unless a selection was asked for."""
    values: Sequence[Any] = shown.values
    if shown.shape != "curve":
        return values, []
    place = {label: number for number, label in enumerate(shown.axes[0].labels)}
    values = sorted(values, key=lambda row: place[row.label])
    if shown.interval.selection or len(values) <= ROWS:
        return values, []
    leads = [number for number, row in enumerate(values) if row.label == shown.headline.label]
    kept = estimate_bars.spread(len(values), ROWS, leads)
    if len(kept) == len(values):
        return values, []
    also = " and the leading one" if leads else ""
    said = f"{len(kept)} of {len(values):,} places, evenly spaced{also}; --csv has all"
    return [values[number] for number in kept], [said]


def _names(values: Sequence[Value | Difference], shown: Shaped) -> list[str]:
    """The names of the values. The two names of a grid cell are shortened separately."""
    if shown.shape == "grid":
        cells = estimate_bars.cells(*shown.axes)
        return [cells[row.label] for row in values]
    return estimate_bars.shorts([row.label for row in values], estimate_bars.signs())


def _heading(shown: Shaped) -> str:
    """The heading above the names of the values: the axes."""
    cross = " × " if estimate_bars.signs() is estimate_bars.BLOCKS else " x "
    short = [
        estimate_bars.along(axis, estimate_bars.LONGEST_PART) if shown.axes[1:] else estimate_bars.along(axis)
        for axis in shown.axes
    ]
    return estimate_bars.spelled(cross.join(short) or "value", estimate_bars.signs())


def course(answer: Series) -> str:
    """One row per period or gap, one block per value; only the leading value where there is one."""
    found = [point for point in answer.points if point.values]
    leading = {segment.headline.label for segment in answer.segments}
    share = all(segment.measure == "share" for segment in answer.segments)
    periods = answer.periods
    lines = [_title(answer.metric, f"{between(periods.start, periods.end)}, by periods of {periods.length}")]
    labels = list(dict.fromkeys(row.label for point in found for row in point.values))
    if labels and None not in leading:
        labels = [label for label in labels if label in leading] or labels
    titles = _titles(labels, answer.segments[-1]) if labels else {}
    names, points, notes = _periods(answer.points)
    for label in labels:
        rows: list[_Row] = [
            next((_row(value) for value in point.values if value.label == label), {}) for point in points
        ]
        lines += [
            f"{titles[label]}:",
            estimate_bars.estimates(rows, names, share=share, first="period", longest=_LONGEST_GAP, notes=notes),
            "",
        ]
    if not labels:
        lines += [table(["period", "state"], [list(row) for row in zip(names, notes, strict=True)]), ""]
    elif None in leading and (left := max(segment.value_count for segment in answer.segments) - len(labels)) > 0:
        lines += [f"and {left:,} more: --top N shows the N largest, --csv all", ""]
    states = {point.state for point in answer.points}
    lines += [f"{state}: {meaning}" for state, meaning in _STATES.items() if state in states]
    kinds = [point.interval for point in found if point.interval]
    if kinds:
        lines += [*interval(_merged(kinds)), *_postprocessed(answer.postprocess)]
    if answer.privacy:
        newest = answer.segments[-1]
        lines += _cost(answer.privacy, newest.manipulation, newest, what="an estimate")
    return "\n".join(lines)


def _titles(labels: Sequence[str], segment: Shaped) -> dict[str, str]:
    """The line above the series of a value: its axes, its name, and the unit of its numbers."""
    cells = estimate_bars.cells(*segment.axes) if segment.shape == "grid" else {}
    unit = f", in {segment.unit}" if segment.unit else ""
    on = f"{_heading(segment)}, " if segment.axes else ""
    return {
        label: f"{on}{cells.get(label) or estimate_bars.short(label, estimate_bars.signs())}{unit}" for label in labels
    }


_STATES = {
    "open": "batches may still arrive for this period",
    "deleted": "the release is past its retention",
    "discarded": "the shuffler deleted the batch; the operations page says why",
    "not-released": "the period is over and nothing was released",
}


def _periods(points: Sequence[Point]) -> tuple[list[str], list[Point], list[str]]:
    """Name, point and state of each row. A long gap is one row: what else there is to say is the number of periods."""
    starts = in_list([point.period for point in points])
    names: list[str] = []
    rows: list[Point] = []
    notes: list[str] = []
    for state, run in groupby(range(len(points)), key=lambda index: points[index].state):
        indexes = list(run)
        if state != "released" and len(indexes) >= _LONG_GAP:
            names.append(f"{starts[indexes[0]]} to {starts[indexes[-1]]}")
            rows.append(points[indexes[0]])
            notes.append(f"{state} ({len(indexes)} periods)")
            continue
        names += [starts[index] for index in indexes]
        rows += [points[index] for index in indexes]
        notes += ["" if state == "released" else state for _ in indexes]
    return names, rows, notes


def _merged(kinds: Sequence[IntervalKind]) -> IntervalKind:
    """The kind of all intervals of a series, which may be exact for a period with few reports and not for another."""
    parts = [kind.kind.split(", ") for kind in kinds]
    if len({len(part) for part in parts}) > 1:
        return kinds[-1]
    words = [" or ".join(sorted(set(column))) for column in zip(*parts, strict=True)]
    return replace(kinds[-1], kind=", ".join(words))


def comparison(answer: Comparison) -> str:
    """A row for each value: before, after, the difference, and how likely noise alone would cause it."""
    share, a, b = answer.measure == "share", answer.a, answer.b
    drawn = estimate_bars.signs()
    values, left_out = _in_order(answer)
    if (left := answer.value_count - len(answer.values)) > 0:
        left_out.append(f"and {left:,} smaller changes")
    head = [_heading(answer), "a", "b", "b - a", "low", "high", "p"]
    rows = [
        [
            name,
            *(estimate_bars.number(getattr(row.shown, key), share=share) for key in ("a", "b")),
            *(estimate_bars.change(getattr(row.shown, key), share=share) for key in ("value", "low", "high")),
            _p_value(row.adjusted_p_value),
        ]
        for name, row in zip(_names(values, answer), values, strict=True)
    ]
    limits: list[list[float]] = [[getattr(row.shown, key) for key in ("low", "value", "high")] for row in values]
    width = estimate_bars.room(head, rows)
    ends = (min(0.0, *(limit[0] for limit in limits)), max(0.0, *(limit[2] for limit in limits)))
    drawings = [estimate_bars.whisker(low, middle, high, ends, width, drawn) for low, middle, high in limits]
    lines = [
        click.style(answer.metric, bold=True) + ": b against a",
        *(_side(name, side) for name, side in (("a", a), ("b", b))),
        table([*head, ""], [[*row, line] for row, line in zip(rows, drawings, strict=True)]),
        *(["b - a, low and high: in percentage points"] if share else [f"in {answer.unit}"] if answer.unit else []),
        *left_out,
        "",
        wrapped(f"p: how often noise alone would do this. Correction: {answer.correction}"),
        *interval(answer.interval),
        wrapped(f"about {answer.estimand}"),
        *(_cost(answer.privacy, answer.manipulation, answer, what="a difference") if answer.privacy else ()),
    ]
    return "\n".join(lines)


def _side(name: str, side: Side) -> str:
    more = "" if side.complete else ", not final"
    return f"{name}: {between(side.periods.start, side.periods.end)}: {side.reports:,} reports{more}"


def _p_value(p: float) -> str:
    if p < _LEAST_P:
        return "<0.000001"
    return f"{p:.3f}" if p >= _FINE_P else f"{p:.6f}"


def _title(metric: str, rest: str) -> str:
    # wrapped before it is styled, since the codes for bold letters take no room
    return wrapped(f"{metric}, {rest}").replace(metric, click.style(metric, bold=True), 1)


def interval(found: IntervalKind) -> Iterator[str]:
    """How the limits were made, and how many of them hold at once."""
    yield wrapped(f"{100 * found.confidence:.10g}% intervals{_joint(found)}: {found.kind}")
    if found.selection:
        yield wrapped(found.selection)


def _joint(found: IntervalKind) -> str:
    """Whether intervals hold for all values together. Nothing if there is one free value."""
    if found.together > 1:
        return f" for all {found.together:,} values together"
    return "" if found.simultaneous else ", each value by itself"


def _postprocessed(method: str) -> Iterator[str]:
    if method != "none":
        yield wrapped(
            f"post-processed by {method}: biased, for display only; the intervals are those of the raw estimates"
        )


def _cost(privacy: Privacy, manipulation: Manipulation, shown: Shaped, *, what: str) -> Iterator[str]:
    """The two guarantees, whom they protect, and how far fake reports could shift the result."""
    yield f"privacy: eps {above(privacy.epsilon)} at delta {privacy.delta:g} ({privacy.method}),"
    yield f"         for {privacy.unit};"
    yield f"         {privacy.honest_reports:,} honest reports assumed, and a shuffler that does not collude"
    yield f"if shuffler and aggregator collude: eps {privacy.if_collusion.epsilon:g}"
    shift = estimate_bars.number(manipulation.per_thousand_fakes, share=shown.measure == "share")
    unit = f" {shown.unit}" if shown.unit else ""
    yield f"if one report in a thousand is made up, {what} can be off by {shift}{unit}"
    if privacy.note:
        yield wrapped(privacy.note)


def empty(metrics: Sequence[NamedMetric]) -> str:
    """What to do while there are no estimates."""
    if not metrics:
        return "no metric is collected: write one into metrics.toml, and check it with `hubbub codebook check`"
    return (
        "nothing has been released yet: a period is released once it and its grace are over and enough devices "
        "reported; `hubbub plan` says how many are enough, `hubbub query METRIC --series` shows the state of each "
        "period"
    )
