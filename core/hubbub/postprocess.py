r"""Post-processing of raw estimates: a separate, labelled step, never done inside an estimator.

Raw estimates are unbiased: sum and compare *them*. Post-processed ones look like frequencies and have a lower
error, but are biased. So they carry the name of their method and no variance.

    norm_sub   for a whole histogram: the nearest frequencies that are non-negative and sum to one
    base_cut   for the top of a long list: keep values clearly above the noise, set the rest to zero
    clip       each value on its own, into its range
    projected  for bins in order: the shares whose sums fit the raw ones best, that are non-negative and sum to one

(Wang, Lopuhaä-Zwakenberg, Li, Skoric and Li, "Locally Differentially Private Frequency Estimation with
Consistency", NDSS 2020, arXiv 1905.08320, compare ten such methods; names as there.)
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Postprocessed", "base_cut", "clip", "norm_sub", "projected"]


@dataclass(frozen=True, slots=True, eq=False)
class Postprocessed:
    """Values that are no longer unbiased. `method` says what was done to them."""

    values: NDArray[np.float64]
    method: str


def norm_sub(values: ArrayLike) -> Postprocessed:
    r"""max(v + delta, 0) with delta such that the values sum to one: the Euclidean projection onto the simplex.

    With v sorted downwards, the k largest stay positive for the largest k with v_k + (1 - sum_{i<=k} v_i)/k > 0
    (Held, Wolfe and Crowder 1974; Duchi et al., ICML 2008).
    """
    import numpy as np

    raw = _finite(values)
    down = np.sort(raw)[::-1]
    shift = (1 - np.cumsum(down)) / np.arange(1, len(down) + 1)
    kept = int(np.flatnonzero(down + shift > 0)[-1])
    return Postprocessed(np.maximum(raw + shift[kept], 0), "norm_sub")


def base_cut(values: ArrayLike, stderr: ArrayLike, alpha: float = 0.05) -> Postprocessed:
    r"""Values above Phi^-1(1 - alpha/d) standard errors stay. The rest become zero.

    If none of d items is present, some item passes with probability at most about alpha (a union bound).
    """
    import numpy as np

    raw, error = _finite(values), np.broadcast_to(_finite(stderr), np.shape(values))
    if not 0 < alpha < 1:
        raise InvalidParameter(f"alpha must be between 0 and 1, for example 0.05; got {alpha}")
    limit = NormalDist().inv_cdf(1 - alpha / len(raw)) * error
    return Postprocessed(np.where(raw > limit, raw, 0.0), "base_cut")


def clip(values: ArrayLike, lower: float = 0.0, upper: float = 1.0) -> Postprocessed:
    """Clip each value to [lower, upper]: [0, 1] for a frequency, the bounds for a mean."""
    import numpy as np

    if not lower < upper:
        raise InvalidParameter(f"clip needs lower below upper, got [{lower}, {upper}]")
    return Postprocessed(np.clip(_finite(values), lower, upper), "clip")


def projected(values: ArrayLike, precision: ArrayLike) -> Postprocessed:
    r"""The shares f >= 0 that sum to one with the least (f - v)' J (f - v), J the precision of the raw estimates v.

    By accelerated projected gradients (Beck and Teboulle, SIAM J. Imaging Sciences 2, 2009), to 1e-9.
    """
    import numpy as np

    raw, weights = _finite(values), np.asarray(precision, np.float64)
    found = ahead = norm_sub(raw).values
    step, speed = 1 / float(np.linalg.eigvalsh(weights)[-1]), 1.0
    for _ in range(5_000):
        after = norm_sub(ahead - step * (weights @ (ahead - raw))).values
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = after + (speed - 1) / faster * (after - found)
        moved = float(np.abs(after - found).max())
        found, speed = after, faster
        if moved < 1e-9:
            break
    return Postprocessed(found, "projected")


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    import numpy as np

    array = np.atleast_1d(np.asarray(values, np.float64))
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidParameter("post-processing needs a non-empty list of finite numbers")
    return array
