"""Recomputation of estimates in exact fractions, from the reports themselves and without the code that counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.randomness import WORD

if TYPE_CHECKING:
    from hubbub.codebook import Metric

__all__ = ["estimated"]


def estimated(metric: Metric, payloads: Iterable[bytes]) -> list[float]:
    """Shares of values among these reports of k-ary or binary randomized response: (count / n - q) / (p - q)."""
    mechanism: Any = metric.mechanism
    counts = Counter(int(mechanism.decode(payload)) for payload in payloads)
    size = getattr(mechanism, "size", 2)
    p = Fraction(mechanism.keep, WORD)
    q = (1 - p) / (size - 1)
    shares = [(Fraction(counts[value], counts.total()) - q) / (p - q) for value in range(size)]
    return [float(share) for share in shares]
