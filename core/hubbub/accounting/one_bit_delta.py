r"""The δ(ε) of one data set of one-bit reports, from above.

P[1|0] = b < P[1|1] = a, and m of the N = n - 1 others hold 1. A shuffled batch shows only a count. With f the law of
the others' number of ones, swapping the victim's 0 for a 1 costs

    δ_m(ε) = Σ_x [d(x)]_+ ,   d(x) = c0 f(x) - c1 f(x-1),   c0 = (1-b) - e^ε (1-a),   c1 = e^ε a - b.

f is log-concave, so f(x-1)/f(x) rises and the positive terms are those with x <= t. That t is the mode of f tilted by
κ = ln(c0/c1), and a sum of independent bits has its mode within 1 of its mean (Darroch, Ann. Math. Statist. 35, 1964;
Samuels, ibid. 36, 1965), so two values of t remain. The sum up to t is

    g(t) = (1/2π) ∫ B(z) e^{-zt} (c0 - c1 e^z) / (1 - e^z) dω,     z = θ + iω, θ < 0,
    B(z) = (1 - b + b e^z)^(N-m) (1 - a + a e^z)^m,

taken by the trapezoid rule with L nodes, of which only those near 0 matter because |B| falls with |ω|.
Chernoff's δ_m <= c0 B(κ) e^{-κt} shows beforehand which m need no closer look.
docs/explanation/accounting.md bounds aliasing, cut-off and round-off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hubbub.accounting.laplace_inversion import UNIT
from hubbub.mechanisms._exact_arithmetic import float_above

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 256
_DEEPEST = math.exp(-300.0)
"""Chernoff's bound is good enough for values below this."""
_LEAST_LOG = -690.0
"""No value below e^-690 is returned, because a zero would claim pure differential privacy."""
_NEAR = 1e-3
"""More than the error of a mean over 10^9 reports. A mean this close to a whole number may be on either side of it."""


@dataclass(frozen=True, slots=True)
class Coin:
    """A one-bit randomizer by P[1|0] and P[1|1]."""

    low: Fraction
    high: Fraction

    def directions(self) -> tuple[Coin, ...]:
        """0 against 1, and 1 against 0 written as 0 against 1. Only one of them if they are the same."""
        low, high = (self.low, self.high) if self.low < self.high else (1 - self.low, 1 - self.high)
        forward, reverse = Coin(low, high), Coin(1 - high, 1 - low)
        return (forward,) if forward == reverse else (forward, reverse)


def deltas(
    coin: Coin, zeros: NDArray[np.int64], ones: NDArray[np.int64], epsilon: float, enough: float = 0.0
) -> NDArray[np.float64]:
    """δ(ε) of 0 against 1 from above, if `zeros` others hold 0 and `ones` hold 1, with coin.low < coin.high.

    If Chernoff's bound is at most `enough`, that bound is returned.
    """
    power = max(1.0, math.exp(epsilon) * (1 - 4 * UNIT))
    rise = (1 - coin.low) - Fraction(power) * (1 - coin.high)
    if rise <= 0:
        return np.zeros(len(ones))
    fall = Fraction(power) * coin.high - coin.low
    swap = _Swap(
        _Bit(float(coin.low), float(1 - coin.low)),
        _Bit(float(coin.high), float(1 - coin.high)),
        float_above(rise),
        -float_above(-fall),
        power - 1,
    )
    crowds = _Crowds.at(swap, zeros, ones)
    result = np.exp(np.maximum(crowds.log_chernoff, _LEAST_LOG))
    close = np.flatnonzero(result > max(enough, _DEEPEST))
    with np.errstate(all="ignore"):  # if a value overflows, Chernoff's bound is used
        for start in range(0, len(close), _CHUNK):
            part = close[start : start + _CHUNK]
            found = np.maximum(_inverted(swap, crowds.some(part)), math.exp(_LEAST_LOG))
            result[part] = np.fmin(result[part], found)
    return np.asarray(np.minimum(result, 1.0))


@dataclass(frozen=True, slots=True)
class _Bit:
    """P[1] and P[0] of a report."""

    on: float
    off: float

    def tilted(self, odds: float, lack: float) -> tuple[_Bit, float]:
        """The bit weighted by e^θ = odds = 1 - lack, and ln of its total weight, each within a few relative 2^-53."""
        total = self.off + self.on * odds
        log = math.log1p(-self.on * lack) if self.on * lack < 0.5 else math.log(total)
        return _Bit(self.on * odds / total, self.off / total), log


@dataclass(frozen=True, slots=True)
class _Swap:
    """Swapping a victim's 0 for a 1 at one ε: c0 rounded up, c1 rounded down; `gain` is e^ε - 1."""

    zero: _Bit
    one: _Bit
    rise: float
    fall: float
    gain: float


@dataclass(frozen=True, slots=True)
class _Crowds:
    """Several data sets: how many others hold 0 and 1, where t may be, and Chernoff's bound."""

    kink: float
    zeros: NDArray[np.int64]
    ones: NDArray[np.int64]
    variance: NDArray[np.float64]
    cut: NDArray[np.int64]
    less: NDArray[np.bool_]
    """Whether t may be cut - 1. `more` says whether it may be cut + 1."""
    more: NDArray[np.bool_]
    log_chernoff: NDArray[np.float64]

    @classmethod
    def at(cls, swap: _Swap, zeros: NDArray[np.int64], ones: NDArray[np.int64]) -> _Crowds:
        odds, lack = min(1.0, swap.rise / swap.fall), max(0.0, (swap.fall - swap.rise) / swap.fall)
        kink = math.log1p(-lack) if lack < 0.5 else math.log(odds)
        zero, log_zero = swap.zero.tilted(odds, lack)
        one, log_one = swap.one.tilted(odds, lack)
        mean = zeros * zero.on + ones * one.on
        variance = zeros * (zero.on * zero.off) + ones * (one.on * one.off)
        # f(1)/f(0), tilted: below 1 only x = 0 counts, and the round-off of any other t must not come in
        alone = zeros * (zero.on / zero.off) + ones * (one.on / one.off) < 1 - _NEAR
        cut = np.where(alone, 0, np.floor(mean + 0.5)).astype(np.int64)
        less = ~alone & (mean < cut + _NEAR) & (cut > 0)
        more = ~alone & (mean > cut - _NEAR)
        log_total = zeros * log_zero + ones * log_one
        log_power = kink * (cut + more)
        slack = 16 * UNIT * (16 + np.abs(log_total) + np.abs(log_power))
        log_chernoff = math.log(swap.rise) + log_total - log_power + slack
        return cls(kink, zeros, ones, variance, cut, less, more, log_chernoff)

    def some(self, part: NDArray[np.intp]) -> _Crowds:
        return _Crowds(
            self.kink,
            self.zeros[part],
            self.ones[part],
            self.variance[part],
            self.cut[part],
            self.less[part],
            self.more[part],
            self.log_chernoff[part],
        )


def _inverted(swap: _Swap, crowds: _Crowds) -> NDArray[np.float64]:
    """The largest of those of g(t-1), g(t) and g(t+1) that are possible, with all error bounds added."""
    zeros, ones, cut = crowds.zeros, crowds.ones, crowds.cut
    tilt = crowds.kink - 1 / math.sqrt(max(float(np.median(crowds.variance)), 1.0))
    floor, lack = math.exp(tilt), -math.expm1(tilt)
    zero, log_zero = swap.zero.tilted(floor, lack)
    one, log_one = swap.one.tilted(floor, lack)
    mean = zeros * zero.on + ones * one.on
    variance = zeros * (zero.on * zero.off) + ones * (one.on * one.off)
    log_total = zeros * log_zero + ones * log_one
    length = _length(crowds, tilt, mean, float(variance.max()), log_total)
    spread = math.sqrt(max(float(variance.min()), 1e-9))
    nodes = min((length - 1) // 2, math.ceil(9.5 * length / (2 * math.pi * spread)) + 2)
    node = np.arange(nodes + 1)
    half = np.asarray(math.pi / length * node, np.float64)
    wave_zero, wave_one = _Wave(zero, half), _Wave(one, half)
    phi = np.exp(np.outer(zeros, wave_zero.log) + np.outer(ones, wave_one.log))
    phi *= np.where(node == 0, 1.0, 2.0) / length
    phi *= _roots(node[None, :] * cut[:, None] % length, length)
    # 1 - e^z without cancellation; columns for g(t-1), g(t), g(t+1), all over e^{-θt}
    away = lack + 2 * floor * np.sin(half) ** 2 - 1j * floor * np.sin(2 * half)
    turn = np.exp(tilt + 2j * half)
    near, gap = lack < 0.5, swap.rise - swap.fall
    step = gap + swap.fall * away if near else swap.rise - swap.fall * turn
    parts = abs(gap) + swap.fall * np.abs(away) if near else swap.rise + swap.fall * np.abs(turn)
    shifts = np.stack([turn, np.ones_like(turn), 1 / turn], axis=1)
    kernel = (step / away)[:, None] * shifts
    gross = (parts / np.abs(away))[:, None] * np.abs(shifts)  # |kernel| without any cancellation
    doubt = _round_off(crowds, np.abs(phi), (wave_zero.doubt, wave_one.doubt), np.abs(kernel), gross)
    if nodes < (length - 1) // 2:  # the last node that is kept bounds those left out
        last = np.abs(phi[:, -1]) * length
        doubt += np.outer(last, (swap.rise + swap.fall) / lack * np.exp(tilt * np.array([1, 0, -1])))
    values = (phi @ kernel).real
    values = np.where(np.stack([crowds.less, crowds.cut >= 0, crowds.more], axis=1), values + doubt, -np.inf)
    best = values.max(axis=1)
    scale = np.exp(log_total - tilt * cut)
    slack = 16 * UNIT * (16 + np.abs(log_total) - tilt * cut)
    wrap = math.exp(tilt * length)
    return np.asarray(scale * (best + np.abs(best) * slack) + swap.gain * wrap / (1 - wrap) * (1 + 8 * UNIT))


def _round_off(
    crowds: _Crowds,
    size: NDArray[np.float64],
    waves: tuple[NDArray[np.float64], NDArray[np.float64]],
    kernel: NDArray[np.float64],
    gross: NDArray[np.float64],
) -> NDArray[np.float64]:
    """How far a sum may be off: the error of N logarithms, and of every step that is done once or summed."""
    zeros, ones = crowds.zeros[:, None], crowds.ones[:, None]
    once = (256 + len(kernel)) * gross
    parts = size @ np.concatenate([once, *(32 * wave[:, None] * kernel for wave in waves)], axis=1)
    linear = parts[:, :3] + zeros * parts[:, 3:6] + ones * parts[:, 6:]
    most = 32 * (float(zeros.max()) * waves[0].max() + float(ones.max()) * waves[1].max())
    return np.asarray(UNIT * math.exp(min(700.0, UNIT * most)) * linear)  # e^x - 1 <= x e^x


def _length(
    crowds: _Crowds, tilt: float, mean: NDArray[np.float64], variance: float, log_total: NDArray[np.float64]
) -> int:
    """L, an odd number. Aliases from above weigh e^{θL}, which must be small beside g. Those from below, which raise g,
    are tails of the tilted law (Bernstein)."""
    rarity = 46.0
    tail = rarity / 3 + math.sqrt((rarity / 3) ** 2 + 2 * rarity * variance)
    reach = tail + float(np.abs(crowds.cut - mean).max()) + 8
    depth = float(np.max(tilt * crowds.cut - log_total))
    length = max(reach, (24 + max(0.0, depth)) / -tilt)
    whole = int((crowds.zeros + crowds.ones).max()) + 6  # with this length nothing can alias from below
    return min(math.ceil(length), whole) | 1


def _roots(turns: NDArray[np.int64], length: int) -> NDArray[np.complex128]:
    """e^{-2πik/L}, from a table unless the table would be larger than the number of lookups."""
    if length <= turns.size:
        return np.asarray(np.exp(-2j * math.pi / length * np.arange(length))[turns], np.complex128)
    return np.asarray(np.exp(-2j * math.pi / length * turns), np.complex128)


class _Wave:
    """ln of 1 - q + q e^{iω} for a bit with P[1] = q, and how far it may be off in units of 2^-53, up to a factor."""

    def __init__(self, bit: _Bit, half: NDArray[np.float64]) -> None:
        sine, cosine = np.sin(half), np.cos(half)
        # |1 - q + q e^{iω}|² in two forms, each used where nothing cancels in it
        small = 4 * bit.on * bit.off * sine**2
        size = np.hypot((bit.off - bit.on) * sine, cosine)
        log_size = np.where(small < 0.5, 0.5 * np.log1p(-np.minimum(small, 0.5)), np.log(np.maximum(size, 1e-300)))
        self.log = log_size + 1j * np.arctan2(2 * bit.on * sine * cosine, 1 - 2 * bit.on * sine**2)
        self.doubt = 2 * bit.on * sine / np.maximum(size, UNIT)
