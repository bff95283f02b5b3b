r"""What people are shown of an estimate: its value and its limits, clipped together to what is possible.

A raw estimate is unbiased, so it may lie outside what is possible: a share below 0, or a mean above its bounds. Raw
numbers are for arithmetic. People are shown, for an estimate e with limits l <= e <= h, where every truth lies in
[A, B], the value v = clip(e) and

    low  = clip(l), or if e is beyond B at most B - (e - l) / 2
    high = clip(h), or if e is below A  at least A + (h - e) / 2

where clip(x) is the point of [A, B] nearest to x. Shown limits are the raw ones wherever those are possible. Only if an
estimate is so far outside that clipping leaves less than half of the arm that reaches inwards, half of that arm stays.
Otherwise an interval that lies wholly below 0 would be shown as [0, 0], which reads as certainty, although it says only
that the noise was large. Three promises follow from l <= e <= h:

    low <= v <= high, all in [A, B]: clip keeps the order, and the other terms only widen.
    Coverage is at least that of [l, h]: a possible truth t in [l, h] equals clip(t), so clip(l) <= t <= clip(h), and
    [low, high] contains [clip(l), clip(h)].
    If l < h and A < B, then low < high: for e below A, high >= A + (h - e)/2; for e in (A, B), the end of [l, h] that
    differs from e stays different from v when it is clipped. An e on an end of [A, B], from which the interval reaches
    only outwards, and an e outside that is its own inner limit, have no arm inwards: they get the other arm's length.

A value that was changed on purpose (`postprocess`) may lie outside its interval. The interval then reaches to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Shown", "clipped", "clipped_limits"]


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Values for people, each within its limits, and all of them possible."""

    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def clipped(
    estimates: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    possible: tuple[float, float],
    values: ArrayLike | None = None,
) -> Shown:
    """Estimates and limits clipped together. `values`, if given, are shown instead of the clipped estimates."""
    import numpy as np

    least, most = possible
    if not least <= most:
        raise InvalidParameter(f"the possible values must be given from low to high, got [{least}, {most}]")
    raw, under, over = (np.asarray(numbers, np.float64) for numbers in (estimates, low, high))
    # an arm of no length would leave none of the interval
    up, down = over - raw, raw - under
    up, down = np.where(up > 0, up, down), np.where(down > 0, down, up)
    outside_below = (raw < least) | ((raw == least) & (over <= least))
    outside_above = (raw > most) | ((raw == most) & (under >= most))
    bottom, top = np.clip(under, least, most), np.clip(over, least, most)
    top = np.where(outside_below, np.clip(np.maximum(top, least + up / 2), least, most), top)
    bottom = np.where(outside_above, np.clip(np.minimum(bottom, most - down / 2), least, most), bottom)
    value = np.clip(raw if values is None else np.asarray(values, np.float64), least, most)
    return Shown(value, np.minimum(bottom, value), np.maximum(top, value))


def clipped_limits(
    estimate: float, low: float | None, high: float | None, possible: tuple[float, float]
) -> tuple[float, float | None, float | None]:
    """One estimate and its limits clipped together. Without both limits only the estimate is."""
    if low is None or high is None:
        return min(max(estimate, possible[0]), possible[1]), low, high
    found = clipped(estimate, low, high, possible)
    return float(found.values), float(found.low), float(found.high)
