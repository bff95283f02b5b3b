"""Which codebooks are in force: metrics.toml with its batch sizes filled in, and every version before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import hubbub
from hubbub.bundle import BundledCodebook
from hubbub.codebook import Codebook, Collection, Metric, decimal_text
from hubbub.problems import InvalidParameter
from hubbub_aggregator.storage import Storage, StoredCodebook

__all__ = ["Codebooks", "Governed", "smallest_batch"]

_LARGEST_MIN_BATCH = 1_000_000


@dataclass(frozen=True)
class Version:
    """One codebook and when it starts."""

    first_period: int
    codebook: Codebook

    @cached_property
    def metrics(self) -> dict[bytes, Metric]:
        return {metric.id: metric for metric in self.codebook.metrics}

    @cached_property
    def bundled(self) -> BundledCodebook:
        return BundledCodebook(self.first_period, self.codebook.compiled())


@dataclass(frozen=True, slots=True)
class Governed:
    """A metric with the collection whose rules hold for it in some period."""

    metric: Metric
    collection: Collection


class Codebooks:
    """Every version that was ever in force, oldest first. Read once; a new one comes with a restart."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._versions: list[Version] = []
        self._read()

    def _read(self) -> None:
        self._versions = [
            Version(stored.first_period, Codebook.from_compiled(stored.compiled))
            for stored in self._storage.codebooks()
        ]

    def __bool__(self) -> bool:
        return bool(self._versions)

    def __iter__(self) -> Iterator[Version]:
        return iter(self._versions)

    @property
    def newest(self) -> Codebook:
        return self._versions[-1].codebook

    @property
    def collection(self) -> Collection:
        return self.newest.collection

    @property
    def first_period(self) -> int:
        """The first period that anything was collected in."""
        return self._versions[0].first_period

    def adopt(self, written: Codebook, now: float, backfill: int = 0) -> bool:
        """Put a codebook in force, with its batch sizes filled in. Whether it is new.

        The first one starts with the present period (or `backfill` periods before), an edit with the next.
        """
        resolved = _with_batch_sizes(self._storage, written)
        compiled = resolved.to_bytes()
        current = resolved.collection.calendar.index_at(now)
        first = max(0, current - backfill)
        if self._versions:
            if self.newest.to_bytes() == compiled:
                return False
            _refuse_another_collection(self.collection, resolved.collection)
            first = max(current, self._versions[-1].first_period) + 1
        self._storage.add_codebook(StoredCodebook(first, compiled))
        self._read()
        return True

    def governing(self, metric: bytes, period: int) -> Governed | None:
        """The metric of this id by the newest codebook in force in that period."""
        for version in reversed(self._versions):
            if version.first_period <= period and metric in version.metrics:
                return Governed(version.metrics[metric], version.codebook.collection)
        return None

    def ruling(self, period: int) -> list[Collection]:
        """The collections whose rules may hold in a period: what a newer codebook dropped keeps an older one's."""
        return [v.codebook.collection for v in self._versions if v.first_period <= period] or [self.collection]

    def horizon(self, period: int) -> int:
        """When a period is over for good, by the longest rule that may hold; later periods are never over earlier."""
        bounds = self.collection.calendar.period(period)
        return max(bounds.horizon(c.grace, c.forward_horizon) for c in self.ruling(period))

    def named(self) -> dict[str, list[Metric]]:
        """Every metric by name, each id once as it was written last; the id in force now comes last."""
        latest: dict[bytes, Metric] = {}
        for version in self._versions:
            for metric in version.codebook.metrics:
                latest.pop(metric.id, None)
                latest[metric.id] = metric
        names: dict[str, list[Metric]] = {}
        for metric in latest.values():
            names.setdefault(metric.name, []).append(metric)
        return dict(sorted(names.items()))

    def bundled(self, now: float) -> list[BundledCodebook]:
        """The versions that devices and shufflers still need: each until the last period it ruled is over."""
        kept: list[BundledCodebook] = []
        for index, version in enumerate(self._versions):
            if index + 1 < len(self._versions):
                c = version.codebook.collection
                last = c.calendar.period(self._versions[index + 1].first_period - 1)
                if last.horizon(c.grace, c.forward_horizon) <= now:
                    continue
            kept.append(version.bundled)
        return kept


def smallest_batch(storage: Storage, metric: Metric, collection: Collection) -> int:
    """Fewest reports whose honest part meets the release target. Computed once, then remembered."""
    question = " ".join(
        [
            "min_batch",
            metric.mechanism.fingerprint.hex(),
            decimal_text(collection.release_epsilon),
            decimal_text(collection.release_delta),
            decimal_text(collection.honest_fraction),
            hubbub.__version__,
        ]
    )
    known = storage.remembered(question)
    if known is not None:
        return known
    from hubbub.accounting.plan import min_batch

    computed = replace(metric, min_batch=None)
    found = min_batch(computed, Codebook(collection, (computed,)))
    storage.remember(question, found)
    return found


def _with_batch_sizes(storage: Storage, codebook: Codebook) -> Codebook:
    collection = codebook.collection

    def sized(metric: Metric) -> Metric:
        try:
            computed = smallest_batch(storage, metric, collection)
        except InvalidParameter as error:
            raise InvalidParameter(f"metrics.{metric.name}: {error}") from error
        if computed > _LARGEST_MIN_BATCH:
            raise InvalidParameter(
                f"metrics.{metric.name}: a release that meets epsilon {decimal_text(collection.release_epsilon)} needs "
                f"{computed:,} reports, more than the {_LARGEST_MIN_BATCH:,} a batch holds: lower the metric's epsilon "
                "or raise the release's"
            )
        return replace(metric, min_batch=max(computed, metric.min_batch or 0))

    # what the file says may raise the number, never lower it
    return replace(codebook, metrics=tuple(sized(metric) for metric in codebook.metrics))


def _refuse_another_collection(old: Collection, new: Collection) -> None:
    if (old.name, old.calendar) != (new.name, new.calendar):
        raise InvalidParameter(
            f"this state directory holds the collection {old.name!r} with periods of {old.calendar}, the codebook is "
            f"{new.name!r} with {new.calendar}: use another state directory for it"
        )
