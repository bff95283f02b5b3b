"""Result of a simulation for a number in bins: shares below edges, quantiles and the mean beside their truth.

What devices hold is known as bins. A true quantile is read within its bin as an estimated one is, and the true mean is
that of the middles of bins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.bins_summary import Below, Limits, Quantile, RangeShare, Summary, quantile_of
from hubbub.number_format import amount
from hubbub.shown import clipped_limits

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub.simulation import Scores, Trial

__all__ = ["bins_document", "bins_lines", "summary_of"]


def bins_document(metric: Metric, scores: Scores, trial: Trial, found: Summary) -> dict[str, Any]:
    """The members that a metric without bins does not have, or has otherwise."""
    return {
        "coverage": scores.cdf_coverage,
        "cdf_mse": scores.cdf_mse,
        "quantiles": [
            {
                "q": one.q,
                "truth": _true_quantile(one.q, trial, found),
                "estimate": one.estimate,
                "low": one.low,
                "high": one.high,
            }
            for one in found.quantiles
        ],
        "mean": {
            "truth": _true_mean(metric, trial),
            "estimate": found.mean.estimate,
            "low": found.mean.low,
            "high": found.mean.high,
        },
        "values": [
            dict(zip(("low_edge", "high_edge", "truth", "estimate", "low", "high"), row, strict=True))
            for row in zip(
                found.edges[:-1],
                found.edges[1:],
                *(column.tolist() for column in (trial.truth, trial.estimate, trial.low, trial.high)),
                strict=True,
            )
        ],
    }


def summary_of(answer: Mapping[str, Any]) -> Summary:
    """The summary that the aggregator published."""
    return Summary(
        reports=answer["reports"],
        edges=tuple(answer["edges"]),
        is_whole=answer["whole_numbers"],
        kind=answer["kind"],
        below=tuple(Below(**one) for one in answer["below"]),
        quantiles=tuple(
            Quantile(**{name: one[name] for name in ("q", "estimate", "low", "high")}) for one in answer["quantiles"]
        ),
        quantiles_together=answer["quantiles_together"],
        ranges=tuple(RangeShare(**one) for one in answer["ranges"]),
        ranges_together=answer["ranges_together"],
        mean=Limits(**answer["mean"]),
        deviation=Limits(**answer["deviation"]),
        ends=(Limits(**answer["first_bin"]), Limits(**answer["last_bin"])),
        influence=1000 * answer["manipulation"]["per_thousand_fakes"],
    )


def bins_lines(metric: Metric, scores: Scores, trial: Trial, found: Summary) -> Iterator[str]:
    """The same in sentences."""
    unit = metric.values.shape.axes[0].unit
    behind = f" {unit}" if unit else ""
    for one in found.quantiles:
        low = "any" if one.low is None else amount(one.low)
        high = "any" if one.high is None else amount(one.high)
        truth = amount(_true_quantile(one.q, trial, found))
        yield f"p{100 * one.q:g}: {amount(one.estimate)}{behind}, {low} to {high}; in truth {truth}"
    mean, *ends = clipped_limits(found.mean.estimate, found.mean.low, found.mean.high, found.possible)
    truth = amount(_true_mean(metric, trial))
    yield f"mean: {amount(mean)}{behind}, {' to '.join(map(amount, ends))}; in truth {truth}"
    yield (
        f"shares below edges: {100 * scores.cdf_mse**0.5:.2g} points of error in root mean square; "
        f"{scores.cdf_coverage:.1%} of the intervals hold the truth"
    )


def _true_quantile(q: float, trial: Trial, found: Summary) -> float:
    return quantile_of(q, trial.below, found.edges, is_whole=found.is_whole)


def _true_mean(metric: Metric, trial: Trial) -> float:
    return float(np.asarray(metric.values.shape.axes[0].places) @ trial.truth)
