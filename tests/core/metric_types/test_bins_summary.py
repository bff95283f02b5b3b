"""Summaries of bins: coverage of ranges, bands and quantiles on hard shapes, and limits that say what they can't know.

Runs are from fixed seeds. Coverage is counted over independent crowds; a count as low as the limit below happens with
the nominal coverage less than once in a million times (binomial tail).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from hubbub.bins_summary import Asked, Quantile, quantile_of, shift
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Bins, Bounds, Ladder, Mechanism, SubsetSelection, Tree
from hubbub.metric_types._bin_edges import are_log, edges_between, whole_number_edges
from hubbub.metric_types.count import CappedCount
from hubbub.metric_types.distribution import Distribution
from hubbub.simulation import InsecureBulkRandomness
from tests.full import examples

SIZE = 16
EDGES = tuple(map(Fraction, range(SIZE + 1)))
NUMBER = Distribution(EDGES)
SHAPES: dict[str, Sequence[float]] = {
    "even": [1] * SIZE,
    "one spike": [0] * 5 + [1] + [0] * 10,
    "two spikes": [0, 0, 1] + [0] * 10 + [1, 0, 0],
    "all in the last bin": [0] * 15 + [1],
    "empty bins": [1, 0] * 8,
    "skewed": [2.0**-k for k in range(SIZE)],
}


def crowd(shape: str, devices: int) -> NDArray[np.int64]:
    weights = np.array(SHAPES[shape])
    exact = weights / weights.sum() * devices
    counts = np.floor(exact).astype(np.int64)
    counts[np.argmax(weights)] += devices - counts.sum()
    return np.asarray(counts)


def least(repeats: int, confidence: float) -> int:
    """Fewer hits than this happen less than once in a million times."""
    return int(binom.ppf(1e-6, repeats, confidence))


@pytest.mark.parametrize("devices", [50, 5_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_bands_ranges_quantiles_and_means_cover(shape: str, devices: int) -> None:
    """Few devices, where Bernstein's bound is used, and many, where normal limits are."""
    mechanism = Ladder.calibrate(2, Bins(SIZE))
    held = crowd(shape, devices)
    below = np.cumsum(held)[:-1] / devices
    rng, repeats = InsecureBulkRandomness(len(shape)), examples(40, 1_000)
    asked = Asked(0.9, quantiles=(0.5, 0.95), ranges=((3.0, 9.0), (2.5, 12.25)))
    middles = np.arange(SIZE) + 0.5
    truth = float(middles @ held) / devices
    numbers = np.repeat(middles, held)
    hits = np.zeros(6)
    for _ in range(repeats):
        reports = mechanism.randomize_many(np.repeat(np.arange(SIZE), held), rng)
        found = NUMBER.summary(mechanism, mechanism.tally(reports), asked)
        assert ("normal" if devices > 1_000 else "Bernstein") in found.kind
        hits[0] += all(one.band_low <= share <= one.band_high for one, share in zip(found.below, below, strict=True))
        for place, one in enumerate(found.ranges):
            real = ((numbers >= one.lower) & (numbers < one.upper)).mean()
            hits[1 + place] += one.low <= real <= one.high
        each = [
            (one.low or 0) <= np.quantile(numbers, one.q, method="inverted_cdf") <= (one.high or SIZE)
            for one in found.quantiles
        ]
        hits[3] += all(each)
        assert found.mean.low is not None
        assert found.mean.high is not None
        hits[4] += found.mean.low <= truth <= found.mean.high
        hits[5] += found.deviation.low is None or (
            found.deviation.low <= numbers.std() <= (found.deviation.high or np.inf)
        )
    assert hits.min() >= least(repeats, 0.9), dict(
        zip(["band", "range", "part", "quantiles", "mean", "deviation"], hits, strict=True)
    )


def test_a_quantile_that_reaches_an_end_has_no_limit_there() -> None:
    """The end bins also hold what lies beyond, so that the number of an end is no limit."""
    mechanism = Ladder.calibrate(4, Bins(SIZE))
    held = np.full(2_000, SIZE - 1)
    tally = mechanism.tally(mechanism.randomize_many(held, InsecureBulkRandomness(1)))
    (found,) = NUMBER.summary(mechanism, tally, Asked(quantiles=(0.99,))).quantiles
    assert found.high is None
    assert found.low == 15
    first = mechanism.tally(mechanism.randomize_many(0 * held, InsecureBulkRandomness(1)))
    (found,) = NUMBER.summary(mechanism, first, Asked(quantiles=(0.5,))).quantiles
    assert (found.low, found.high) == (None, 1)


def test_a_crowded_end_gives_a_hint() -> None:
    mechanism = Ladder.calibrate(4, Bins(SIZE))
    held = np.repeat([3, SIZE - 1], [6_000, 4_000])
    tally = mechanism.tally(mechanism.randomize_many(held, InsecureBulkRandomness(1)))
    found = NUMBER.summary(mechanism, tally, Asked())
    assert "last bin" in found.hint
    assert "first" not in found.hint


@pytest.mark.parametrize("cls", [Ladder, Tree, SubsetSelection])
def test_several_periods_are_combined_by_adding_tallies(cls: type[Mechanism[bytes]]) -> None:
    mechanism = cls.calibrate(2, Bins(SIZE))
    parts = [
        mechanism.tally(mechanism.randomize_many(np.full(500, bin_), InsecureBulkRandomness(bin_))) for bin_ in (1, 9)
    ]
    whole = NUMBER.summary(mechanism, parts[0] + parts[1], Asked())
    sides = [NUMBER.summary(mechanism, part, Asked()) for part in parts]
    for one, *others in zip(whole.below, *(side.below for side in sides), strict=True):
        assert one.estimate == pytest.approx(sum(other.estimate for other in others) / 2)


def test_a_shift_of_quantiles_takes_the_outer_limits() -> None:
    moved = shift(Quantile(0.5, 10, 9, 12), Quantile(0.5, 15, 14, 17))
    assert (moved.estimate, moved.low, moved.high) == (5, 2, 8)
    assert shift(Quantile(0.5, 10, None, 12), Quantile(0.5, 15, 14, 17)).high is None


@pytest.mark.parametrize("asked", [Asked(quantiles=(1.0,)), Asked(ranges=((3, 3),)), Asked(quantiles=(0.5,) * 65)])
def test_an_impossible_question_is_refused(asked: Asked) -> None:
    mechanism = Ladder.calibrate(2, Bins(SIZE))
    tally = mechanism.tally(mechanism.randomize_many([1], InsecureBulkRandomness(1)))
    with pytest.raises(InvalidParameter):
        NUMBER.summary(mechanism, tally, asked)


def test_log_edges_are_told_from_linear_ones() -> None:
    bounds = Bounds(Fraction(10), Fraction(10_000))
    assert are_log(edges_between(bounds, 64, "log"))
    assert not are_log(edges_between(bounds, 64, "linear"))
    edges = edges_between(bounds, 3, "log")
    assert list(map(int, edges)) == [10, 100, 1000, 10_000]
    assert len(set(edges_between(Bounds(Fraction(0), Fraction(1)), 256, "linear"))) == 257


def test_an_edge_belongs_to_the_bin_above_it() -> None:
    assert [NUMBER.input_of(x) for x in (-5.0, 0.0, 0.999, 1.0, 15.0, 16.0, 1e300)] == [0, 0, 0, 1, 15, 15, 15]


@pytest.mark.parametrize("devices", [60, 5_000])
def test_quantiles_of_a_count_are_whole_cover_and_stay_within_the_cap(devices: int) -> None:
    number = CappedCount(whole_number_edges(SIZE - 1, SIZE))
    mechanism, held = Ladder.calibrate(2, Bins(SIZE)), crowd("skewed", devices)
    counts = np.repeat(np.arange(SIZE), held)
    rng, repeats, hits = InsecureBulkRandomness(devices), examples(40, 1_000), 0
    for _ in range(repeats):
        tally = mechanism.tally(mechanism.randomize_many(counts, rng))
        found = number.summary(mechanism, tally, Asked(0.9, quantiles=(0.25, 0.5, 0.99)))
        assert found.possible == (0, SIZE - 1)
        hits += all(
            (one.low or 0)
            <= np.quantile(counts, one.q, method="inverted_cdf")
            <= (SIZE if one.high is None else one.high)
            for one in found.quantiles
        )
        for one in found.quantiles:
            assert {one.estimate, one.low, one.high} <= {None, *range(SIZE)}
    assert hits >= least(repeats, 0.9)


@pytest.mark.parametrize("cap", [5, 20, 1_000])
def test_a_true_quantile_of_a_count_is_one_that_a_device_has(cap: int) -> None:
    edges = [float(edge) for edge in whole_number_edges(cap, 16)]
    for place in range(len(edges) - 1):
        below = (np.arange(1, len(edges) - 1) > place).astype(float)
        found = quantile_of(0.5, below, edges, is_whole=True)
        assert found == int(found)
        assert edges[place] <= found <= edges[place + 1] - 1
