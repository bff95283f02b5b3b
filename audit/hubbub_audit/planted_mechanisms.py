"""Planted bugs of mechanisms: each is a shipped class with one method changed, so that its declaration is false."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hubbub.mechanisms import BinaryRandomizedResponse as Binary
from hubbub.mechanisms import (
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    KaryRandomizedResponse,
    SymmetricUnaryEncoding,
)
from hubbub.mechanisms._grid_rounding import position
from hubbub.mechanisms._symbols import index
from hubbub.randomness import WORD, Randomness, discrete_laplace
from hubbub_audit.targets import Subject, subject_of

__all__ = ["never_turned_off", "noise_five_percent_low", "rounds_down", "shared_coin", "shared_coin_of_few"]


@dataclass(frozen=True)
class NoiseFivePercentLow(KaryRandomizedResponse):
    """Lies nineteen times where it should lie twenty times."""

    def randomize(self, value: object, rng: Randomness) -> int:
        truth = index(value, self.size, self.name)
        lie = (truth + 1 + rng.below(self.size - 1)) % self.size
        kept = WORD - (WORD - self.keep) * 19 // 20
        return truth if rng.coin(kept, WORD) else lie


@dataclass(frozen=True)
class NeverTurnsATrueBitOff(Binary):
    """Reports no only if the value is no."""

    def randomize(self, value: object, rng: Randomness) -> int:
        return 1 if value else int(not rng.coin(self.keep, WORD))


@dataclass(frozen=True)
class ZeroBitsShareOneCoin(SymmetricUnaryEncoding):
    """Each bit by itself has the right law; only together the bits give the value away."""

    def randomize(self, value: object, rng: Randomness) -> bytes:
        held = index(value, self.size, self.name)
        noise = (1 << self.size) - 1 if rng.coin(self.flip, WORD) else 0
        one = int(rng.coin(self.keep, WORD))
        return self.packed(noise & ~(1 << held) | one << held)


@dataclass(frozen=True)
class RoundsDown(DiscreteLaplaceMean):
    """Always takes the grid point below: as private as before, but wrong."""

    def randomize(self, value: object, rng: Randomness) -> int:
        up, whole = position(value, self.bounds, self.name)
        noisy = up * self.steps // whole + discrete_laplace(rng, self.scale, self.rate)
        return min(max(noisy, -self.reach), self.steps + self.reach)


def noise_five_percent_low() -> Subject:
    right = KaryRandomizedResponse.calibrate(1, Categories(2))
    return subject_of(NoiseFivePercentLow(right.epsilon, right.size, right.keep))


def never_turned_off() -> Subject:
    right = Binary.calibrate(1, Categories(2))
    return subject_of(NeverTurnsATrueBitOff(right.epsilon, right.keep))


def shared_coin() -> Subject:
    right = SymmetricUnaryEncoding.calibrate(1, Categories(16))
    return subject_of(ZeroBitsShareOneCoin(right.epsilon, right.size, right.flip))


def shared_coin_of_few() -> Subject:
    right = SymmetricUnaryEncoding.calibrate(1, Categories(3))
    return subject_of(ZeroBitsShareOneCoin(right.epsilon, right.size, right.flip))


def rounds_down() -> Subject:
    right = DiscreteLaplaceMean.calibrate(1, Bounds(Fraction(-1), Fraction(3)), steps=2)
    return subject_of(RoundsDown(right.epsilon, right.bounds, right.steps, right.scale, right.rate, right.reach))
