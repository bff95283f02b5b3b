"""The codebooks in force: each as it was compiled, byte for byte, and every version before it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import hubbub
from hubbub.bundle import BundledCodebook
from hubbub.codebook import Codebook, Collection, Metric, decimal_text
from hubbub.errors import InvalidParameter, did_you_mean
from hubbub.period import LARGEST_INDEX, Period
from hubbub_aggregator.publication.collection_end import LastPeriods, stop_page
from hubbub_aggregator.publication.lead_time import CACHE_LIFETIMES, soonest
from hubbub_aggregator.storage import Storage, StoredCodebook
from hubbub_service_common.clock.trusted_clock import LONGEST_WAIT

__all__ = ["Codebooks", "Governed", "Version", "required_batch"]

_LOG = logging.getLogger("hubbub_aggregator")

_ATTEMPTS = 10
_HEAD_START = 600.0
"""Seconds by which a shuffler on the same machine may start later, and need longer to forward all it has."""


@dataclass(frozen=True)
class Version:
    """One codebook and when it starts."""

    first_period: int
    codebook: Codebook
    last_period: int | None = None
    """Where a total ends it. None: it goes on until another one begins."""

    def covers(self, period: int) -> bool:
        """Whether its rules may hold in a period, if no later version's do."""
        return self.first_period <= period and (self.last_period is None or period <= self.last_period)

    @property
    def is_counted(self) -> bool:
        """Whether a total rests on what this version may release, its own or that of an earlier one."""
        return self.last_period is not None or self.codebook.collection.total is not None

    @cached_property
    def metrics(self) -> dict[bytes, Metric]:
        return {metric.id: metric for metric in self.codebook.metrics}

    @cached_property
    def bundled(self) -> BundledCodebook:
        """The codebook as devices get it."""
        return BundledCodebook(self.first_period, self.codebook.compiled())


@dataclass(frozen=True, slots=True)
class Governed:
    """A metric with the collection whose rules hold for it in some period."""

    metric: Metric
    collection: Collection


class Codebooks:
    """Every version that was ever in force, oldest first. `refresh` reads what a command or another process added.

    `max_age`: seconds for which a bundle is cached; an edit is published twice that time ahead.
    """

    def __init__(self, storage: Storage, max_age: int = 0) -> None:
        self._storage, self._max_age = storage, max_age
        self._ends = LastPeriods(storage)
        self._versions: list[Version] = []
        self._read()

    def _read(self) -> None:
        begun = [(one.first_period, Codebook.from_compiled(one.compiled)) for one in self._storage.codebooks()]
        ends = self._ends.of(begun)
        self._versions = [Version(*one, last) for one, last in zip(begun, ends, strict=True)]

    def refresh(self) -> bool:
        """Read the codebooks again if one is not known here. Returns whether there was one."""
        if self._storage.starts() == [version.first_period for version in self._versions]:
            return False
        self._read()
        return True

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
        """Put a compiled codebook in force that is new here. Whether it was.

        The first codebook starts with the present period (or `backfill` periods before), an edit as `soonest` says. If
        this one was in force before, nothing changes: a process that starts with an old file must not undo what was
        published.
        """
        compiled = written.to_bytes()
        if compiled not in self._compiled():
            self._refuse_small_batches(written)
        for _ in range(_ATTEMPTS):
            self.refresh()
            known = self._compiled()
            if compiled in known:
                if compiled != known[-1]:
                    _LOG.warning("the codebook given at the start is an older one: what was published stays in force")
                return False
            current = written.collection.calendar.index_at(now)
            edited = bool(self._versions)
            first = self.soonest(written.collection, now) if edited else max(0, current - backfill)
            self._ends.settle(self._begun, written, first)
            if self._storage.add_codebook(StoredCodebook(first, compiled)):
                self._read()
                if edited:
                    label = written.collection.calendar.period(first).label
                    _LOG.warning("the codebook was edited: the new one is in force from the period %s on", label)
                return True
        raise InvalidParameter("other processes are putting codebooks in force right now: try again")

    def knows(self, written: Codebook) -> bool:
        """Whether this codebook is in force, or was."""
        self.refresh()
        return written.to_bytes() in self._compiled()

    def to_come(self, now: float) -> Period | None:
        """The first period of the only codebook, if it is still to come. Nothing is collected before it.

        Either the codebook was put in force under a clock that was ahead, or this clock is behind.
        """
        calendar = self.collection.calendar
        late = len(self._versions) == 1 and self.first_period > calendar.index_at(now)
        return calendar.period(self.first_period) if late else None

    def start_now(self, now: float, backfill: int = 0) -> bool:
        """Let the only codebook start as if it were put in force now. False if a batch confirms the start it has."""
        if self._storage.tallied():
            return False
        first = max(0, self.collection.calendar.index_at(now) - backfill)
        moved = self._storage.move_codebook(self.first_period, first)
        self._read()
        return moved

    def publish(self, written: Codebook, now: float, start: int | None = None) -> Version:
        """Put a compiled codebook in force from period `start` on, or as soon as that can be, also one that was
        before."""
        self.refresh()
        if self.newest.to_bytes() == written.to_bytes() and self._versions[-1].last_period is None:
            raise InvalidParameter("this codebook is the newest one already; nothing was changed")
        self._refuse_small_batches(written)
        soonest = self.soonest(written.collection, now)
        first = soonest if start is None else start
        if first < soonest:
            label = written.collection.calendar.period(soonest).label
            raise InvalidParameter(
                "a codebook must start with a period that has not begun, two cache lifetimes of the bundle ahead and "
                f"after the codebook before it: {label} is the first possible"
            )
        self._ends.settle(self._begun, written, first)
        if not self._storage.add_codebook(StoredCodebook(first, written.to_bytes())):
            raise InvalidParameter("another codebook came in between, and nothing was changed: try again")
        self._read()
        return self._versions[-1]

    def soonest(self, edited: Collection, now: float) -> int:
        """The first period that an edit may start with: after the newest version, and two cache lifetimes ahead."""
        _refuse_another_collection(self.collection, edited)
        return max(soonest(self._storage, edited.calendar, now, self._max_age), self._versions[-1].first_period + 1)

    def governing(self, metric: bytes, period: int) -> Governed | None:
        """The metric of this id by the newest codebook in force in that period."""
        return self._governing(metric, period) or (self._governing(metric, period) if self.refresh() else None)

    def _governing(self, metric: bytes, period: int) -> Governed | None:
        begun = [version for version in reversed(self._versions) if version.first_period <= period]
        for version in begun:
            # what a total counts is what its own page may release in its own periods, and nothing beside it
            is_own = version is begun[0] or not version.is_counted
            if is_own and version.covers(period) and metric in version.metrics:
                return Governed(version.metrics[metric], version.codebook.collection)
            if version.is_counted:
                break
        return None

    def closed(self) -> list[tuple[int, int]]:
        """The stretches of periods, as (first, last), in which a total lets nothing be collected."""
        starts = [version.first_period for version in self._versions[1:]] + [LARGEST_INDEX + 1]
        return [
            (version.last_period + 1, start - 1)
            for version, start in zip(self._versions, starts, strict=True)
            if version.last_period is not None and version.last_period + 1 < start
        ]

    def ruling(self, period: int) -> list[Collection]:
        """The collections whose rules may hold in a period: a metric that a newer codebook drops keeps the old ones."""
        return [v.codebook.collection for v in self._versions if v.first_period <= period] or [self.collection]

    @property
    def wait(self) -> float:
        """Seconds for which a clock must run undisputed before it is trusted: an hour, or the shortest horizon."""
        return min([LONGEST_WAIT, *(float(version.codebook.collection.forward_horizon) for version in self)])

    @property
    def erase_after(self) -> float:
        """Seconds for which something must have been due before it is erased, or refused as too late.

        Longer than the wait: a shuffler that was off together with the aggregator closes no bucket before its own wait
        is over, and the reports that it forwards then were acknowledged. It gets the same time again for that, and some
        minutes.
        """
        return 2 * self.wait + min(self.wait, _HEAD_START)

    @property
    def longest(self) -> int:
        """Seconds from the end of a period to its horizon, by the longest rule that was ever in force."""
        return max(c.grace + c.forward_horizon for c in (version.codebook.collection for version in self))

    def why_closed(self, now: float) -> str | None:
        """A warning while a total lets nothing be collected, or None."""
        calendar = self.collection.calendar
        present = calendar.index_at(now)
        for first, last in self.closed():
            if first <= present <= last:
                until = f"until {calendar.period(last + 1).label}" if last < LARGEST_INDEX else "until one is published"
                return (
                    f"nothing is collected since {calendar.period(first).label}: that was as much as the total of the "
                    f"codebook allows. It goes on with the next codebook, {until} (`hubbub codebook publish`)"
                )
        return None

    def horizon(self, period: int) -> int:
        """When a period is over for good, by the longest rule that may hold. A later period is never over earlier."""
        bounds = self.collection.calendar.period(period)
        return max(bounds.horizon(c.grace, c.forward_horizon) for c in self.ruling(period))

    def named(self) -> dict[str, list[Metric]]:
        """Every metric by name, each id once, as it was last written; the id in force now comes last.

        The newest codebook's metrics come first, as its file lists them, then those of earlier ones by name.
        """
        latest: dict[bytes, Metric] = {}
        for version in self._versions:
            for metric in version.codebook.metrics:
                latest.pop(metric.id, None)
                latest[metric.id] = metric
        names: dict[str, list[Metric]] = {}
        for metric in latest.values():
            names.setdefault(metric.name, []).append(metric)
        listed = [metric.name for metric in self.newest.in_file_order]
        return {name: names[name] for name in (*listed, *sorted(names.keys() - set(listed)))}

    def bundled(self, now: float) -> list[BundledCodebook]:
        """The versions that devices and shufflers still need: each until the last period it ruled is over."""
        kept: list[BundledCodebook] = []
        versions = self._versions
        for index, version in enumerate(versions):
            if index + 1 < len(versions):
                c = version.codebook.collection
                last = c.calendar.period(versions[index + 1].first_period - 1)
                if last.horizon(c.grace, c.forward_horizon) <= now:
                    continue
            kept.append(version.bundled)
            following = versions[index + 1].first_period if index + 1 < len(versions) else LARGEST_INDEX + 1
            if version.last_period is not None and version.last_period + 1 < following:
                kept.append(stop_page(version.codebook, version.last_period + 1))
        return kept

    def off(self, now: float) -> frozenset[str]:
        """Names of the metrics that are switched off: by a command, or by the codebook in force or one that is still to
        come, which then does not wait for its first period.

        One that switches a metric on again counts from two cache lifetimes before its first period on: every device
        knows by then.
        """
        ahead = self.collection.calendar.index_at(now + CACHE_LIFETIMES * self._max_age)
        first = max((i for i, version in enumerate(self._versions) if version.first_period <= ahead), default=0)
        metrics = (metric for version in self._versions[first:] for metric in version.codebook.metrics)
        return self._storage.switched_off() | {metric.name for metric in metrics if not metric.enabled}

    def ids_off(self, now: float) -> frozenset[bytes]:
        """The ids that a bundle switches off: in every version, by name."""
        off = self.off(now)
        metrics = (metric for version in self._versions for metric in version.codebook.metrics)
        return frozenset(metric.id for metric in metrics if metric.enabled and metric.name in off)

    def is_off(self, metric: bytes, now: float) -> bool:
        """Whether no codebook collects this id now."""
        off = self.off(now)
        known = [version.metrics[metric] for version in self._versions if metric in version.metrics]
        return all(not one.enabled or one.name in off for one in known)

    def switch(self, name: str, *, off: bool) -> bool:
        """Switch a metric off or on again by its name, at once. Whether that changed anything."""
        if name not in (names := self.named()):
            near = did_you_mean(name, names) or f"the codebook in force has {', '.join(names)}"
            raise InvalidParameter(f"no metric is named {name!r}", near)
        if not off and not self.newest.metric(name).enabled:
            raise InvalidParameter(
                f"the newest codebook itself switches {name} off", "publish one without enabled = false"
            )
        if (name in self._storage.switched_off()) is off:
            return False
        self._storage.switch(name, off=off)
        return True

    @property
    def _begun(self) -> list[tuple[int, Codebook]]:
        return [(version.first_period, version.codebook) for version in self._versions]

    def _compiled(self) -> list[bytes]:
        return [version.codebook.to_bytes() for version in self._versions]

    def _refuse_small_batches(self, codebook: Codebook) -> None:
        """A codebook that was compiled elsewhere, or by another version, may ask for too small a crowd."""
        from hubbub.accounting.min_batch_sizes import with_batch_sizes  # loads numpy

        needed = with_batch_sizes(codebook, "the codebook", partial(required_batch, self._storage))
        for metric, sized in zip(codebook.metrics, needed.metrics, strict=True):
            if metric.min_batch != sized.min_batch:
                raise InvalidParameter(
                    f"metrics.{metric.name}: min_batch is {metric.min_batch}, and a release on target needs "
                    f"{sized.min_batch:,} reports: compile it with this version (`hubbub codebook compile`)"
                )


def required_batch(storage: Storage, metric: Metric, collection: Collection) -> int:
    """The fewest reports of a metric whose honest part meets the release target. Computed once, then remembered."""
    from hubbub.accounting.min_batch_sizes import smallest_batch  # loads numpy

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
    if known is None:
        known = smallest_batch(metric, collection)
        storage.remember(question, known)
    return known


def _refuse_another_collection(old: Collection, new: Collection) -> None:
    if (old.name, old.calendar) != (new.name, new.calendar):
        raise InvalidParameter(
            f"this state directory holds the collection {old.name!r} with periods of {old.calendar}, but the codebook "
            f"is for {new.name!r} with {new.calendar}: use another state directory for it"
        )
