"""Answers as CSV (RFC 4180): tidy, one row per value, and the guarantee in every row.

A text cell that a spreadsheet would run as a formula, because it begins with = + - or @, gets an apostrophe in front.
So does one that begins with an apostrophe: removing one leading apostrophe gives the text back. Numbers stay as they
are; a missing value is an empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from hubbub.result_shapes import cell_label
from hubbub_aggregator.models.comparison import Comparison
from hubbub_aggregator.models.estimate import Estimate
from hubbub_aggregator.models.ledger import LedgerAnswer, LedgerEntry
from hubbub_aggregator.models.metrics import MetricList
from hubbub_aggregator.models.release import ReleaseList, ReleaseModel
from hubbub_aggregator.models.series import Series

if TYPE_CHECKING:
    from hubbub_aggregator.models.base import ResponseModel
    from hubbub_aggregator.models.estimated_values import IntervalKind, Shaped, ValueModel
    from hubbub_aggregator.models.privacy import PeriodPrivacy, Privacy

__all__ = ["CSV_TYPE", "to_csv"]

CSV_TYPE = "text/csv; charset=utf-8; header=present"
_RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")
_NEEDS_QUOTES = re.compile(r'[",\r\n]')

Row = Mapping[str, Any]


class Block(NamedTuple):
    """Rows that share the cells left and right of their own. Shared cells are formatted once, not 65,536 times."""

    left: Row
    names: Sequence[str]
    rows: Iterable[Iterable[Any]]
    right: Row


def to_csv(answer: ResponseModel) -> bytes:
    """The rows of an answer under one header; only the header if there are no rows."""
    header: list[str] = []
    lines: list[str] = []
    for left, names, rows, right in _blocks(answer):
        header = header or [*left, *names, *right]
        before, after = "".join(f"{_cell(one)}," for one in left.values()), _after(right)
        lines += [f"{before}{','.join(map(_cell, cells))}{after}" for cells in rows]
    return "\r\n".join([",".join(header or _EMPTY[type(answer)]), *lines, ""]).encode()


def _after(right: Row) -> str:
    return "".join(f",{_cell(one)}" for one in right.values())


def _cell(value: Any) -> str:
    if type(value) is float:
        return repr(value)
    if value is None:
        return ""
    if isinstance(value, str):
        safe = "'" + value if value.startswith(_RUN_BY_SPREADSHEETS) else value
        return '"' + safe.replace('"', '""') + '"' if _NEEDS_QUOTES.search(safe) else safe
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _blocks(answer: ResponseModel) -> Iterable[Block]:
    match answer:
        case Estimate():
            return _of_estimate(answer)
        case Series():
            return _of_series(answer)
        case Comparison():
            return map(_plain, _of_comparison(answer))
        case LedgerAnswer():
            return map(_plain, _of_ledger(answer))
        case ReleaseList():
            return map(_plain, _of_releases(answer))
        case MetricList():
            return map(_plain, _of_metrics(answer))
    raise TypeError(f"{type(answer).__name__} has no table")


def _plain(row: Row) -> Block:
    """One row by itself."""
    return Block({}, list(row), [row.values()], {})


def _of_estimate(answer: Estimate) -> Iterator[Block]:
    guarantee = _guarantee(answer.privacy)
    names = _names(answer.segments)
    for segment in answer.segments:
        places = _places(segment)
        fixed = {
            "metric": answer.metric,
            "metric_id": segment.metric_id,
            "type": segment.type,
            "from": segment.periods.start,
            "to": segment.periods.end,
            "released": segment.periods.released,
            "complete": segment.complete,
            "reports": segment.reports,
        }
        after = {
            **_interval(segment.interval),
            "population": answer.population,
            "postprocess": segment.postprocess,
            "mechanism": segment.mechanism.name,
            **guarantee,
            "per_thousand_fakes": segment.manipulation.per_thousand_fakes,
        }
        yield Block(fixed, names, _placed(segment.values, places, names), {**after, **_shape(segment)})


def _of_series(answer: Series) -> Iterator[Block]:
    guarantee = _guarantee(answer.privacy)
    segments = {segment.metric_id: segment for segment in answer.segments}
    places = {segment.metric_id: _places(segment) for segment in answer.segments}
    names = _names(answer.segments)
    for point in answer.points:
        segment = segments.get(point.metric_id or "")
        fixed = {
            "metric": answer.metric,
            "metric_id": point.metric_id,
            "type": None if segment is None else segment.type,
            "period": point.period,
            "state": point.state,
            "complete": point.complete,
            "reports": point.reports,
        }
        after = {
            **_interval(point.interval),
            "population": answer.population,
            "postprocess": answer.postprocess,
            "mechanism": None if segment is None else segment.mechanism.name,
            **_own(point.privacy),
            **guarantee,
            "per_thousand_fakes": None if segment is None else segment.manipulation.per_thousand_fakes,
        }
        rows = _placed(point.values, places.get(point.metric_id or "", {}), names)
        yield Block(fixed, names, rows if point.values else [[None] * len(names)], {**after, **_shape(segment)})


def _of_comparison(answer: Comparison) -> Iterator[Row]:
    places = _places(answer)
    for value in answer.values:
        yield {
            "metric": answer.metric,
            "type": answer.type,
            "a_from": answer.a.periods.start,
            "a_to": answer.a.periods.end,
            "a_reports": answer.a.reports,
            "b_from": answer.b.periods.start,
            "b_to": answer.b.periods.end,
            "b_reports": answer.b.reports,
            "complete": answer.complete,
            "value": value.label,
            **value.model_dump(exclude={"value", "label", "shown"}),
            **{"shown" if name == "value" else f"shown_{name}": one for name, one in value.shown},
            **_interval(answer.interval),
            "correction": answer.correction,
            "estimand": answer.estimand,
            **_guarantee(answer.privacy),
            "per_thousand_fakes": answer.manipulation.per_thousand_fakes,
            **_shape(answer),
            **(dict(zip(_PLACE, places[value.label], strict=True)) if places else {}),
        }


def _of_ledger(answer: LedgerAnswer) -> Iterator[Row]:
    groups = {
        "total": [answer.total] if answer.total else [],
        "metric": answer.per_metric,
        "period": answer.per_period,
        "through": answer.over_time,
    }
    for covers, entries in groups.items():
        for entry in entries:
            yield {
                "collection": answer.collection,
                "covers": covers,
                **entry.model_dump(exclude={"if_collusion"}),
                "collusion_epsilon": entry.if_collusion.epsilon,
                "opened_and_refused": answer.opened_and_refused,
                "unit": answer.unit,
                "note": answer.note,
            }


def _of_releases(answer: ReleaseList) -> Iterator[Row]:
    for release in answer.releases:
        yield {
            **release.model_dump(exclude=_NOT_CELLS),
            "period": release.period.label,
            "mechanism": release.mechanism.name,
            "invalid": sum(release.invalid.values()),
            "bucket_reports": release.part.bucket_reports if release.part else None,
            "failure_probability": release.part.failure_probability if release.part else None,
        }


def _of_metrics(answer: MetricList) -> Iterator[Row]:
    for metric in answer.metrics:
        for version in metric.versions:
            yield {
                "metric": metric.name,
                "metric_id": version.id,
                "type": version.type,
                "mechanism": version.mechanism.name,
                "local_epsilon": version.mechanism.epsilon,
                "min_batch": version.min_batch,
                "enabled": version.enabled,
                "released_periods": version.released_periods,
                "first": version.first,
                "last": version.last,
                **_shape(version),
            }


def _shape(shown: Shaped | None) -> Row:
    return {"shape": shown.shape if shown else None, "value_unit": shown.unit if shown else None}


def _names(segments: Iterable[Shaped]) -> tuple[str, ...]:
    """Columns of a value; if some values run along axes, also its place on them."""
    return (*_VALUE, *_PLACE) if any(segment.axes for segment in segments) else _VALUE


def _places(shown: Shaped) -> dict[str, tuple[object, ...]]:
    """By label, the cells of `_PLACE`: the row, the column, and the place on the scale of a curve."""
    match shown.axes:
        case [axis]:
            places: Sequence[float | None] = axis.places or [None] * len(axis.labels)
            return {label: (label, None, at) for label, at in zip(axis.labels, places, strict=True)}
        case [rows, columns]:
            cells = product(rows.labels, columns.labels)
            return {cell_label(row, column): (row, column, None) for row, column in cells}
    return {}


def _placed(
    values: Iterable[ValueModel], places: Mapping[str, tuple[object, ...]], names: Sequence[str]
) -> Iterable[Iterable[Any]]:
    if len(names) == len(_VALUE):
        return map(_values, values)
    nowhere = (None,) * len(_PLACE)
    return ((*_values(value), *places.get(value["label"], nowhere)) for value in values)


def _interval(interval: IntervalKind | None) -> Row:
    if interval is None:
        return {"confidence": None, "simultaneous": None, "interval": None}
    return {
        "confidence": interval.confidence,
        "simultaneous": interval.simultaneous,
        "interval": interval.kind,
    }


def _guarantee(privacy: Privacy | None) -> Row:
    """The guarantee of everything in the table together, and beside it the worst one of a single period."""
    if privacy is None:
        return dict.fromkeys(_GUARANTEE)
    found = (
        privacy.epsilon,
        privacy.delta,
        privacy.method,
        privacy.honest_reports,
        max(period.epsilon for period in privacy.per_period),
        privacy.if_collusion.epsilon,
        privacy.unit,
        privacy.note,
    )
    return dict(zip(_GUARANTEE, found, strict=True))


def _own(privacy: PeriodPrivacy | None) -> Row:
    if privacy is None:
        return {"period_epsilon": None, "period_delta": None}
    return {"period_epsilon": privacy.epsilon, "period_delta": privacy.delta}


_RAW = ("estimate", "stderr", "low", "high")
_SHOWN = ("value", "low", "high")
_TOTAL = ("total", "total_low", "total_high")
_VALUE = ("value", *_RAW, "shown", "shown_low", "shown_high", *_TOTAL)
_PLACE = ("row", "column", "place")
_raw, _shown, _total = itemgetter("label", *_RAW), itemgetter(*_SHOWN), itemgetter(*_TOTAL)


def _values(value: ValueModel) -> tuple[Any, ...]:
    """The cells of a value, from its model. Its label stands for it, even if it is a boolean or a mean."""
    return (*_raw(value), *_shown(value["shown"]), *_total(value))


_GUARANTEE = (
    "epsilon",
    "delta",
    "method",
    "honest_reports",
    "largest_period_epsilon",
    "collusion_epsilon",
    "unit",
    "note",
)
_NOT_CELLS = {"period", "mechanism", "scope", "invalid", "part"}
"""Members of a release that are more than one cell, or come last."""
_EMPTY: dict[type[ResponseModel], Sequence[str]] = {
    LedgerAnswer: (
        *("collection", "covers"),
        *(name for name in LedgerEntry.model_fields if name != "if_collusion"),
        *("collusion_epsilon", "opened_and_refused", "unit", "note"),
    ),
    ReleaseList: (
        *(name for name in ReleaseModel.model_fields if name not in _NOT_CELLS),
        *("period", "mechanism", "invalid", "bucket_reports", "failure_probability"),
    ),
    MetricList: ("metric", "metric_id", "type", "mechanism"),
}
"""Columns of tables without rows. Tables that are not listed here always have a row."""
