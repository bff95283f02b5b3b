"""Blobs: the reports of one group commit for one bucket, shuffled, in as few pieces as possible."""

from __future__ import annotations

from collections.abc import Iterator

from hubbub_shuffler.batching.permute import Entropy, shuffled
from hubbub_shuffler.storage.protocol import Arrivals

__all__ = ["blobs"]


def blobs(arrivals: Arrivals, entropy: Entropy, largest: int) -> Iterator[bytes]:
    """The reports in random order, joined. No blob is larger than `largest` unless a single report is."""
    sealed = shuffled(arrivals.sealed, entropy)
    step = max(1, largest // arrivals.terms.size)
    for at in range(0, len(sealed), step):
        yield b"".join(sealed[at : at + step])
