r"""One-bit reports: the exact δ(ε) of the worst data set, not a bound on it.

P[1|0] = b < P[1|1] = a, and m of the N = n - 1 others hold 1. With f the law of the others' number of ones, all that a
shuffled batch shows is a count, and swapping the victim's 0 for a 1 costs

    δ_m(ε) = Σ_x [c0 f(x) - c1 f(x-1)]_+ ,     c0 = (1-b) - e^ε (1-a),   c1 = e^ε a - b.

f is log-concave, so f(x-1)/f(x) rises and the positive terms are those with x <= t for some t. The sum up to t is

    g(t) = (1/2π) ∫ B(z) e^{-zt} (c0 - c1 e^z) / (1 - e^z) dω,     z = θ + iω, θ < 0,
    B(z) = (1 - b + b e^z)^(N-m) (1 - a + a e^z)^m,

taken by the trapezoid rule with L nodes, of which only those near 0 matter because |B| falls with |ω|.
Every data set is a mixture of those with inputs 0 and 1, and δ is convex, so the largest δ_m over m and over
both directions is the answer. docs/explanation/accounting.md bounds aliasing, cut-off and round-off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hubbub.accounting.blanket import MOST_REPORTS
from hubbub.accounting.bracket import smallest_epsilon
from hubbub.accounting.inversion import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_DATA_SETS = 10_000
"""Up to this many reports every data set is evaluated; above, blocks of data sets are."""
_CHUNK = 256
_TRIES = 12
_DEEPEST = 300.0
"""Values below δ = e^-300 are not told apart."""


@dataclass(frozen=True, slots=True)
class Coin:
    """A one-bit randomizer by P[1|0] and P[1|1]."""

    low: Fraction
    high: Fraction

    def directions(self) -> tuple[Coin, ...]:
        """0 against 1, and 1 against 0 written as the former; once if they are the same."""
        low, high = (self.low, self.high) if self.low < self.high else (1 - self.low, 1 - self.high)
        forward, reverse = Coin(low, high), Coin(1 - high, 1 - low)
        return (forward,) if forward == reverse else (forward, reverse)


class Census:
    """Every data set of a batch, or blocks of them, in both directions.

    A block of w neighbouring m is bounded by its common part, a batch of n - (w - 1): the other w - 1
    report independently of the victim, so putting them back is post-processing.
    """

    def __init__(self, coin: Coin, reports: int, blocks: int = MOST_DATA_SETS) -> None:
        reports = min(reports, MOST_REPORTS)
        width = -(-reports // blocks)
        self._others = reports - width
        self._ones = np.unique(np.minimum(np.arange(0, reports, width), self._others))
        self._sides = coin.directions() if coin.low != coin.high else ()

    def delta(self, epsilon: float, enough: float = 1.0) -> float:
        """max over data sets and directions of δ(ε), from above; or any value found above `enough`."""
        some = self._partly(self._spaced(), epsilon)
        if some > enough:
            return some
        return max((float(found.max()) for found in self._all(epsilon)), default=0.0)

    def epsilon(self, delta: float, ceiling: float, guess: float) -> float:
        """The smallest ε below `ceiling` at which `delta` is certified for all data sets, or `ceiling`.

        Few data sets are near the worst: ε is solved for those and then checked on all.
        """
        some, found = self._spaced(), 0.0
        for _ in range(8):
            found = smallest_epsilon(partial(self._partly, some), delta, ceiling, max(guess, found), found)
            values = self._all(found)
            if found >= ceiling or all(float(value.max()) <= delta for value in values):
                return found
            if any(float(value.max()) >= 1.0 for value in values):  # a sum too small beside its round-off
                return ceiling
            some = [
                np.unique(np.concatenate([chosen, self._ones[np.argsort(-value)[:64]]]))
                for chosen, value in zip(some, values, strict=True)
            ]
        return smallest_epsilon(self.delta, delta, ceiling, found, found)

    def _spaced(self) -> list[NDArray[np.int64]]:
        return [self._ones[:: max(1, len(self._ones) // 128)] for _ in self._sides]

    def _all(self, epsilon: float) -> list[NDArray[np.float64]]:
        return [deltas(side, self._others, self._ones, epsilon) for side in self._sides]

    def _partly(self, some: list[NDArray[np.int64]], epsilon: float) -> float:
        found = [deltas(side, self._others, ones, epsilon) for side, ones in zip(self._sides, some, strict=True)]
        return max((float(value.max()) for value in found), default=0.0)


def deltas(coin: Coin, others: int, ones: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """δ_m(ε) of 0 against 1 from above, for each m in `ones`, with coin.low < coin.high."""
    result = np.empty(len(ones))
    for start in range(0, len(ones), _CHUNK):
        part = slice(start, start + _CHUNK)
        result[part] = _some_deltas(coin, others, ones[part], epsilon)
    return np.minimum(result, 1.0)


def _some_deltas(coin: Coin, others: int, ones: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    power = math.exp(epsilon) * (1 - 4 * UNIT)
    if (1 - coin.low) <= Fraction(power) * (1 - coin.high):
        return np.zeros(len(ones))
    rise = float(1 - coin.low) - power * float(1 - coin.high) + 8 * UNIT * (1 + power)
    fall = power * float(coin.high) - float(coin.low) - 8 * UNIT * (1 + power)
    if fall <= 0:  # at ε near 0 and a near b: nothing is gained by a closer look
        return np.full(len(ones), rise)
    chunk = _Chunk(coin, others, ones, rise, fall, power)
    if chunk.depth > _DEEPEST:  # δ falls with ε, so its value at a smaller ε will do
        return _some_deltas(coin, others, ones, 0.8 * epsilon)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not sure, and stays infinite
        return chunk.deltas()


class _Chunk:
    """Some neighbouring m, evaluated with one tilt θ and one number of nodes L."""

    def __init__(
        self, coin: Coin, others: int, ones: NDArray[np.int64], rise: float, fall: float, power: float
    ) -> None:
        low, high = float(coin.low), float(coin.high)
        low_off, high_off = float(1 - coin.low), float(1 - coin.high)
        self.others, self.ones, self.rise, self.fall, self.gain = others, ones, rise, fall, power - 1
        zeros = others - ones

        def moments(tilt: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            p = low * math.exp(tilt) / (low_off + low * math.exp(tilt))
            q = high * math.exp(tilt) / (high_off + high * math.exp(tilt))
            return zeros * p + ones * q, zeros * p * (1 - p) + ones * q * (1 - q)

        kink = math.log(rise / fall)  # where c0 - c1 e^z vanishes; the law tilted by it sits at t
        mean, variance = moments(kink)
        self.cut = np.clip(np.floor(mean + 0.5).astype(np.int64), 0, others + 1)
        tilt = min(max(kink, -15.0), 0.0) - 1 / math.sqrt(max(float(np.median(variance)), 1.0))
        mean, variance = moments(tilt)
        down = math.expm1(tilt)
        self.log_total = zeros * math.log1p(low * down) + ones * math.log1p(high * down)
        # L: aliases from above weigh e^{θL}; those from below are tails of the tilted law (Bernstein)
        rarity = 46.0
        tail = rarity / 3 + math.sqrt((rarity / 3) ** 2 + 2 * rarity * float(variance.max()))
        reach = tail + float(np.abs(self.cut - mean).max()) + 4 * _TRIES
        self.depth = float(np.max(tilt * self.cut - self.log_total))
        if self.depth > _DEEPEST:
            return
        length = max(reach, (24 + max(0.0, self.depth)) / -tilt)
        self.whole = length >= others + 6  # nothing is left to alias from below
        self.length = (min(math.ceil(length), others + 6)) | 1
        self.alias = 0.0 if self.whole else math.exp(-rarity - 3 * tilt)
        spread = math.sqrt(max(float(variance.min()), 1e-9))
        nodes = min((self.length - 1) // 2, math.ceil(9.5 * self.length / (2 * math.pi * spread)) + 2)
        self.complete = nodes == (self.length - 1) // 2
        self.node = np.arange(nodes + 1)
        self.tilt = tilt
        omega = 2 * math.pi / self.length * self.node
        turn = np.exp(tilt + 1j * omega)
        floor = math.exp(tilt)
        # logarithms of (1 - p + p e^z) with an error in proportion to |e^z - 1|, so that N of them stay good
        away = floor * (-2 * np.sin(omega / 2) ** 2 + 1j * np.sin(omega))
        log_zero = _log1p(low * away / (1 + low * down))
        log_one = _log1p(high * away / (1 + high * down))
        log_phi = zeros[:, None] * log_zero[None, :] + ones[:, None] * log_one[None, :]
        least = np.minimum(np.abs(1 + low * (turn - 1)), np.abs(1 + high * (turn - 1)))
        self.drift = UNIT * (256 + 32 * others * np.abs(turn - 1) / np.maximum(least, UNIT))
        weights = np.where(self.node == 0, 1.0, 2.0) / self.length
        self.phi = np.exp(log_phi) * weights
        self.size = np.abs(self.phi)
        self.roots = np.exp(-2j * math.pi / self.length * np.arange(self.length))
        step = rise - fall * turn
        # columns: g(t), then the terms c0 f(x) - c1 f(x-1) at x = t-1, t, t+1, t+2, all over e^{-θt}
        self.kernel = np.stack([step / (1 - turn)] + [step * turn**-j for j in (-1, 0, 1, 2)], axis=1)
        self.bound = (rise + fall) / (1 - floor) * math.exp(max(0.0, -tilt * 2))

    def deltas(self) -> NDArray[np.float64]:
        """Move t until the terms beside it have the right signs beyond doubt, then add every doubt to g(t)."""
        result = np.full(len(self.ones), np.inf)
        todo = np.arange(len(self.ones))
        cut = self.cut.copy()
        for _ in range(_TRIES):
            t = cut[todo]
            turned = (self.node[None, :] * t[:, None]) % self.length
            base = self.phi[todo] * self.roots[turned]
            values = (base @ self.kernel).real
            round_off = self.size[todo] @ (np.abs(self.kernel) * self.drift[:, None])
            cut_off = 0.0 if self.complete else self.size[todo, -1] * self.length * self.bound
            doubt = round_off + (np.asarray(cut_off) + 2 * (self.rise + self.fall) * self.alias)[..., None]
            scale = np.exp(self.log_total[todo] - self.tilt * t)
            # e^{θL} aliases of the terms themselves, unscaled
            far = (self.rise + self.fall) * math.exp(self.tilt * (self.length - 4)) / scale
            term_doubt = doubt[:, 1:] + (0.0 if self.whole else 1.0) * far[:, None]
            rising = (values[:, 1] - term_doubt[:, 0] >= 0) | (t - 1 < 0)
            falling = (values[:, 4] + term_doubt[:, 3] <= 0) | (t + 2 > self.others + 1)
            sure = rising & falling
            wrap = math.exp(self.tilt * self.length)
            # g(t), g(t-1) or g(t+1), whichever is largest
            best = values[:, 0] + np.maximum(0.0, np.maximum(doubt[:, 2] - values[:, 2], doubt[:, 3] + values[:, 3]))
            above = (
                scale * (best + doubt[:, 0]) * (1 + 16 * UNIT * (16 + np.abs(self.log_total[todo]) + t * -self.tilt))
            )
            result[todo[sure]] = (above + self.gain * wrap / (1 - wrap))[sure]
            cut[todo] += np.where(~falling, 2, np.where(~rising, -2, 0))
            todo = todo[~sure]
            if not len(todo):
                break
        return result


def _log1p(w: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """ln(1 + w) with a small error relative to |w|."""
    return np.asarray(0.5 * np.log1p(2 * w.real + w.real**2 + w.imag**2) + 1j * np.arctan2(w.imag, 1 + w.real))
