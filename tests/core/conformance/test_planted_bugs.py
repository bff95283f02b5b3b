"""Planted bugs: each was made before in some library, and a named check must fail on it.

Sources: noise too low and a bit that is never turned off (pure-LDP issue 11, the RAPPOR client), wrong
calibration (opendp issue 480), truncated noise taken as unbiased, variances off by a factor; tables whose values were
not put right after rounding, windows that are off by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from hubbub.mechanisms import BinaryRandomizedResponse as Binary
from hubbub.mechanisms import (
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    DuchiMean,
    Estimate,
    HybridMean,
    KaryRandomizedResponse,
    LinearHash,
    OptimizedLocalHashing,
    OptimizedUnaryEncoding,
    PiecewiseMean,
    SubsetSelection,
    TableMean,
    Tally,
)
from hubbub.mechanisms._grid_rounding import positions
from hubbub.randomness import WORD, BulkRandomness, Randomness, SystemBulkRandomness, discrete_laplace, subset_bits
from hubbub.simulation import InsecureBulkRandomness, InsecureRandomness
from tests.core.conformance import checks
from tests.core.conformance.checks import AnyMechanism

RANGE = Bounds(Fraction(-1), Fraction(3))


def kept(mechanism: Any, less_noise: Fraction) -> int:
    """The threshold of a device that lies less often than it claims."""
    return int(WORD - (1 - less_noise) * (WORD - mechanism.keep))


@dataclass(frozen=True)
class LiesLessOften(KaryRandomizedResponse):
    less: Fraction = Fraction(1, 10)

    def randomize(self, value: Any, rng: Randomness) -> int:
        lie = (value + 1 + rng.below(self.size - 1)) % self.size
        return int(value) if rng.coin(kept(self, self.less), WORD) else lie

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        truth = np.asarray(values)
        lie = (truth + 1 + rng.below(self.size - 1, len(truth))) % self.size
        return np.where(rng.coin(kept(self, self.less), len(truth)), truth, lie)


@dataclass(frozen=True)
class NeverTurnsATrueBitOff(Binary):
    def randomize(self, value: Any, rng: Randomness) -> int:
        return 1 if value else int(not rng.coin(self.keep, WORD))

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        truth = np.asarray(values)
        return np.where(truth == 1, 1, ~rng.coin(self.keep, len(truth)))


@dataclass(frozen=True)
class RoundsDown(DiscreteLaplaceMean):
    def randomize(self, value: Any, rng: Randomness) -> int:
        place = (Fraction(value) - self.bounds.lower) / self.bounds.width
        noisy = int(place * self.steps) + discrete_laplace(rng, self.scale, self.rate)
        return min(max(noisy, -self.reach), self.steps + self.reach)

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        points = np.floor(positions(values, self.bounds, "laplace") * self.steps).astype(np.int64)
        return points + rng.discrete_laplace(self.scale, self.rate, len(points))


@dataclass(frozen=True)
class DebiasesWrongly(KaryRandomizedResponse):
    def estimate(self, tally: Tally) -> Estimate:
        right = super().estimate(tally)
        return Estimate(right.reports, right.values * 1.01, right.variances)


@dataclass(frozen=True)
class StatesTwiceTheVariance(KaryRandomizedResponse):
    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        return 2 * super().variance(truth)


@dataclass(frozen=True)
class StatesHalfTheVariance(DuchiMean):
    def estimate(self, tally: Tally) -> Estimate:
        right = super().estimate(tally)
        return Estimate(right.reports, right.values, right.variances / 2)


@dataclass(frozen=True)
class StatesManyTimesTheError(KaryRandomizedResponse):
    def estimate(self, tally: Tally) -> Estimate:
        right = super().estimate(tally)
        return Estimate(right.reports, right.values, right.variances * 100)


@dataclass(frozen=True)
class NeighboursShareACoin(Binary):
    """Every single report has the right law; only together do they give themselves away."""

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        truth = np.asarray(values)
        coins = np.repeat(rng.coin(self.keep, (len(truth) + 1) // 2), 2)[: len(truth)]
        return np.asarray(truth ^ ~coins, np.int64)


@dataclass(frozen=True)
class NoiseOnTooSmallAScale(DiscreteLaplaceMean):
    def randomize(self, value: Any, rng: Randomness) -> int:
        calm = 10 * self.scale * 9 // 100, self.rate
        noisy = round(float((Fraction(value) - self.bounds.lower) / self.bounds.width * self.steps))
        return min(max(noisy + discrete_laplace(rng, *calm), -self.reach), self.steps + self.reach)


@dataclass(frozen=True)
class LeansTooFar(TableMean):
    """Draws with odds that are three per cent above those it declares."""

    @cached_property
    def _cumulative(self) -> list[list[int]]:
        steeper = [
            [w * (103 if w > min(column) else 100) // 103 for w in column] for column in zip(*self.rows, strict=True)
        ]
        return [list(accumulate(row)) for row in zip(*steeper, strict=True)]


@dataclass(frozen=True)
class RoundsTheTableDown(TableMean):
    def randomize(self, value: Any, rng: Randomness) -> int:
        place = (Fraction(value) - self.bounds.lower) / self.bounds.width
        return rng.pick(self._cumulative[int(place * self.steps)])

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[np.int64]:
        low, width = float(self.bounds.lower), float(self.bounds.width)
        points = np.floor(positions(values, self.bounds, "table") * self.steps)
        return super().randomize_many(low + width * points / self.steps, rng)


@dataclass(frozen=True)
class ForgetsToRefit(TableMean):
    """Places as the linear programme gave them, to six digits, not those that fit the integers."""

    @cached_property
    def places(self) -> list[Fraction]:
        return [Fraction(f"{float(place):.6f}") for place in super().places]


@dataclass(frozen=True)
class StatesNoRounding(TableMean):
    def variance(self, truth: ArrayLike) -> NDArray[np.float64]:
        scaled = positions(truth, self.bounds, "table") * self.steps
        between = np.interp(scaled, np.arange(self.steps + 1), self._law.variances)
        return np.array([float(self.bounds.width) ** 2 * between.mean()])


@dataclass(frozen=True)
class WindowOffByOne(PiecewiseMean):
    @cached_property
    def _cumulative(self) -> list[list[int]]:
        return [list(accumulate(row[-1:] + row[:-1])) for row in self.rows]


@dataclass(frozen=True)
class MixesWithTheWrongShare(HybridMean):
    """The ends come a little more often than they are declared to, at no cost to privacy."""

    @cached_property
    def _cumulative(self) -> list[list[int]]:
        return [list(accumulate([w * 100 // 103 for w in row[:-2]] + row[-2:])) for row in self.rows]


@dataclass(frozen=True)
class IntervalsTooNarrow(KaryRandomizedResponse):
    wrong: float = 3

    def interval(self, tally: Tally, confidence: float = 0.95, **options: Any) -> Any:
        return super().interval(tally, 1 - self.wrong * (1 - confidence), **options)


@dataclass(frozen=True)
class TurnsZerosLessOften(OptimizedUnaryEncoding):
    less: Fraction = Fraction(3, 100)

    def _calm(self) -> int:
        return int((1 - self.less) * self.flip)

    def randomize(self, value: Any, rng: Randomness) -> bytes:
        noise, one = rng.coins(self.size, self._calm(), 64), int(rng.coin(self.keep, WORD))
        return self.packed(noise & ~(1 << value) | one << value)

    def randomize_many(self, values: ArrayLike, rng: BulkRandomness) -> NDArray[Any]:
        calm = OptimizedUnaryEncoding(Fraction(30), self.size, self._calm())
        return calm.randomize_many(values, rng)


@dataclass(frozen=True)
class ZerosShareACoin(OptimizedUnaryEncoding):
    """Every bit has the right law; two of them together give themselves away."""

    def randomize(self, value: Any, rng: Randomness) -> bytes:
        noise = ((1 << self.size) - 1) * rng.coin(self.flip, WORD)
        return self.packed(noise & ~(1 << value) | int(rng.coin(self.keep, WORD)) << value)


@dataclass(frozen=True)
class NeverDrawsAnEmptyMask(LinearHash):
    """A hash that is not uniform: two values share a bucket too rarely."""

    def randomize(self, value: Any, rng: Randomness) -> bytes:
        masks = sum((1 + rng.below((1 << self.width) - 1)) << i * self.width for i in range(self.bits))
        bucket = self._bucket(masks, value)
        lie = (bucket + 1 + rng.below(self.buckets - 1)) % self.buckets
        return self.packed(masks << self.bits | (bucket if rng.coin(self.keep, WORD) else lie))


@dataclass(frozen=True)
class LiesInTheSameBucket(LinearHash):
    """The lie may be the truth: the noise is that of krr with a uniform lie, and too little is claimed of it."""

    def randomize(self, value: Any, rng: Randomness) -> bytes:
        masks = rng.below(self.hashes)
        lie = rng.below(self.buckets)
        told = self._bucket(masks, value) if rng.coin(self.keep, WORD) else lie
        return self.packed(masks << self.bits | told)


@dataclass(frozen=True)
class DecodesWithTheWrongSign(LinearHash):
    def supports(self, tally: Tally) -> NDArray[np.int64]:
        cells = -tally.cells
        cells[0] = tally.cells[0]
        return super().supports(Tally(tally.fingerprint, tally.reports, cells))


@dataclass(frozen=True)
class FavoursEarlyValues(SubsetSelection):
    """The rest of the set is not uniform: the last element is the first one that is free."""

    def randomize(self, value: Any, rng: Randomness) -> bytes:
        others = subset_bits(rng, self.size - 1, self.count - 1)
        last = next(place for place in range(self.size) if not others >> place & 1)
        chosen = others | 1 << (self.size - 1 if rng.coin(self.keep, WORD) else last)
        return self._report(self._turned(chosen, value + 1))


@dataclass(frozen=True)
class TakesTheRemainder(OptimizedLocalHashing):
    """A hash as people write it: multiply, add, modulo. Some values share a bucket too often, others too rarely."""

    def _bucket(self, drawn: int, value: int) -> int:
        return ((drawn * value + drawn) % 31) % self.buckets


def unary(cls: type[OptimizedUnaryEncoding]) -> AnyMechanism:
    right = OptimizedUnaryEncoding.calibrate(1, Categories(3))
    return cls(right.epsilon, right.size, right.flip)


def hashed(cls: type[LinearHash]) -> AnyMechanism:
    right = LinearHash.examples(1)[0]
    return cls(right.epsilon, right.size, right.bits, right.keep)


def chosen(cls: type[SubsetSelection]) -> AnyMechanism:
    right = SubsetSelection.examples(1)[0]
    return cls(right.epsilon, right.size, right.count, right.keep)


def remainder(cls: type[OptimizedLocalHashing]) -> AnyMechanism:
    right = OptimizedLocalHashing.examples(1)[0]
    return cls(right.epsilon, right.size, right.buckets, right.keep)


def binary(cls: type[Binary]) -> AnyMechanism:
    right = Binary.calibrate(1, Categories(2))
    return cls(right.epsilon, right.keep)


def kary(cls: type[KaryRandomizedResponse], *more: Any) -> AnyMechanism:
    right = KaryRandomizedResponse.calibrate(1, Categories(3))
    return cls(right.epsilon, right.size, right.keep, *more)


def laplace(cls: type[DiscreteLaplaceMean], epsilon: float = 1) -> AnyMechanism:
    right = DiscreteLaplaceMean.calibrate(epsilon, RANGE, steps=3)
    return cls(right.epsilon, right.bounds, right.steps, right.scale, right.rate, right.reach)


def duchi(cls: type[DuchiMean]) -> AnyMechanism:
    right = DuchiMean.calibrate(1, RANGE)
    return cls(right.epsilon, right.bounds, right.keep)


def table(cls: type[TableMean]) -> AnyMechanism:
    right = TableMean.examples(1)[0]
    return cls(right.epsilon, right.bounds, right.steps, right.low, right.high, right.columns)


def piecewise(cls: type[PiecewiseMean]) -> AnyMechanism:
    right = PiecewiseMean.examples(1)[0]
    return cls(right.epsilon, right.bounds, right.steps, right.stride, right.window, right.low, right.high)


def hybrid(cls: type[HybridMean]) -> AnyMechanism:
    right = HybridMean.examples(1)[0]
    return cls.from_parameters(right.epsilon, right.bounds, right.parameters())


def scalar_draws(mechanism: AnyMechanism) -> None:
    checks.check_draws_match_the_declared_likelihood(mechanism, 20_000, InsecureRandomness(1), checks.ends(mechanism))


def bulk_draws(mechanism: AnyMechanism) -> None:
    checks.check_draws_match_the_declared_likelihood(mechanism, 200_000, InsecureBulkRandomness(1))


def many_bulk_draws(mechanism: AnyMechanism) -> None:
    checks.check_draws_match_the_declared_likelihood(mechanism, 4_000_000, SystemBulkRandomness())


def crowds(mechanism: AnyMechanism) -> None:
    checks.check_estimates_of_a_mixed_crowd_are_unbiased_with_the_stated_variance(
        mechanism, 3000, InsecureBulkRandomness(2)
    )


def coverage(mechanism: AnyMechanism) -> None:
    checks.check_intervals_cover(mechanism, 1000, InsecureBulkRandomness(3))


def exact_coverage(mechanism: AnyMechanism) -> None:
    checks.check_coverage_exactly(mechanism, 500, 250, 0.9)


RATIO = checks.check_no_report_favours_a_value_by_more_than_e_to_the_epsilon
LAW = checks.check_the_law_is_the_declared_one
ATOMS = checks.check_amplification_atoms_are_those_of_the_real_law
MOMENTS = checks.check_the_estimator_is_unbiased_with_the_declared_variance_exactly

PLANTED: list[tuple[AnyMechanism, list[Callable[[AnyMechanism], None]]]] = [
    (kary(LiesLessOften), [RATIO, LAW, scalar_draws, bulk_draws, crowds]),
    (kary(LiesLessOften, Fraction(3, 100)), [RATIO, LAW, bulk_draws]),
    (kary(LiesLessOften, Fraction(1, 10**12)), [RATIO]),
    (binary(NeverTurnsATrueBitOff), [RATIO, LAW, MOMENTS, scalar_draws, bulk_draws, crowds]),
    (laplace(RoundsDown), [LAW, MOMENTS, bulk_draws, crowds]),
    (laplace(NoiseOnTooSmallAScale), [RATIO, LAW, scalar_draws]),
    (kary(DebiasesWrongly), [MOMENTS]),
    (kary(StatesTwiceTheVariance), [MOMENTS, crowds]),
    (duchi(StatesHalfTheVariance), [crowds]),
    (kary(StatesManyTimesTheError), [crowds]),
    (binary(NeighboursShareACoin), [bulk_draws]),
    (table(LeansTooFar), [RATIO, LAW, bulk_draws]),
    (table(RoundsTheTableDown), [LAW, MOMENTS, bulk_draws, crowds]),
    (table(ForgetsToRefit), [MOMENTS]),
    (table(StatesNoRounding), [MOMENTS]),
    (piecewise(WindowOffByOne), [LAW, MOMENTS, bulk_draws, crowds]),
    (hybrid(MixesWithTheWrongShare), [LAW, bulk_draws]),
    (kary(IntervalsTooNarrow), [coverage]),
    (unary(TurnsZerosLessOften), [RATIO, LAW, bulk_draws]),
    (unary(ZerosShareACoin), [RATIO, LAW, scalar_draws]),
    (hashed(NeverDrawsAnEmptyMask), [LAW, MOMENTS, ATOMS, scalar_draws]),
    (hashed(LiesInTheSameBucket), [RATIO, LAW, MOMENTS, scalar_draws]),
    (hashed(DecodesWithTheWrongSign), [MOMENTS, crowds]),
    (chosen(FavoursEarlyValues), [RATIO, LAW, MOMENTS, scalar_draws]),
    (remainder(TakesTheRemainder), [MOMENTS, ATOMS]),
    (kary(IntervalsTooNarrow, 1.3), [exact_coverage]),
]


def label(value: Any) -> str:
    name = getattr(value, "__name__", type(value).__name__)
    less = f"-by-{float(value.less):g}" if isinstance(value, LiesLessOften) else ""
    return f"{name.removeprefix('check_')}{less}"


@pytest.mark.everyday
@pytest.mark.parametrize(
    ("mechanism", "check"), [(m, check) for m, caught_by in PLANTED for check in caught_by], ids=label
)
def test_the_suite_catches(mechanism: AnyMechanism, check: Callable[[AnyMechanism], None]) -> None:
    with pytest.raises(AssertionError):
        check(mechanism)


@pytest.mark.full
@pytest.mark.parametrize("less", [Fraction(3, 100), Fraction(1, 100)])
def test_large_samples_catch_even_less_missing_noise(less: Fraction) -> None:
    with pytest.raises(AssertionError):
        many_bulk_draws(kary(LiesLessOften, less))
