"""Estimates: a pure function of stored releases. Unbiased with exact variance; post-processing is labelled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hubbub.postprocess import base_cut, clip, norm_sub, projected
from hubbub.refusals import Refused
from hubbub.shown import clipped
from hubbub_aggregator.analysis.answer_guarantee import privacy
from hubbub_aggregator.models.estimate import Manipulation, Segment
from hubbub_aggregator.models.estimated_values import AxisModel, HeadlineModel, IntervalKind, Postprocess, ValueModel
from hubbub_aggregator.models.mechanism import MechanismModel
from hubbub_aggregator.models.period_range import PeriodRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hubbub.codebook import Metric
    from hubbub.mechanisms import Estimate as Estimated
    from hubbub.mechanisms import Interval, Tally
    from hubbub_aggregator.analysis.read_releases import Crowd

__all__ = [
    "Query",
    "Shown",
    "largest",
    "manipulation",
    "mechanism_model",
    "period_range",
    "segment",
    "shaped",
    "shown",
]

SELECTED = (
    "these values were chosen after seeing all {size} estimates; the intervals hold for all {size} together, "
    "so they hold for the chosen ones however they were chosen"
)


@dataclass(frozen=True, slots=True)
class Query:
    """What an analyst asked for.

    Intervals hold for all values together unless they are asked for one by one, so that a number has the same interval
    wherever it is shown. A selection by size is honest with no others.
    """

    confidence: float = 0.95
    postprocess: Postprocess = "none"
    population: Literal["reports", "superpopulation"] = "reports"
    simultaneous: bool = True
    top: int | None = None
    headline: bool = False
    """Only the headline value, if there is one: it was not chosen by its size."""

    @classmethod
    def of(
        cls,
        confidence: float,
        postprocess: Postprocess,
        population: Literal["reports", "superpopulation"],
        simultaneous: bool,
        top: int | None,
        *,
        headline: bool = False,
    ) -> Query:
        """A query, refused if it contradicts itself."""
        if top is not None and not simultaneous:
            raise Refused(
                "invalid-query",
                "simultaneous: `top` chooses values by their estimates, and intervals for single values would be too "
                "narrow for those; leave `simultaneous` out, or `top`",
            )
        return cls(confidence, postprocess, population, simultaneous, top, headline)


@dataclass(frozen=True, slots=True)
class Shown:
    """The values of one crowd that are shown, and how their intervals were made."""

    values: list[ValueModel]
    interval: IntervalKind


def segment(crowd: Crowd, periods: range, query: Query, *, is_complete: bool, single_operator: bool) -> Segment:
    """The estimate over all releases of one metric id in a range."""
    metric = crowd.metric
    found = shown(metric, crowd.tally, query)
    return Segment(
        **shaped(metric),
        metric_id=metric.id.hex(),
        type=metric.type,
        mechanism=mechanism_model(metric),
        reports=crowd.tally.reports,
        periods=period_range(metric, periods, len({release.period for release in crowd.releases})),
        complete=is_complete,
        interval=found.interval,
        postprocess=query.postprocess,
        value_count=len(metric.values.labels()),
        values=found.values,
        privacy=privacy(crowd.releases, single_operator=single_operator),
        manipulation=manipulation(metric),
    )


def shaped(metric: Metric) -> dict[str, Any]:
    """How the values of a metric are to be shown: the members of `Shaped`."""
    shape = metric.values.shape
    return {
        "shape": shape.kind,
        "measure": shape.measure,
        "unit": shape.unit or None,
        "order": shape.order,
        "headline": HeadlineModel(
            label=None if shape.leading is None else shape.labels[shape.leading], name=shape.leading_name or None
        ),
        "axes": [
            AxisModel(
                name=axis.name,
                labels=list(axis.labels),
                places=list(axis.places) or None,
                unit=axis.unit or None,
                edges=list(axis.edges) or None,
                scale=axis.scale,
            )
            for axis in shape.axes
        ],
        "postprocessing": [
            "none",
            *(["norm_sub", "base_cut"] if shape.sums_to_one else []),
            "clip",
            *(["projected"] if shape.sums_to_one and metric.mechanism.precision() is not None else []),
        ],
    }


def mechanism_model(metric: Metric) -> MechanismModel:
    mechanism = metric.mechanism
    return MechanismModel(name=mechanism.name, epsilon=float(mechanism.epsilon), parameters=mechanism.parameters())


def manipulation(*metrics: Metric) -> Manipulation:
    """For one estimate, or for a difference of several: each may be shifted in the worse direction."""
    shifts = (metric.values.influence(metric.mechanism) for metric in metrics)
    return Manipulation(per_thousand_fakes=math.fsum(shifts) / 1000)


def period_range(metric: Metric, periods: range, released: int) -> PeriodRange:
    calendar = metric.calendar
    return PeriodRange(
        start=calendar.period(periods.start).label,
        end=calendar.period(periods.stop).label,
        length=str(calendar),
        released=released,
    )


def shown(metric: Metric, tally: Tally, query: Query, chosen: Sequence[int] | None = None) -> Shown:
    """Estimates of a tally: the `chosen` values, or the largest if there is a `top`, or all."""
    found = metric.interval(tally, query.confidence, population=query.population, simultaneous=query.simultaneous)
    size = len(metric.values.labels())
    estimate = metric.estimate(tally)
    if chosen is None:
        chosen = range(size) if query.top is None else largest(estimate.values, query.top)
    return Shown(
        _values(metric, estimate, found, query.postprocess, chosen),
        IntervalKind(
            kind=found.kind,
            confidence=query.confidence,
            simultaneous=query.simultaneous,
            together=found.together,
            selection=None if query.top is None else SELECTED.format(size=size),
        ),
    )


def largest(values: Any, count: int) -> list[int]:
    """Indexes of the largest values, the largest first. Equal values are in the order of the codebook."""
    import numpy as np

    order: list[int] = np.argsort(-np.asarray(values), kind="stable")[:count].tolist()
    return order


def _values(
    metric: Metric, estimate: Estimated, interval: Interval, method: Postprocess, chosen: Sequence[int]
) -> list[ValueModel]:
    """All at once, column by column: a list of 65,536 values must not take a second."""
    import numpy as np

    picked = np.asarray(chosen, np.intp)
    raw, reports = estimate.values[picked], estimate.reports
    done = _postprocessed(metric, estimate, method)
    low, high = interval.low[picked], interval.high[picked]
    people = clipped(raw, low, high, metric.values.shape.limits, None if done is None else done[picked])
    labels, value_of = metric.values.labels(), metric.values.value_of
    return [
        {
            "value": value,
            "label": label,
            "estimate": estimated,
            "stderr": error,
            "low": lower,
            "high": upper,
            "shown": {"value": shown_value, "low": shown_low, "high": shown_high},
            "total": total,
            "total_low": total_lower,
            "total_high": total_upper,
        }
        for (
            value,
            label,
            estimated,
            error,
            lower,
            upper,
            shown_value,
            shown_low,
            shown_high,
            total,
            total_lower,
            total_upper,
        ) in zip(
            map(value_of, chosen),
            map(labels.__getitem__, chosen),
            raw.tolist(),
            estimate.stderr[picked].tolist(),
            _finite(low),
            _finite(high),
            people.values.tolist(),
            people.low.tolist(),
            people.high.tolist(),
            (raw * reports).tolist(),
            _finite(low * reports),
            _finite(high * reports),
            strict=True,
        )
    ]


def _postprocessed(metric: Metric, estimate: Estimated, method: Postprocess) -> NDArray[np.float64] | None:
    shape = metric.values.shape
    if method == "none":
        return None
    if method == "clip":
        return clip(estimate.values, *shape.limits).values
    precision = metric.mechanism.precision() if method == "projected" else None
    if not shape.sums_to_one or (method == "projected" and precision is None):
        fits = "bins in order" if method == "projected" else "shares of a whole"
        said = f"{method} is for {fits}; {metric.name} is a {metric.type}: use clip or none"
        raise Refused("invalid-query", said)
    if precision is not None:
        return projected(estimate.values, precision).values
    done = norm_sub(estimate.values) if method == "norm_sub" else base_cut(estimate.values, estimate.stderr)
    return done.values


def _finite(numbers: NDArray[np.float64]) -> list[float | None]:
    """The numbers, with None for those that JSON can't express."""
    import numpy as np

    found: list[float | None] = numbers.tolist()
    return found if np.isfinite(numbers).all() else [x if x is not None and math.isfinite(x) else None for x in found]
