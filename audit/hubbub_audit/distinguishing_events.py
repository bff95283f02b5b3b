"""Events that tell two inputs apart, found in one part of a sample and tested on the other.

An adversary decides by some set of reports. The best set is searched for on a *training* part, by every means: the
declared likelihood and, in case that is wrong, each report by itself, each bit of it, each pair of bits and each
threshold on it as a number. Only the best event is then counted on the rest of the sample, which had no part in its
choice: this makes one test, however many candidates there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hubbub_audit.confidence_bounds import epsilon_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Event", "Sample", "best_event", "by_bits", "by_cell", "by_number", "by_score", "halves", "lost"]

Sample: TypeAlias = "NDArray[Any]"
"""One row per observation: bytes (uint8, two axes), or scores (float, one axis)."""
TRAINING = 0.25
"""Part of a sample that is used to choose. The rest is used to test."""
_LOOSE = 1e-3
"""Level of the bounds while choosing, so that an event too rare to be tested later does not look good."""
_CUTS = 64
_MOST_CELLS = 2**16
_MOST_BITS = 256


@dataclass(frozen=True, slots=True)
class Event:
    """A set of observations, and its description."""

    what: str
    holds: Callable[[Sample], NDArray[np.bool_]]


Candidates: TypeAlias = "Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Callable[[int], Event]]]"
"""Counts of many events under each of the two inputs, and the event of each index."""
Family: TypeAlias = Callable[[Sample, Sample], Candidates]


def halves(sample: Sample) -> tuple[Sample, Sample]:
    """The part for choosing and the part for testing."""
    return _cut(sample, TRAINING)


def _cut(sample: Sample, part: float) -> tuple[Sample, Sample]:
    at = int(len(sample) * part)
    return sample[:at], sample[at:]


def best_event(first: Sample, second: Sample, families: Sequence[Family], delta: float = 0.0) -> Event | None:
    """The event that proves the largest epsilon from `first` over `second`, both training parts.

    Each family proposes its best event on one half, and the proposals are compared on the other half, so that a family
    of many sets does not win by overfitting.
    """
    if len(families) == 1:
        return _proposal(families[0], first, second, delta)
    (one, one_left), (two, two_left) = _cut(first, 0.5), _cut(second, 0.5)
    proposals = [event for family in families if (event := _proposal(family, one, two, delta))]
    return max(proposals, key=lambda event: lost(event, one_left, two_left, _LOOSE, delta), default=None)


def _proposal(family: Family, first: Sample, second: Sample, delta: float) -> Event | None:
    best, found = 0.0, None
    for hits, misses, event in family(first, second):
        proven = epsilon_below(hits, len(first), misses, len(second), _LOOSE, delta)
        if len(proven) and proven.max() > best:
            best, found = float(proven.max()), event(int(proven.argmax()))
    return found


def lost(event: Event | None, first: Sample, second: Sample, alpha: float, delta: float = 0.0) -> float:
    """The epsilon that the event proves on the testing parts; 0 without an event."""
    if event is None:
        return 0.0
    hits, misses = int(event.holds(first).sum()), int(event.holds(second).sum())
    return float(epsilon_below(hits, len(first), misses, len(second), alpha, delta))


# -- families ------------------------------------------------------------------------------------------


def by_score(first: Sample, second: Sample) -> Candidates:
    """Scores at or above, or at or below, a threshold. A score is a log likelihood ratio or any other single number."""
    cuts = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, _CUTS + 1), method="nearest"))
    for name, sign in (("at least", 1.0), ("at most", -1.0)):
        signed = np.sort(sign * cuts)
        hits = len(first) - np.searchsorted(np.sort(sign * first), signed, side="left")
        misses = len(second) - np.searchsorted(np.sort(sign * second), signed, side="left")
        yield hits, misses, _threshold_event(name, sign, signed)


def by_cell(first: Sample, second: Sample) -> Candidates:
    """The reports with the largest observed ratios, few or many of them."""
    cells, of = np.unique(np.concatenate([_packed(first), _packed(second)]), return_inverse=True)
    if not 1 < len(cells) <= min(_MOST_CELLS, len(of) // 8):
        return
    hits = np.bincount(of[: len(first)], minlength=len(cells))
    misses = np.bincount(of[len(first) :], minlength=len(cells))
    order = np.argsort(-(hits + 0.5) / (misses + 0.5), kind="stable")

    def event(index: int) -> Event:
        chosen = cells[order[: index + 1]]
        return Event(f"one of {index + 1} reports", lambda sample: np.isin(_packed(sample), chosen))

    yield np.cumsum(hits[order]), np.cumsum(misses[order]), event


def by_bits(first: Sample, second: Sample) -> Candidates:
    """Each bit, and each pair of bits, on or off."""
    one, two = _bits(first), _bits(second)
    for a in (False, True):
        yield (one == a).sum(0), (two == a).sum(0), _bit_event(a)
    width = one.shape[1]
    if not 1 < width <= _MOST_BITS:
        return
    left, right = np.triu_indices(width, 1)
    for a in (False, True):
        for b in (False, True):
            counts = [_together(bits, a, b)[left, right] for bits in (one, two)]
            yield counts[0], counts[1], _pair_event(left, right, a, b)


def by_number(first: Sample, second: Sample) -> Candidates:
    """Thresholds on the report as one big-endian number of at most eight bytes."""
    if first.shape[1] > 8:
        return
    for hits, misses, event in by_score(_number(first), _number(second)):
        yield hits, misses, _number_event(event)


def _threshold_event(name: str, sign: float, cuts: NDArray[np.float64]) -> Callable[[int], Event]:
    return lambda i: Event(f"score {name} {sign * cuts[i]:.4g}", lambda sample: sign * sample >= cuts[i])


def _number_event(inner: Callable[[int], Event]) -> Callable[[int], Event]:
    def event(index: int) -> Event:
        found = inner(index)
        return Event(found.what.replace("score", "number"), lambda sample: found.holds(_number(sample)))

    return event


def _bit_event(on: bool) -> Callable[[int], Event]:
    return lambda i: Event(f"bit {i} {'on' if on else 'off'}", lambda sample: _bits(sample)[:, i] == on)


def _pair_event(left: NDArray[Any], right: NDArray[Any], a: bool, b: bool) -> Callable[[int], Event]:
    def event(index: int) -> Event:
        i, j = int(left[index]), int(right[index])
        what = f"bit {i} {'on' if a else 'off'} and bit {j} {'on' if b else 'off'}"
        return Event(what, lambda sample: (_bits(sample)[:, i] == a) & (_bits(sample)[:, j] == b))

    return event


def _together(bits: NDArray[np.bool_], a: bool, b: bool) -> NDArray[np.int64]:
    """How often bit i is `a` while bit j is `b`."""
    product = (bits == a).astype(np.float32).T @ (bits == b).astype(np.float32)
    return np.asarray(np.rint(product), np.int64)


def _packed(sample: Sample) -> NDArray[Any]:
    return np.ascontiguousarray(sample).view(f"V{sample.shape[1]}").ravel()


def _bits(sample: Sample) -> NDArray[np.bool_]:
    return np.unpackbits(sample, axis=1).astype(np.bool_)


def _number(sample: Sample) -> NDArray[np.float64]:
    weights = 256.0 ** np.arange(sample.shape[1] - 1, -1, -1)
    return np.asarray(sample.astype(np.float64) @ weights)
