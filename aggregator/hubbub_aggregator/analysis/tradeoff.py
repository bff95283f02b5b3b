"""The trade-off between error and local epsilon of one metric: a pure function of codebook and crowd."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hubbub_aggregator.models.tradeoff import TradeoffAnswer, TradeoffPoint

if TYPE_CHECKING:
    from hubbub.accounting.tradeoff import Tradeoff
    from hubbub.codebook import Codebook, Metric

__all__ = ["tradeoff"]


def tradeoff(codebook: Codebook, metric: Metric, reports: int) -> TradeoffAnswer:
    """Three lines over the local epsilon: what this crowd allows, the trusted server, the local bound.

    The first answer for a crowd takes some seconds; then it is kept. No release is read.
    """
    made = _tradeoff(codebook, metric, reports)
    target = made.asked.target
    return TradeoffAnswer(
        metric=metric.name,
        metric_id=metric.id.hex(),
        reports=target.reports,
        honest_reports=target.honest,
        epsilon=float(target.epsilon),
        delta=float(target.delta),
        local_epsilon=float(made.epsilon),
        standard_error=made.error,
        cap=None if made.cap is None else float(made.cap),
        central_gaussian=made.central,
        points=[
            TradeoffPoint(
                local_epsilon=float(point.epsilon),
                mechanism=point.mechanism,
                standard_error=point.error,
                local_bound=point.local_bound,
            )
            for point in made.points
        ],
        sides=list(made.sides),
    )


@lru_cache(maxsize=128)
def _tradeoff(codebook: Codebook, metric: Metric, reports: int) -> Tradeoff:
    from hubbub.accounting.codebook_plan import asked_of, cap_of
    from hubbub.accounting.release_target import standard_error
    from hubbub.accounting.tradeoff import tradeoff as made
    from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON

    cap = cap_of(metric)
    error = standard_error(metric.mechanism, reports)
    asked = asked_of(metric, codebook, reports)
    return made(asked, metric.epsilon, error, None if cap == LARGEST_EPSILON else cap)
