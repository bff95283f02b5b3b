r"""Quantiles of a sum of independent errors, whatever the devices hold. For intervals of means.

An error has one of a few values with known chances, which depend on the value that the device holds. The values of all
devices are unknown. So the quantile is taken in standard deviations for devices that all hold the same value, and the
largest over several such values is used. For up to MANY reports the law of the sum is computed, by Fourier transform on
a lattice on which every value is split between two neighbours, so that means stay right and spread can only grow. For
more reports the expansion of Cornish and Fisher (Revue de l'Institut International de Statistique 5, 1938) is used if
its terms are small, otherwise Bernstein's bound, which always holds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hubbub.mechanisms._intervals import normal_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MANY = 10_000
"""Beyond this many reports the law of a sum is not computed."""
TRUSTED = 0.05
"""Cornish and Fisher's terms may add at most this share of the normal quantile."""
_LATTICE = 1 << 16
_SMALLEST = 1e-9
"""Chances below this are near the round-off of the transform, so the bound is used."""


def quantile(errors: NDArray[np.float64], chances: NDArray[np.float64], reports: int, alpha: float) -> float:
    """Standard deviations that the sum of `reports` errors exceeds, to either side, with a chance of at most alpha/2.

    `errors[g, y]` is the error of symbol y when devices hold g, and `chances[g, y]` its chance.
    """
    import numpy as np

    scaled = errors / np.sqrt((chances * errors**2).sum(axis=1))[:, None]
    if alpha >= _SMALLEST and reports <= MANY:
        return max(_by_law(e, p, reports, alpha / 2) for e, p in zip(scaled, chances, strict=True))
    normal = normal_quantile(alpha)
    skew, excess = (chances * scaled**3).sum(axis=1), (chances * scaled**4).sum(axis=1) - 3
    first = np.abs(skew) * (normal**2 - 1) / (6 * math.sqrt(reports))
    second = (excess * (normal**3 - 3 * normal) / 24 - skew**2 * (2 * normal**3 - 5 * normal) / 36) / reports
    more = float(np.maximum(first + second, 0).max())
    if alpha >= _SMALLEST and more <= TRUSTED * normal:
        return normal + more
    level = math.log(2 / alpha)
    return math.sqrt(2 * level) + float(np.abs(scaled).max()) * level / (3 * math.sqrt(reports))


def _by_law(errors: NDArray[np.float64], chances: NDArray[np.float64], reports: int, level: float) -> float:
    import numpy as np

    farthest = float(np.abs(errors).max())
    window = min(14 * math.sqrt(reports) + 4 * farthest, reports * farthest) * 1.01
    step = 2 * window / _LATTICE
    place = errors / step
    below = np.floor(place)
    law = np.zeros(_LATTICE)
    np.add.at(law, below.astype(int) % _LATTICE, chances * (below + 1 - place))
    np.add.at(law, (below.astype(int) + 1) % _LATTICE, chances * (place - below))
    summed = np.fft.irfft(np.fft.rfft(law) ** reports, _LATTICE)
    half = _LATTICE // 2
    above = np.cumsum(summed[half:0:-1])[::-1]  # P[sum >= j steps], j = 1 .. half
    under = np.cumsum(summed[half:])[::-1]  # P[sum <= -j steps], j = 1 .. half
    beyond = np.maximum(above, under)
    return float(np.argmax(beyond <= level) + 1) * step / math.sqrt(reports)
