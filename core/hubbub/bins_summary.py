r"""Summary of bins in order: shares below edges with a band, quantiles, ranges, mean and spread, all from one tally.

Every number is a weighted sum of unbiased shares, or follows from such sums; so every number has an interval.

- **Band.** The limits of all edges hold together (Bonferroni; for 63 edges 2 % wider than the exact band).
- **Quantile q.** Bin k is kept if neither "the share below its lower edge is at least q" nor "the share below its upper
  edge is less than q" is rejected. Only the two tests of the true bin matter, so the hull of the kept bins holds the
  quantile with the confidence of one interval, without a correction over bins. A hull that reaches an end has no limit
  there, since the end bins also hold what lies beyond. Of whole numbers from 0, nothing lies below the first bin;
  limits and estimate are whole numbers, and q of the devices have at most the quantile.
- **Mean.** The numbers of a bin lie between its ends: the lower limit takes the lower ends, the upper one the upper.
- **Standard deviation.** Moving numbers within their bins by at most h_x / 2 moves it by at most the root of the mean
  of h_x^2 / 4 (Minkowski), by which the interval of the middles is widened. There is none for few reports, since it
  rests on normal errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import _intervals

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub.mechanisms import Interval, Mechanism, Tally
    from hubbub.mechanisms.base import Population

__all__ = [
    "Asked",
    "Below",
    "Limits",
    "Quantile",
    "RangeShare",
    "Summary",
    "possible_numbers",
    "quantile_of",
    "refuse_impossible",
    "shift",
    "summarise",
]

USUAL_QUANTILES = (0.5, 0.9, 0.95, 0.99)
MOST_ASKED = 64
"""Most quantiles, and most ranges, in one question."""
CROWDED_END = 0.01
"""A share of an end bin from which on a hint is given that numbers may lie beyond the edges."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a tally."""

    confidence: float = 0.95
    population: Population = "reports"
    simultaneous: bool = True
    """Whether all quantiles hold together, and all ranges."""
    quantiles: tuple[float, ...] = USUAL_QUANTILES
    ranges: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """A number with its limits; None where there is none."""

    estimate: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Below:
    """The share of devices below an edge: its own limits, and those of the band, which hold for all edges together."""

    edge: float
    estimate: float
    low: float
    high: float
    band_low: float
    band_high: float


@dataclass(frozen=True, slots=True)
class Quantile:
    """The number below which a share q of the devices lies. `low` or `high` is None if it may lie beyond the edges."""

    q: float
    estimate: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RangeShare:
    """The share of devices from one number up to another. `is_exact` if both are edges; if not, the limits allow for
    any spread of the numbers within the two outer bins."""

    lower: float
    upper: float
    estimate: float
    low: float
    high: float
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """All numbers of one tally."""

    reports: int
    edges: tuple[float, ...]
    is_whole: bool
    """Whether numbers are whole, from 0 to one less than the last edge."""
    kind: str
    """How limits were made, and for whom."""
    below: tuple[Below, ...]
    """Of all edges but the first and the last."""
    quantiles: tuple[Quantile, ...]
    quantiles_together: int
    ranges: tuple[RangeShare, ...]
    ranges_together: int
    mean: Limits
    deviation: Limits
    ends: tuple[Limits, Limits]
    """Shares of the first and of the last bin."""
    influence: float
    """Largest change of any share below an edge when one report of n is replaced, times n."""

    @property
    def hint(self) -> str:
        """What to change in the next codebook if an end bin is crowded; empty if none is."""
        said = [
            f"{end.estimate:.0%} of the devices are in the {which} bin, which also holds what lies beyond"
            for end, which in zip(self.ends, ("first", "last"), strict=True)
            if end.low is not None and end.low > CROWDED_END and end.estimate > 2 / len(self.below)
            if not (self.is_whole and which == "first")  # nothing lies below 0
        ]
        more = "a larger cap" if self.is_whole else "wider bounds"
        return f"{'; '.join(said)}: {more} would tell more" if said else ""

    @property
    def possible(self) -> tuple[float, float]:
        """The least and the largest number that counts."""
        return possible_numbers(self.edges, is_whole=self.is_whole)


def possible_numbers(edges: Sequence[float], *, is_whole: bool) -> tuple[float, float]:
    """The least and the largest number in bins with these edges."""
    return edges[0], edges[-1] - is_whole


def refuse_impossible(quantiles: Sequence[float], ranges: Sequence[tuple[float, float]]) -> None:
    """Raise InvalidParameter for a quantile outside of 0 to 1, an empty range, or too many of them."""
    if any(not 0 < q < 1 for q in quantiles):
        raise InvalidParameter("a quantile is a number above 0 and below 1, such as 0.95")
    if any(not start < end or math.isnan(start) or math.isnan(end) for start, end in ranges):
        raise InvalidParameter("a range has its lower end first, such as 100..250")
    if max(len(quantiles), len(ranges)) > MOST_ASKED:
        raise InvalidParameter(f"ask for at most {MOST_ASKED} quantiles and {MOST_ASKED} ranges at once")


def summarise(
    mechanism: Mechanism[Any],
    tally: Tally,
    edges: Sequence[float],
    inside: Sequence[tuple[float, float]],
    asked: Asked,
    *,
    is_whole: bool = False,
) -> Summary:
    """The summary. `inside` has the least and the largest number of each bin."""
    import numpy as np

    refuse_impossible(asked.quantiles, asked.ranges)
    size, many = len(inside), len(asked.quantiles)

    def limits(weights: NDArray[np.float64], together: int = 1) -> tuple[NDArray[np.float64], Interval]:
        sums = mechanism.weighted_sums(weights)
        found = sums.interval(tally, asked.confidence, population=asked.population, together=together)
        return sums.estimate(tally).values, found

    firsts = np.tri(size - 1, size)
    values, each = limits(firsts)
    _, band = limits(firsts, max(1, size - 1))
    together = many if asked.simultaneous and many > 1 else 1
    _, tests = limits(firsts, together) if together > 1 else (values, each)
    (first, last), ends = limits(np.eye(size)[[0, -1]])
    both = len(asked.ranges) if asked.simultaneous and len(asked.ranges) > 1 else 1
    return Summary(
        reports=tally.reports,
        edges=tuple(edges),
        is_whole=is_whole,
        kind=each.kind,
        below=tuple(
            Below(*map(float, row))
            for row in zip(edges[1:-1], values, each.low, each.high, band.low, band.high, strict=True)
        ),
        quantiles=tuple(_quantile(q, values, tests, edges, inside, is_whole=is_whole) for q in asked.quantiles),
        quantiles_together=together,
        ranges=tuple(_range(start, end, edges, lambda rows: limits(rows, both)) for start, end in asked.ranges),
        ranges_together=both,
        mean=_mean(inside, limits),
        deviation=_deviation(mechanism, tally, inside, asked.confidence, limits),
        ends=(
            Limits(float(first), float(ends.low[0]), float(ends.high[0])),
            Limits(float(last), float(ends.low[1]), float(ends.high[1])),
        ),
        influence=mechanism.weighted_sums(firsts).influence,
    )


def _quantile(
    q: float,
    values: NDArray[np.float64],
    tests: Interval,
    edges: Sequence[float],
    inside: Sequence[tuple[float, float]],
    *,
    is_whole: bool,
) -> Quantile:
    import numpy as np

    low, high = np.concatenate([[0.0], tests.low, [1.0]]), np.concatenate([[0.0], tests.high, [1.0]])
    kept = np.flatnonzero((low[:-1] < q) & (q <= high[1:]))
    start, end = int(kept[0]), int(kept[-1])
    return Quantile(
        q,
        quantile_of(q, values, edges, is_whole=is_whole),
        float(inside[start][0]) if start > 0 or (is_whole and end < len(inside) - 1) else None,
        float(inside[end][1]) if end < len(inside) - 1 else None,
    )


def quantile_of(q: float, values: NDArray[np.float64], edges: Sequence[float], *, is_whole: bool = False) -> float:
    """Where the shares below the edges, made to rise, reach q: linear within a bin. Of whole numbers, the least one
    that as many have at most, which is below the upper edge of its bin."""
    import numpy as np

    rising = np.concatenate([[0.0], np.clip(_isotonic(values), 0, 1), [1.0]])
    after = int(np.searchsorted(rising, q, side="left"))
    after = min(max(after, 1), len(rising) - 1)
    low, high = rising[after - 1], rising[after]
    part = (q - low) / (high - low) if high > low else 0.5
    found = float(edges[after - 1] + part * (edges[after] - edges[after - 1]))
    return max(math.ceil(found) - 1.0, float(edges[after - 1])) if is_whole else found


def _isotonic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest values that rise: neighbours that fall are replaced by their mean, again and again."""
    import numpy as np

    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        total, many = value, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / many:
            before, count = blocks.pop()
            total, many = total + before, many + count
        blocks.append((total, many))
    return np.concatenate([np.full(many, total / many) for total, many in blocks])


def _range(start: float, end: float, edges: Sequence[float], limits: Any) -> RangeShare:
    import numpy as np

    low, high = np.asarray(edges[:-1]), np.asarray(edges[1:])
    # numbers beyond the edges are in the end bins, so a range that reaches an edge at an end takes all of that bin
    overlap = np.clip(np.minimum(high, end) - np.maximum(low, start), 0, None) / (high - low)
    inner, outer = (overlap >= 1).astype(float), (overlap > 0).astype(float)
    values, found = limits(np.array([overlap, inner, outer]))
    return RangeShare(
        start, end, float(values[0]), float(found.low[1]), float(found.high[2]), bool((inner == outer).all())
    )


def _mean(inside: Sequence[tuple[float, float]], limits: Any) -> Limits:
    import numpy as np

    low, high = np.array(inside, np.float64).T
    values, found = limits(np.array([(low + high) / 2, low, high]))
    return Limits(float(values[0]), float(found.low[1]), float(found.high[2]))


def _deviation(
    mechanism: Mechanism[Any], tally: Tally, inside: Sequence[tuple[float, float]], confidence: float, limits: Any
) -> Limits:
    """By the delta method from the exact covariance of mean and mean square. The variance of the mean is added
    back, as its square has that much too much."""
    import numpy as np

    low, high = np.array(inside, np.float64).T
    middle, half = (low + high) / 2, (high - low) / 2
    shift_, scale = middle.mean(), max(float(np.abs(middle - middle.mean()).max()), 1e-300)
    x = (middle - shift_) / scale  # numbers of ordinary size, for the squares
    sums = mechanism.weighted_sums(np.array([x, x**2]))
    (mean, square), covariance = sums.estimate(tally).values, sums.covariance(tally)
    variance = square - mean**2 + covariance[0, 0]
    slope = np.array([-2 * mean, 1.0])
    error = _intervals.normal_quantile(1 - confidence) * math.sqrt(max(float(slope @ covariance @ slope), 0.0))
    _, found = limits(np.array([half**2]))
    within = math.sqrt(max(float(found.high[0]), 0.0)) if np.ptp(half) else float(half[0])
    estimate = scale * math.sqrt(max(float(variance), 0.0))
    if tally.reports < sums.is_normal_from(confidence):
        return Limits(estimate, None, None)
    return Limits(
        estimate,
        max(0.0, scale * math.sqrt(max(float(variance) - error, 0.0)) - within),
        scale * math.sqrt(max(float(variance) + error, 0.0)) + within,
    )


def shift(before: Quantile, after: Quantile) -> Limits:
    """How far a quantile moved, from two hulls. If each holds with 97.5 %, the limits do with 95 %."""
    low = None if after.low is None or before.high is None else after.low - before.high
    high = None if after.high is None or before.low is None else after.high - before.low
    return Limits(after.estimate - before.estimate, low, high)
