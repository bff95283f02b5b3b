"""A simulated crowd: releases as the accumulator writes them, without sealing a report.

Each device's value goes through the real mechanism with seeded randomness, its guarantee comes from the accountant,
and storage takes it as it takes every batch: all routes then answer as after a year of real collection.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.simulation import InsecureBulkRandomness
from hubbub.wire import BatchHeader
from hubbub_aggregator.intake.batch_guarantee import Promise, promise_of
from hubbub_aggregator.intake.batch_record import release_record
from hubbub_aggregator.storage import Accepted, Batch, SqliteStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hubbub_aggregator.publication.codebook_versions import Codebooks, Governed
    from hubbub_aggregator.storage import Storage

__all__ = ["Crowd"]

_SEALING = 68
"""Bytes that sealing adds to a payload."""


@dataclass
class Crowd:
    """Devices of one collection, and the shuffler that brings their batches."""

    storage: Storage
    codebooks: Codebooks
    seed: int = 1
    rng: np.random.Generator = field(init=False)
    _sent: int = 0
    _known: dict[tuple[bytes, int, int], Promise] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        if isinstance(self.storage, SqliteStorage):
            # what is made up need not survive a power cut: a year is written in seconds
            self.storage._connection.execute("PRAGMA synchronous = OFF")

    def governed(self, name: str, period: int) -> Governed:
        """The metric that this name means in a period."""
        ids = (metric.id for metric in reversed(self.codebooks.named()[name]))
        return next(found for id in ids if (found := self.codebooks.governing(id, period)) is not None)  # noqa: A001  it is an id

    def shares(self, name: str, period: int, shares: NDArray[Any], reports: int, **batch: Any) -> bytes:
        """A release of a boolean or a list, whose values devices hold with these shares."""
        counts = self.rng.multinomial(reports, np.asarray(shares) / np.sum(shares))
        return self.release(name, period, np.arange(len(counts)), counts, **batch)

    def numbers(self, name: str, period: int, mean: float, spread: float, reports: int, **batch: Any) -> bytes:
        """A release of a bounded number around this mean."""
        bounds: Any = self.governed(name, period).metric.mechanism.domain
        values = self.rng.normal(mean, spread, reports).clip(float(bounds.lower), float(bounds.upper))
        return self.release(name, period, values, np.ones(reports, np.int64), **batch)

    def release(
        self,
        name: str,
        period: int,
        values: NDArray[Any],
        counts: NDArray[np.int64],
        invalid: Mapping[str, int] | None = None,
    ) -> bytes:
        """A released batch of so many devices with each value, and the reports in it that did not count."""
        found = self.governed(name, period)
        mechanism, invalid = found.metric.mechanism, dict(invalid or {})
        coin = InsecureBulkRandomness(int(self.rng.integers(2**63)))
        tally = mechanism.simulate(values, counts, coin)
        valid = tally.reports
        batch = self._batch(name, period, valid + sum(invalid.values()))
        record = release_record(batch, found, self._promise(found, batch.header, valid), invalid)
        version = len(self.storage.accepted(found.metric.id, period))
        self.storage.admit(batch)
        accepted = Accepted(valid, invalid, tally.to_bytes(), self.rng.bytes(16), record)
        assert self.storage.accept(batch.id, version, accepted) == "accepted"
        return batch.id

    def refusal(self, name: str, period: int, reason: str, reports: int, **invalid: int) -> None:
        """A batch that was refused for good."""
        batch = self._batch(name, period, reports)
        self.storage.admit(batch)
        self.storage.refuse(batch.id, reason, reports - sum(invalid.values()) if invalid else None, invalid)

    def discard(self, name: str, period: int, reason: str | None = None) -> None:
        """A bucket that the shuffler gave up: it never had enough reports, unless there is a reason."""
        header = BatchHeader(self.governed(name, period).metric.id, period, 0, kind="discard")
        self.storage.admit(
            Batch(self._id(), header, hashlib.sha256(header.encode()).digest(), "accepted", None, reason)
        )

    def _batch(self, name: str, period: int, count: int) -> Batch:
        metric = self.governed(name, period).metric
        header = BatchHeader(metric.id, period, 0, count, _SEALING + metric.mechanism.report_bytes)
        return Batch(self._id(), header, hashlib.sha256(header.encode()).digest(), "pending")

    def _id(self) -> bytes:
        self._sent += 1
        return hashlib.sha256(f"{self.seed} {self._sent}".encode()).digest()[:16]

    def _promise(self, found: Governed, header: BatchHeader, valid: int) -> Promise:
        key = (found.metric.id, header.count, valid)
        if key not in self._known:
            self._known[key] = promise_of(self.storage, found, header, valid)
        return self._known[key]
