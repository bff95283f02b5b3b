"""Answers as tables: tidy, one row per value, and the guarantee beside each number.

First what a row is about, then its numbers, then facts in a word, and prose last. Prose is the same in most rows, so
it is written once: an empty cell of prose says what the nearest text above it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from hubbub.result_shapes import cell_label
from hubbub_aggregator.models.comparison import Comparison
from hubbub_aggregator.models.distribution import NumberDistribution
from hubbub_aggregator.models.estimate import Estimate
from hubbub_aggregator.models.ledger import LedgerAnswer
from hubbub_aggregator.models.metrics import MetricList
from hubbub_aggregator.models.privacy_curve import PrivacyCurveAnswer
from hubbub_aggregator.models.release import ReleaseList
from hubbub_aggregator.models.series import Series
from hubbub_aggregator.models.tradeoff import TradeoffAnswer

if TYPE_CHECKING:
    from hubbub_aggregator.models.base import ResponseModel
    from hubbub_aggregator.models.estimated_values import IntervalKind, Shaped, ValueModel
    from hubbub_aggregator.models.privacy import PeriodPrivacy, Privacy

__all__ = ["COLUMNS", "Block", "Kind", "blocks", "columns_of_empty"]

Row: TypeAlias = Mapping[str, Any]
Kind: TypeAlias = Literal["text", "number", "count", "flag"]


class Block(NamedTuple):
    """Rows that share the cells left and right of their own. Shared cells are made once, not 65,536 times.

    `names` are the columns of the own cells. `prose` stands at the end of the first row that it is new in.
    """

    left: Row
    names: Sequence[str]
    rows: Iterable[Iterable[Any]]
    right: Row
    prose: Row

    @property
    def columns(self) -> list[str]:
        return [*self.left, *self.names, *self.right, *self.prose]


def blocks(answer: ResponseModel) -> Iterator[Block]:
    """The rows of an answer. Prose that the rows above have said is None."""
    said: dict[str, Any] = {}
    for block in _blocks(answer):
        new = {name: None if said.get(name) == text else text for name, text in block.prose.items()}
        said |= {name: text for name, text in new.items() if text is not None}
        yield block._replace(prose=new)


def columns_of_empty(answer: ResponseModel) -> Sequence[str]:
    """Columns of a table without rows. Tables that are not in `_EMPTY` always have a row."""
    return _EMPTY[type(answer)]


def _blocks(answer: ResponseModel) -> Iterable[Block]:
    if (made := _TABLES.get(type(answer))) is None:
        raise TypeError(f"{type(answer).__name__} has no table")
    return made(answer)


def _plain(row: Row, prose: Row | None = None) -> Block:
    """One row by itself."""
    return Block({}, list(row), [row.values()], {}, prose or {})


def _of_estimate(answer: Estimate) -> Iterator[Block]:
    numbers, prose = _guarantee(answer.privacy)
    names = _names(answer.segments)
    for segment in answer.segments:
        right = {
            "reports": segment.reports,
            **_chance(segment.interval),
            **numbers,
            "per_thousand_fakes": segment.manipulation.per_thousand_fakes,
            "from": segment.periods.start,
            "to": segment.periods.end,
            "released": segment.periods.released,
            "complete": segment.complete,
            "metric_id": segment.metric_id,
            "type": segment.type,
            "mechanism": segment.mechanism.name,
            "population": answer.population,
            "postprocess": segment.postprocess,
            **_shape(segment),
        }
        rows = _cells(segment.values, _places(segment), names)
        yield Block({"metric": answer.metric}, names, rows, right, {"interval": segment.interval.kind, **prose})


def _of_series(answer: Series) -> Iterator[Block]:
    numbers, prose = _guarantee(answer.privacy)
    segments = {segment.metric_id: segment for segment in answer.segments}
    places = {segment.metric_id: _places(segment) for segment in answer.segments}
    names = _names(answer.segments)
    for point in answer.points:
        segment = segments.get(point.metric_id or "")
        left = {"metric": answer.metric, "period": point.period, "state": point.state}
        right = {
            "reports": point.reports,
            **_chance(point.interval),
            **_own(point.privacy),
            **numbers,
            "per_thousand_fakes": None if segment is None else segment.manipulation.per_thousand_fakes,
            "complete": point.complete,
            "metric_id": point.metric_id,
            "type": None if segment is None else segment.type,
            "mechanism": None if segment is None else segment.mechanism.name,
            "population": answer.population,
            "postprocess": answer.postprocess,
            **_shape(segment),
        }
        rows = _cells(point.values, places.get(point.metric_id or "", {}), names)
        kind = None if point.interval is None else point.interval.kind
        # a gap is one row, with its state and no numbers
        yield Block(left, names, rows if point.values else [[None] * len(names)], right, {"interval": kind, **prose})


def _of_comparison(answer: Comparison) -> Iterator[Block]:
    places = _places(answer)
    numbers, prose = _guarantee(answer.privacy)
    prose = {"interval": answer.interval.kind, "correction": answer.correction, "estimand": answer.estimand, **prose}
    for value in answer.values:
        row = {
            "metric": answer.metric,
            "value": value.label,
            **(dict(zip(_PLACE, places[value.label], strict=True)) if places else {}),
            **{"shown" if name == "value" else f"shown_{name}": one for name, one in value.shown},
            **value.model_dump(exclude={"value", "label", "shown"}),
            "a_reports": answer.a.reports,
            "b_reports": answer.b.reports,
            **_chance(answer.interval),
            **numbers,
            "per_thousand_fakes": answer.manipulation.per_thousand_fakes,
            "a_from": answer.a.periods.start,
            "a_to": answer.a.periods.end,
            "b_from": answer.b.periods.start,
            "b_to": answer.b.periods.end,
            "complete": answer.complete,
            "type": answer.type,
            **_shape(answer),
        }
        yield _plain(row, prose)


def _of_ledger(answer: LedgerAnswer) -> Iterator[Block]:
    groups = {
        "total": [answer.total] if answer.total else [],
        "metric": answer.per_metric,
        "period": answer.per_period,
        "through": answer.over_time,
    }
    for covers, entries in groups.items():
        for entry in entries:
            row = {
                "covers": covers,
                "name": entry.name,
                "epsilon": entry.epsilon,
                "delta": entry.delta,
                "collusion_epsilon": entry.if_collusion.epsilon,
                "releases": entry.releases,
                "honest_reports": entry.honest_reports,
                "opened_and_refused": answer.opened_and_refused,
                "collection": answer.collection,
            }
            yield _plain(row, {"method": entry.method, "unit": answer.unit, "note": answer.note})


def _of_curve(answer: PrivacyCurveAnswer) -> Iterator[Block]:
    shared = {"metric": answer.metric, "group": answer.group, "releases": answer.releases}
    prose = {"unit": answer.unit, "note": answer.note}
    for point in answer.points:
        row = {"kind": "delta", "epsilon": point.epsilon, "delta": point.delta, "false_alarm": None, "least_miss": None}
        yield _plain(row | shared, prose)
    for error in answer.errors:
        row = {"kind": "error", "epsilon": None, "delta": None}
        yield _plain(row | error.model_dump() | shared, prose)


def _of_tradeoff(answer: TradeoffAnswer) -> Iterator[Block]:
    for point in answer.points:
        row = {
            "metric": answer.metric,
            "local_epsilon": point.local_epsilon,
            "mechanism": point.mechanism,
            "standard_error": point.standard_error,
            "central_gaussian": answer.central_gaussian,
            "local_bound": point.local_bound,
            "reports": answer.reports,
            "honest_reports": answer.honest_reports,
            "epsilon": answer.epsilon,
            "delta": answer.delta,
            "metric_id": answer.metric_id,
        }
        yield _plain(row)


def _of_releases(answer: ReleaseList) -> Iterator[Block]:
    for release in answer.releases:
        row = {
            "metric": release.metric,
            "period": release.period.label,
            "epsilon": release.epsilon,
            "delta": release.delta,
            "local_epsilon": release.local_epsilon,
            "reports": release.reports,
            "valid": release.valid,
            "invalid": sum(release.invalid.values()),
            "honest_reports": release.honest_reports,
            "honest_reports_pessimistic": release.honest_reports_pessimistic,
            "honest_fraction": release.honest_fraction,
            "bucket_reports": release.part.bucket_reports if release.part else None,
            "failure_probability": release.part.failure_probability if release.part else None,
            "share_epsilon": release.share_credit.epsilon if release.share_credit else None,
            "share_devices": release.share_credit.devices if release.share_credit else None,
            "mechanism": release.mechanism.name,
            "metric_id": release.metric_id,
            "id": release.id,
            "software": release.software,
        }
        yield _plain(row, {"method": release.method, "unit": release.unit, "adjacency": release.adjacency})


def _of_metrics(answer: MetricList) -> Iterator[Block]:
    for metric in answer.metrics:
        for version in metric.versions:
            row = {
                "metric": metric.name,
                "released_periods": version.released_periods,
                "local_epsilon": version.mechanism.epsilon,
                "min_batch": version.min_batch,
                "first": version.first,
                "last": version.last,
                "enabled": version.enabled,
                "metric_id": version.id,
                "type": version.type,
                "mechanism": version.mechanism.name,
                **_shape(version),
            }
            yield _plain(row)


def _shape(shown: Shaped | None) -> Row:
    return {"shape": shown.shape if shown else None, "value_unit": shown.unit if shown else None}


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


def _chance(interval: IntervalKind | None) -> Row:
    """How sure the limits are, and for how many values at once: 1 if each is by itself."""
    if interval is None:
        return {"confidence": None, "together": None, "simultaneous": None}
    return {"confidence": interval.confidence, "together": interval.together, "simultaneous": interval.simultaneous}


def _guarantee(privacy: Privacy | None) -> tuple[Row, Row]:
    """Numbers and prose of the guarantee of everything in the table; among the numbers, the worst single period's."""
    if privacy is None:
        return dict.fromkeys(_GUARANTEE), dict.fromkeys(_GUARANTEE_PROSE)
    numbers = (
        privacy.epsilon,
        privacy.delta,
        privacy.if_collusion.epsilon,
        max(period.epsilon for period in privacy.per_period),
        privacy.honest_reports,
    )
    prose = (privacy.method, privacy.unit, privacy.note)
    return dict(zip(_GUARANTEE, numbers, strict=True)), dict(zip(_GUARANTEE_PROSE, prose, strict=True))


def _own(privacy: PeriodPrivacy | None) -> Row:
    if privacy is None:
        return {"period_epsilon": None, "period_delta": None}
    return {"period_epsilon": privacy.epsilon, "period_delta": privacy.delta}


_RAW = ("estimate", "low", "high", "stderr")
_SHOWN = ("value", "low", "high")
_TOTAL = ("total", "total_low", "total_high")
_NUMBERS = ("shown", "shown_low", "shown_high", *_RAW, *_TOTAL)
_PLACE = ("row", "column", "place")
_raw, _shown, _total = itemgetter(*_RAW), itemgetter(*_SHOWN), itemgetter(*_TOTAL)


def _names(segments: Iterable[Shaped]) -> tuple[str, ...]:
    """Columns of a value; if some values run along axes, also its place on them."""
    return ("value", *(_PLACE if any(segment.axes for segment in segments) else ()), *_NUMBERS)


def _cells(
    values: Iterable[ValueModel], places: Mapping[str, tuple[object, ...]], names: Sequence[str]
) -> Iterable[Iterable[Any]]:
    """The cells of each value. Its label stands for it, even if it is a boolean or a mean."""
    if len(names) == 1 + len(_NUMBERS):
        return ((one["label"], *_shown(one["shown"]), *_raw(one), *_total(one)) for one in values)
    nowhere = (None,) * len(_PLACE)
    return (
        (one["label"], *places.get(one["label"], nowhere), *_shown(one["shown"]), *_raw(one), *_total(one))
        for one in values
    )


_STATISTIC = ("statistic", "at", "until", "estimate", "low", "high", "band_low", "band_high")


def _of_distribution(answer: NumberDistribution) -> Iterator[Block]:
    """One row per number. `at` is an edge, a quantile's share or the start of a range, and `until` its end."""
    numbers, prose = _guarantee(answer.privacy)
    for segment in answer.segments:
        rows: list[list[Any]] = [
            ["below", one.edge, None, one.estimate, one.low, one.high, one.band_low, one.band_high]
            for one in segment.below
        ]
        rows += [["quantile", one.q, None, one.estimate, one.low, one.high, None, None] for one in segment.quantiles]
        rows += [["range", one.lower, one.upper, one.estimate, one.low, one.high, None, None] for one in segment.ranges]
        rows += [
            [name, None, None, one.estimate, one.low, one.high, None, None]
            for name in ("mean", "total", "deviation", "first_bin", "last_bin")
            for one in [getattr(segment, name)]
        ]
        if segment is answer.segments[-1]:
            rows += [
                ["shift", one.q, None, one.shift.estimate, one.shift.low, one.shift.high, None, None]
                for one in answer.shifts or []
            ]
        right = {
            "reports": segment.reports,
            "confidence": segment.confidence,
            **numbers,
            "per_thousand_fakes": segment.manipulation.per_thousand_fakes,
            "from": segment.periods.start,
            "to": segment.periods.end,
            "released": segment.periods.released,
            "complete": segment.complete,
            "metric_id": segment.metric_id,
            "type": segment.type,
            "mechanism": segment.mechanism,
            "population": answer.population,
            "value_unit": segment.unit,
        }
        yield Block({"metric": answer.metric}, _STATISTIC, rows, right, {"interval": segment.kind, **prose})


_GUARANTEE = ("epsilon", "delta", "collusion_epsilon", "largest_period_epsilon", "honest_reports")
_GUARANTEE_PROSE = ("method", "unit", "note")
_EMPTY: dict[type[ResponseModel], Sequence[str]] = {
    LedgerAnswer: (
        *("covers", "name", "epsilon", "delta", "collusion_epsilon", "releases", "honest_reports"),
        *("opened_and_refused", "collection", "method", "unit", "note"),
    ),
    ReleaseList: (
        *("metric", "period", "epsilon", "delta", "local_epsilon", "reports", "valid", "invalid", "honest_reports"),
        *("honest_reports_pessimistic", "honest_fraction", "bucket_reports", "failure_probability"),
        *("share_epsilon", "share_devices", "mechanism", "metric_id", "id", "software", "method", "unit", "adjacency"),
    ),
    PrivacyCurveAnswer: (
        *("kind", "epsilon", "delta", "false_alarm", "least_miss", "metric", "group", "releases", "unit", "note"),
    ),
    MetricList: (
        *("metric", "released_periods", "local_epsilon", "min_batch", "first", "last", "enabled", "metric_id"),
        *("type", "mechanism", "shape", "value_unit"),
    ),
}

_KINDS: dict[Kind, tuple[str, ...]] = {
    "number": (
        *("place", *_NUMBERS, "confidence", "epsilon", "delta", "collusion_epsilon", "largest_period_epsilon"),
        *("period_epsilon", "period_delta", "per_thousand_fakes", "local_epsilon", "failure_probability"),
        *("share_epsilon", "false_alarm", "least_miss", "standard_error", "central_gaussian", "local_bound"),
        *("at", "until", "band_low", "band_high"),
        *("a", "b", "difference", "p_value", "adjusted_p_value", "shown_a", "shown_b"),
    ),
    "count": (
        *("reports", "a_reports", "b_reports", "released", "together", "honest_reports", "releases"),
        *("honest_reports_pessimistic", "bucket_reports", "valid", "invalid", "opened_and_refused"),
        *("released_periods", "min_batch", "share_devices", "group"),
    ),
    "flag": ("simultaneous", "complete", "enabled"),
    "text": (
        *(
            "metric",
            "period",
            "state",
            "statistic",
            "value",
            "row",
            "column",
            "from",
            "to",
            "a_from",
            "a_to",
            "b_from",
            "b_to",
        ),
        *("metric_id", "type", "mechanism", "population", "postprocess", "shape", "value_unit", "first", "last"),
        *("interval", "method", "unit", "note", "correction", "estimand", "adjacency"),
        *("covers", "name", "collection", "id", "software", "honest_fraction", "kind"),
    ),
}
COLUMNS: dict[str, Kind] = {name: kind for kind, names in _KINDS.items() for name in names}
"""What each column holds. A missing value is None in any of them."""
_TABLES: dict[type[ResponseModel], Callable[[Any], Iterable[Block]]] = {
    Estimate: _of_estimate,
    Series: _of_series,
    Comparison: _of_comparison,
    NumberDistribution: _of_distribution,
    LedgerAnswer: _of_ledger,
    PrivacyCurveAnswer: _of_curve,
    TradeoffAnswer: _of_tradeoff,
    ReleaseList: _of_releases,
    MetricList: _of_metrics,
}
