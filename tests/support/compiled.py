"""Compiled codebooks for tests. Batch sizes take seconds to work out, so each is worked out once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from hubbub.accounting.min_batch_sizes import smallest_batch, with_batch_sizes
from hubbub.codebook import Codebook, Collection, Metric

__all__ = ["compiled", "write_compiled"]


@lru_cache(maxsize=1_000)
def _smallest(metric: bytes, collection: Collection) -> int:
    return smallest_batch(_METRICS[metric], collection)


_METRICS: dict[bytes, Metric] = {}


def compiled(text: str) -> Codebook:
    """The codebook that `hubbub codebook compile` makes of this metrics.toml."""

    def smallest(metric: Metric, collection: Collection) -> int:
        _METRICS[metric.mechanism.fingerprint] = metric
        return _smallest(metric.mechanism.fingerprint, collection)

    return with_batch_sizes(Codebook.from_toml(text), smallest=smallest)


def write_compiled(path: Path, text: str) -> Path:
    """The same in a file, which this returns."""
    path.write_bytes(compiled(text).to_bytes())
    return path
