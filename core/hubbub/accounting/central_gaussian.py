r"""The central Gaussian mechanism: the error of a trusted server that sees every value, as a yardstick.

With noise of standard deviation σ on a sum of sensitivity Δ (Balle and Wang, ICML 2018, arXiv 1805.06530, Theorem 8),

    δ(ε) = Φ(Δ/2σ - εσ/Δ) - e^ε Φ(-Δ/2σ - εσ/Δ)

exactly. Under replacement, one device changes two of the counts by one each, so Δ = sqrt 2; with two values one count
says both, and for a mean over the width of its bounds there is one number, so Δ = 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.mechanisms import Domain

__all__ = ["central_gaussian", "central_laplace"]


def central_gaussian(domain: Domain, devices: int, epsilon: float, delta: float) -> float:
    """Standard error of one share, or of the mean over the width of its bounds, of a sum with Gaussian noise."""
    return domain.sensitivity * _deviation(epsilon, delta) / devices


def central_laplace(domain: Domain, devices: int, epsilon: float) -> float:
    """The same with Laplace noise, which needs no δ. Replacement changes two shares, so each has scale 2/ε."""
    return (2 if domain.sensitivity > 1 else 1) * math.sqrt(2) / epsilon / devices


def _deviation(epsilon: float, delta: float) -> float:
    """The σ that meets (ε, δ) at sensitivity 1, to 1e-12."""

    def excess(sigma: float) -> float:
        near, far = epsilon * sigma - 1 / (2 * sigma), epsilon * sigma + 1 / (2 * sigma)
        return (math.erfc(near / math.sqrt(2)) - math.exp(epsilon) * math.erfc(far / math.sqrt(2))) / 2 - delta

    low, high = 0.0, 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high
