r"""Comparison of two ranges: the difference of each value, its interval, and how surprising it would be.

Noise is drawn afresh for every report, so that the errors of disjoint ranges are independent, even if the same devices
are in both: variances add. The limits l, u of each range at one confidence give those of d = b - a as

    d - sqrt((b - l_b)^2 + (u_a - a)^2)   to   d + sqrt((u_b - b)^2 + (a - l_a)^2)

(MOVER: Zou and Donner, Statistics in Medicine 27, 2008). For normal errors this is d +- z sqrt(Var a + Var b); for
small counts it inherits the exact law from each mechanism's own limits. An exact arm may be shorter than a normal one,
because a law is inverted only for what is possible; combined unchanged, arms would miss 15 % instead of 5 % there
(measured, with arms that ended at 0 and 1), so each one is at least z standard errors.
If noise is so small that a difference moves in few steps, both limits are moved out by half a step, which is half of
what one report can do: without that, 95 % intervals would hold 76 to 93 % of the time there (measured).
The p-value is the smallest 1 - confidence at which this interval excludes zero. It is interpolated between some levels,
one of which is the requested one, so that it never contradicts the interval beside it. For small counts, where limits
move in steps, it is right to about a tenth of itself at other levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from hubbub.refusals import Refused
from hubbub.shown import clipped
from hubbub_aggregator.analysis.answer_guarantee import privacy
from hubbub_aggregator.analysis.estimate import largest, manipulation, mechanism_model, period_range, shaped
from hubbub_aggregator.models.comparison import Comparison, DifferenceModel, ShownDifference, Side
from hubbub_aggregator.models.estimated_values import IntervalKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hubbub.codebook import Metric
    from hubbub.mechanisms import Estimate, Interval, Tally
    from hubbub_aggregator.analysis.read_releases import Crowd

__all__ = ["Difference", "Range", "comparison", "difference", "refuse_different_questions", "refuse_overlap"]

ESTIMAND = (
    "the devices that reported in b against those that reported in a: noise is the only randomness, drawn afresh for "
    "every report, so that it is independent between disjoint ranges. That the crowds differ is what is tested; "
    "whether devices changed, or other devices reported, cannot be told apart"
)
SELECTED = "the largest changes; intervals and adjusted p-values allow for that"
_LEVELS = (0.012533, 1.0, 2.0, 3.0, 4.5, 6.0, 7.0)
"""Where limits are computed to find the p-value, in standard deviations. Between them, limits are nearly linear."""
_MEANING = ("epsilon", "mechanism", "report_bytes")
"""What may differ between two ids of a name while their values still mean the same."""


@dataclass(frozen=True, slots=True)
class Difference:
    """b - a for each value, with limits and p-values."""

    values: NDArray[np.float64]
    stderr: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    p_values: NDArray[np.float64] | None
    kind: str


class Estimator(Protocol):
    """What a difference is made from: a metric, or a mechanism by itself."""

    def estimate(self, tally: Tally, /) -> Estimate: ...

    def interval(self, tally: Tally, confidence: float = 0.95, /) -> Interval: ...

    def step(self) -> float: ...


def difference(
    a: tuple[Estimator, Tally],
    b: tuple[Estimator, Tally],
    confidence: float,
    together: int = 1,
    *,
    p_values: bool = True,
) -> Difference:
    """How b differs from a; limits hold for `together` values at once (Bonferroni), p-values for each alone."""
    import numpy as np

    first, second = a[0].estimate(a[1]), b[0].estimate(b[1])
    change = second.values - first.values
    low, high, kind = _limits(a, b, 1 - (1 - confidence) / together)
    stderr = np.sqrt(first.stderr**2 + second.stderr**2)
    if not p_values:
        return Difference(change, stderr, low, high, None, kind)
    asked = _deviations((1 - confidence) / together)
    found = {asked: (low, high)} if _LEVELS[0] < asked < _LEVELS[-1] else {}
    found |= {level: _limits(a, b, math.erf(level / math.sqrt(2)))[:2] for level in _LEVELS}
    towards = np.array([np.where(change > 0, found[level][0], -found[level][1]) for level in sorted(found)])
    return Difference(change, stderr, low, high, _p_values(towards, np.array(sorted(found))), kind)


def _deviations(miss: float) -> float:
    """The number of standard deviations that a normal error exceeds with this chance."""
    from scipy.special import erfcinv

    return math.sqrt(2) * float(erfcinv(miss))


def _limits(
    a: tuple[Estimator, Tally], b: tuple[Estimator, Tally], confidence: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    import numpy as np

    one, two = a[0].interval(a[1], confidence), b[0].interval(b[1], confidence)
    first, second = a[0].estimate(a[1]), b[0].estimate(b[1])
    z = _deviations(1 - confidence)
    # exact limits end where the truth must; an unbiased estimate does not, so no arm is shorter than a normal one
    down_a, up_a = (np.maximum(arm, z * first.stderr) for arm in (first.values - one.low, one.high - first.values))
    down_b, up_b = (np.maximum(arm, z * second.stderr) for arm in (second.values - two.low, two.high - second.values))
    change = second.values - first.values
    # a mean is a sum on a fine grid, or has limits that allow for steps already
    half_step = max(one.step() / tally.reports for one, tally in (a, b)) / 2
    low, high = change - np.hypot(down_b, up_a) - half_step, change + np.hypot(up_b, down_a) + half_step
    sides = one.kind if one.kind == two.kind else f"{one.kind}; {two.kind}"
    return low, high, f"difference, MOVER of ({sides})"


def _p_values(towards: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """The level at which the limit nearer to zero reaches it, as a p-value: linear between levels, one below them."""
    import numpy as np
    from scipy.special import erfc

    limits = np.minimum.accumulate(towards, axis=0)  # a wider interval never excludes more
    beyond = (limits > 0).sum(axis=0)  # how many levels still exclude zero
    left, right = np.clip(beyond - 1, 0, None), np.clip(beyond, 0, len(levels) - 1)
    columns = np.arange(limits.shape[1])
    high, low = limits[left, columns], limits[right, columns]
    step = np.where(high > low, high / np.where(high > low, high - low, 1), 0)
    reached = np.where(beyond == len(levels), levels[-1], levels[left] + step * (levels[right] - levels[left]))
    return np.asarray(np.where(beyond == 0, 1.0, erfc(reached / math.sqrt(2))))


@dataclass(frozen=True, slots=True)
class Range:
    """One side: what was asked for, and the releases found in it."""

    periods: range
    crowd: Crowd
    is_complete: bool

    def model(self) -> Side:
        metric = self.crowd.metric
        return Side(
            metric_id=metric.id.hex(),
            mechanism=mechanism_model(metric),
            reports=self.crowd.tally.reports,
            periods=period_range(metric, self.periods, len({r.period for r in self.crowd.releases})),
            complete=self.is_complete,
        )


def comparison(
    a: Range,
    b: Range,
    *,
    confidence: float,
    simultaneous: bool,
    top: int | None,
    single_operator: bool,
    headline: bool = False,
    composed: bool = True,
    p_values: bool = True,
) -> Comparison:
    """The answer for two ranges whose values mean the same."""
    import numpy as np

    old, metric = a.crowd.metric, b.crowd.metric
    size = len(metric.values.labels())
    together = 1 if size == 1 or (size == 2 and _is_whole(old) and _is_whole(metric)) else size
    found = difference(
        (old, a.crowd.tally),
        (metric, b.crowd.tally),
        confidence,
        together if simultaneous else 1,
        p_values=p_values,
    )
    chosen: Sequence[int] = range(size)
    if headline:
        leading = metric.values.shape.leading
        chosen = largest(metric.estimate(b.crowd.tally).values, 1) if leading is None else [leading]
    elif top is not None:
        chosen = largest(np.abs(found.values), top)
    return Comparison(
        **shaped(metric),
        metric=metric.name,
        type=metric.type,
        estimand=ESTIMAND,
        complete=a.is_complete and b.is_complete,
        a=a.model(),
        b=b.model(),
        interval=IntervalKind(
            kind=found.kind,
            confidence=confidence,
            simultaneous=simultaneous,
            together=together if simultaneous else 1,
            selection=SELECTED if top is not None else None,
        ),
        correction=_correction(together, simultaneous=simultaneous),
        value_count=size,
        values=_rows(a, b, found, chosen, together),
        privacy=privacy([*a.crowd.releases, *b.crowd.releases], single_operator=single_operator) if composed else None,
        manipulation=manipulation(old, metric),
    )


def _is_whole(metric: Metric) -> bool:
    """Whether estimates always sum to one, so that one interval says everything about two values.

    That holds if the mechanism's estimates do, and if what the type makes of them are still shares of a whole.
    """
    return metric.mechanism.complementary and metric.values.shape.sums_to_one


def _rows(a: Range, b: Range, found: Difference, chosen: Any, together: int) -> list[DifferenceModel]:
    import numpy as np

    metric = b.crowd.metric
    labels, value_of = metric.values.labels(), metric.values.value_of
    raw_before, raw_after = a.crowd.metric.estimate(a.crowd.tally).values, metric.estimate(b.crowd.tally).values
    least, most = metric.values.shape.limits
    shown_before, shown_after = (np.clip(raw, least, most) for raw in (raw_before, raw_after))
    # people subtract what they see, so the difference is that of the shown values
    people = clipped(found.values, found.low, found.high, (least - most, most - least), shown_after - shown_before)
    before, after = raw_before.tolist(), raw_after.tolist()
    change, errors = found.values.tolist(), found.stderr.tolist()
    low, high = found.low.tolist(), found.high.tolist()
    p: list[float] | None = None if found.p_values is None else found.p_values.tolist()
    return [
        DifferenceModel(
            value=value_of(index),
            label=labels[index],
            a=before[index],
            b=after[index],
            difference=change[index],
            stderr=errors[index],
            low=low[index] if math.isfinite(low[index]) else None,
            high=high[index] if math.isfinite(high[index]) else None,
            shown=ShownDifference(
                a=float(shown_before[index]),
                b=float(shown_after[index]),
                value=float(people.values[index]),
                low=float(people.low[index]),
                high=float(people.high[index]),
            ),
            p_value=None if p is None else p[index],
            adjusted_p_value=None if p is None else min(1.0, p[index] * together),
        )
        for index in chosen
    ]


def _correction(together: int, *, simultaneous: bool) -> str:
    if together == 1:
        return "none needed: there is one free value"
    which = "intervals and adjusted_p_value hold" if simultaneous else "adjusted_p_value holds"
    single = "p_value is" if simultaneous else "intervals and p_value are"
    return f"Bonferroni: {which} for all {together} values together; {single} for a value that was chosen beforehand"


def refuse_overlap(a: range, b: range, label: Any) -> None:
    """Refuse ranges that overlap: the same noise on both sides is not independent, and would partly cancel."""
    start, stop = max(a.start, b.start), min(a.stop, b.stop)
    if start < stop:
        raise Refused(
            "invalid-query",
            f"a_from, a_to, b_from, b_to: both ranges hold {label(start)} to {label(stop)}; compare ranges that share "
            "no period, for example the shared part with the rest",
        )


def refuse_different_questions(a: Metric, b: Metric) -> None:
    """Refuse ids whose values mean different things, as after some edits: their difference would mean nothing."""
    if a.id != b.id:
        old, new = ({k: v for k, v in metric.identity().items() if k not in _MEANING} for metric in (a, b))
        changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        if changed:
            raise Refused(
                "invalid-query",
                f"{b.name} was edited between the ranges ({', '.join(changed)}), so their values do not mean the same; "
                "compare ranges on one side of the edit, or look at both with /estimate",
            )
