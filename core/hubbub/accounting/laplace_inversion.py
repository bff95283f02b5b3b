r"""Certified expectations of a sum of many independent terms, by inverting its Laplace transform.

For S a sum of independent discrete terms, M(z) = E e^{zS}, a kernel w >= 0 that vanishes left of 0
with transform W(z) = ∫ w(s) e^{-zs} ds, any θ > 0 and any period P, Poisson's formula reads

    (1/P) Σ_k M(z_k) W(z_k) e^{-z_k a} = Σ_j e^{-θjP} E[w(S - a + jP)],      z_k = θ + 2πik/P.

Its term j = 0 is E[w(S - a)] and no other term is negative, so **the trapezoid sum on the left can only
be too large**. Before that, one small Gaussian Z is added to S. By Jensen's inequality (kernel `RAMP`), or because
one more release can only cost privacy (kernel `LOSS`), this, too, only raises the value. It makes the terms die out
like exp(-τ²ω²/2), so that the sum is finite. The cut-off of that sum and the round-off remain; the code below bounds
both and adds them. docs/explanation/accounting.md has the proof step by step.

The work depends on the requested accuracy, not on the number of terms in S.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNIT = 2.0**-53
"""Unit round-off of a double."""
MOST_NODES = 1 << 16
SMALLEST = 1e-300
"""No smaller value is returned, because a zero would claim pure differential privacy."""
_LARGEST_LOG = 700.0
_CUTOFF = 6.5
"""The sum stops where the Gaussian factor has fallen to exp(-6.5²/2)."""


@dataclass(frozen=True, slots=True)
class Law:
    """`times` independent copies of a term, with masses and values that are upper bounds."""

    masses: NDArray[np.float64]
    values: NDArray[np.float64]
    times: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """The kernel w, given by its transform. `slope` is -d/dθ ln W(θ), and `drift` the mean of Z in units of τ²."""

    transform: Callable[[NDArray[np.complex128]], NDArray[np.complex128]]
    slope: Callable[[float], float]
    drift: float


RAMP = Kernel(lambda z: 1 / (z * z), lambda t: 2 / t, 0.0)
"""w(s) = [s]_+, whose mean shuffling needs; Z ~ N(0, τ²)."""
LOSS = Kernel(lambda z: 1 / (z * (z + 1)), lambda t: 1 / t + 1 / (t + 1), 0.5)
"""w(s) = [1 - e^-s]_+, whose mean is δ if s is the privacy loss above ε; Z ~ N(τ²/2, τ²) is the
loss of one Gaussian release."""


def upper_expectation(laws: Sequence[Law], kernel: Kernel, at: float = 0.0, fineness: float = 300.0) -> float:
    """A number at or above E[w(S - at)]. The larger `fineness` is, the closer it is.

    `fineness` is the standard deviation of the (tilted) sum in units of that of the added Gaussian.
    """
    tops = [(law.times, float(law.values.max())) for law in laws]
    if math.fsum(times * top + 4 * UNIT * times * abs(top) for times, top in tops) <= at:
        return 0.0
    contour = _contour(laws, kernel, at, fineness)
    tilt, tilted, exponent, period = contour.tilt, contour.tilted, contour.exponent, contour.period
    tau, nodes = contour.tau, contour.nodes

    step = 2 * math.pi / period
    omega = step * np.arange(nodes + 1)
    z = np.asarray(tilt + 1j * omega, np.complex128)
    shape = kernel.transform(z) * np.exp(-0.5 * (tau * omega) ** 2)
    log_phi = 1j * (tau * tau * (tilt + kernel.drift) * omega - at * omega)
    log_size = np.zeros(nodes + 1)
    doubt = np.zeros(nodes + 1)
    for law, part in zip(laws, tilted, strict=True):
        phi, eta = part.characteristic(step, nodes)
        size = np.abs(phi)
        # |φ^n - φ̃^n| <= n η (|φ̃| + η)^(n-1), with the error of the logarithm counted in η
        log_phi += law.times * np.log(np.maximum(size, 1e-300)) + 1j * (law.times * np.angle(phi))
        log_size += law.times * np.log(size + eta)
        doubt += law.times * eta / (size + eta)
    terms = (shape * np.exp(log_phi)).real
    sizes = np.abs(shape) * np.exp(log_size)
    weights = np.full(nodes + 1, 2.0)
    weights[0] = 1.0
    phase_slips = 8 * UNIT * omega * (abs(at) + tau * tau * (tilt + kernel.drift))
    total = float(np.sum(weights * terms))
    round_off = float(np.sum(weights * sizes * (doubt + phase_slips + 4096 * UNIT)))
    # beyond the last node: |W| <= 1/ω² for both kernels and Σ_{k>K} 1/k² <= 1/K
    cut_off = 2 * math.exp(-0.5 * (tau * omega[-1]) ** 2) * (period / (2 * math.pi)) ** 2 / nodes
    scale_log = exponent + 0.5 * tau * tau * tilt * tilt + kernel.drift * tau * tau * tilt
    work = math.fsum(law.times * part.log_work for law, part in zip(laws, tilted, strict=True))
    slack = 16 * UNIT * (1 + work + 2 * tilt * abs(at) + abs(scale_log))
    inner = total + round_off + cut_off
    log_value = scale_log + slack + math.log(inner / period) if inner > 0 else -math.inf
    if not log_value < _LARGEST_LOG:  # an absurd tilt, or NaN
        return math.inf
    # never below SMALLEST, because a value that underflows is not zero
    return max(math.exp(log_value) * (1 + 64 * UNIT + 8 * UNIT * abs(log_value)), SMALLEST)


@dataclass(frozen=True, slots=True)
class _Contour:
    """Where the sum is taken. Any choice is valid; this one is tight and short."""

    tilt: float
    tilted: list[_Tilted]
    exponent: float
    """ln of M(θ) e^{-θ at}."""
    period: float
    tau: float
    nodes: int


def _contour(laws: Sequence[Law], kernel: Kernel, at: float, fineness: float) -> _Contour:
    tilt = _saddle(laws, kernel, at)
    tilted = [_Tilted(law, tilt) for law in laws]
    exponent = math.fsum([*(law.times * part.log_total for law, part in zip(laws, tilted, strict=True)), -tilt * at])
    spread = math.sqrt(sum(law.times * part.variance for law, part in zip(laws, tilted, strict=True)))
    period = max(10 * spread, (20 + max(0.0, -exponent)) / tilt)
    if spread == 0.0:  # in double precision every tilted term is a constant
        spread = 1 / tilt
    tau = spread / fineness
    nodes = math.ceil(_CUTOFF / tau * period / (2 * math.pi))
    if nodes > MOST_NODES:
        nodes = MOST_NODES
        tau = _CUTOFF * period / (2 * math.pi * nodes)
    return _Contour(tilt, tilted, exponent, period, tau, nodes)


class _Tilted:
    """A law with its masses multiplied by e^{θ value}, with a bound on the error of its transform."""

    def __init__(self, law: Law, tilt: float) -> None:
        exponents = tilt * law.values
        top = float(exponents.max())
        weights = law.masses * np.exp(exponents - top)
        total = float(weights.sum())
        # a weight below 1e-40 changes φ by less than its round-off, and denormals are slow
        heavy = weights > 1e-40 * total
        self.values, exponents = law.values[heavy], exponents[heavy]
        self.weights = weights[heavy] / total
        self.log_total = top + math.log(total)
        self.log_work = 1 + abs(top) + abs(math.log(total))
        mean = float(self.weights @ self.values)
        self.variance = float(self.weights @ (self.values - mean) ** 2)
        self._reach = float(self.weights @ np.abs(self.values))
        self._work = 4 * len(weights) + 96 + 4 * float(self.weights @ np.abs(exponents)) + 8 * abs(top)

    def characteristic(self, step: float, nodes: int) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """φ(k step) for k = 0..nodes, and a bound on the error of each.

        e^{iωg} is the product of a coarse and a fine factor, so the whole table is one matrix product.
        """
        width = math.isqrt(nodes) + 1
        fine = np.exp(1j * (step * np.arange(width))[None, :] * self.values[:, None])
        coarse = np.exp(1j * (step * width * np.arange(nodes // width + 1))[:, None] * self.values[None, :])
        coarse *= self.weights
        # in slices so small that a linear-algebra library uses one thread: waking others costs more than they save
        rows = max(1, 50_000 // (width * len(self.values)))
        slices = [coarse[start : start + rows] @ fine for start in range(0, len(coarse), rows)]
        phi = np.asarray(np.concatenate(slices).ravel()[: nodes + 1], np.complex128)
        eta = np.asarray(UNIT * (self._work + 16 * self._reach * step * np.arange(nodes + 1)), np.float64)
        return phi, eta


def _saddle(laws: Sequence[Law], kernel: Kernel, at: float) -> float:
    """θ near the minimum of ln(M(θ) W(θ) e^{-θ at}). Any θ > 0 is valid; this one wastes least."""

    def slope(tilt: float) -> float:
        total = -at - kernel.slope(tilt)
        for law in laws:
            exponents = tilt * law.values
            weights = law.masses * np.exp(exponents - exponents.max())
            total += law.times * float(weights @ law.values) / float(weights.sum())
        return total

    low = high = 1 / math.sqrt(sum(law.times * float(law.masses @ law.values**2) for law in laws))
    for _ in range(80):
        if slope(high) > 0:
            break
        low, high = high, 4 * high
    for _ in range(80):
        if slope(low) <= 0:
            break
        low, high = low / 4, low
    for _ in range(7):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) <= 0 else (low, middle)
    return math.sqrt(low * high)
