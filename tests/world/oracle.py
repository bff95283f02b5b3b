"""Oracle of a world: what was sealed, sent, acknowledged and counted must agree, after each step.

A failure is raised as `Wrong`, and names one of `KINDS`. docs/reference/reliability.md describes them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hubbub.wire import BATCH_HEADER_BYTES, BatchHeader, Plaintext, ReportHeader, decode_report
from tests.world.claims import Claims

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub_aggregator.storage import Release, Storage

FLOOR = 3
"""Fewest reports that a shuffler of a world ever lets go together."""

__all__ = ["FLOOR", "KINDS", "Oracle", "Wrong"]

KINDS = {
    "lost": "an acknowledged report is neither counted nor in a recorded discard or refusal",
    "doubled": "a report is counted twice",
    "phantom": "a report is counted that nobody sealed for this metric and period",
    "changed": "a release changed, or vanished",
    "undersized": "a release has fewer distinct valid reports than the metric's minimum or the release target needs",
    "unrecorded": "a shuffler's counts do not say what became of every report that it took",
    "drawn-twice": "a device sent two different draws for one metric and period",
    "twins": "the headers of two devices differ that only recorded other values",
    "device-ledger": "a device's account states less than was spent",
    "ledger": "the aggregator opened a batch, and its ledger does not say so",
    "estimate": "a tally is not the sum of the reports that it counts",
    "split": "a shuffler took reports of one metric and period under two ids or two keys",
    "batch-id": "a report left a shuffler's storage under two batch ids",
    "fence": "a worker changed a batch whose lease had gone to another one",
    "no-key": "an open period has no key",
    "unsettled": "something is on its way long after the faults",
    "busy": "a service goes round in circles: thousands of steps, and no time passes",
    "died": "a worker of a service ended with an error that is not its storage's",
}


class Wrong(AssertionError):
    """A property does not hold."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind


class Sealing(NamedTuple):
    """What is inside a sealed report."""

    header: ReportHeader
    nonce: bytes
    payload: bytes


@dataclass
class Forwarded:
    """A batch as it was sent to the aggregator."""

    group: str
    header: BatchHeader
    sealed: frozenset[bytes]
    body: bytes


@dataclass
class Oracle:
    """What is known of one history so far."""

    metrics: dict[bytes, Metric] = field(default_factory=dict)
    """By id, in all codebooks of the world."""
    least: dict[bytes, int] = field(default_factory=dict)
    """Fewest distinct valid reports in a release: the declared minimum, and what the target needs."""
    contents: dict[bytes, Sealing] = field(default_factory=dict)
    """By sealed part."""
    sealed_nonces: set[tuple[bytes, int, bytes]] = field(default_factory=set)
    acknowledged: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """By group of shufflers, whole reports."""
    taken: dict[str, dict[tuple[str, int], set[tuple[bytes, int]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )
    """By group, metric name and period: under which ids and keys reports were taken."""
    drawn: dict[tuple[str, str, int], tuple[bytes, bytes]] = field(default_factory=dict)
    """By device, metric name and period: what it sent."""
    spent: Counter[str] = field(default_factory=Counter)
    """By device: epsilon of what it sent, in thousandths."""
    forwarded: dict[bytes, Forwarded] = field(default_factory=dict)
    left_under: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    """By group and sealed report: the batch in which it left."""
    releases: dict[bytes, Release] = field(default_factory=dict)
    counted: dict[tuple[bytes, int], dict[bytes, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """By metric id and period: each nonce, and the batch that counts it."""
    opened: set[tuple[bytes, int]] = field(default_factory=set)
    opened_batches: set[bytes] = field(default_factory=set)
    revoked: set[int] = field(default_factory=set)
    switched: set[str] = field(default_factory=set)
    """Names of metrics that an operator has ever switched off."""
    discarded: set[tuple[str, tuple[bytes, int, int]]] = field(default_factory=set)
    """By group: buckets that a shuffler says it discarded."""
    forgiven: set[bytes] = field(default_factory=set)
    """Nonces that a restore of a backup, or torn pages, may lose: no promise covers them."""
    junk: set[bytes] = field(default_factory=set)
    """Nonces inside hostile reports that must not count."""
    went_back: bool = False
    """Whether an aggregator was ever restored from a backup."""
    claims: Claims = field(default_factory=Claims)
    is_over: Callable[[int], bool] = lambda _period: False
    """Whether a period's horizon is past, in true time."""
    clocks_moved: bool = False
    """Whether a clock was ever set."""
    torn: set[str] = field(default_factory=set)
    """Groups of shufflers whose file lost a page."""
    journal: list[tuple[ReportHeader, bytes, bytes]] = field(default_factory=list)
    """What was sealed, for a forked child to tell its parent."""

    # -- what happens

    def learn(self, metric: Metric, least: int) -> None:
        self.metrics[metric.id], self.least[metric.id] = metric, least

    def sealed(self, header: ReportHeader, plaintext: bytes, sealed: bytes) -> None:
        self.journal.append((header, plaintext, sealed))
        found = Plaintext.decode(plaintext)
        self.contents[sealed] = Sealing(header, found.nonce, found.payload)
        if found.period == header.period:
            self.sealed_nonces.add((header.metric, header.period, found.nonce))

    def leaves_device(self, device: str, reports: Iterable[bytes]) -> None:
        """A device sends these, whatever comes of it."""
        for report in reports:
            header, sealed = decode_report(report)
            found = self.contents.get(sealed)
            if found is None:
                raise Wrong("phantom", f"{device} sent what it had not sealed")
            metric = self.metrics[header.metric]
            key = device, metric.name, header.period
            draw = found.nonce, found.payload
            known = self.drawn.setdefault(key, draw)
            if known != draw:
                raise Wrong("drawn-twice", f"{device} drew {metric.name} of period {header.period} twice")

    def acknowledges(self, group: str, reports: Iterable[bytes]) -> None:
        """A shuffler of this group has answered that these are durable, and the sender heard it."""
        for report in reports:
            header, sealed = decode_report(report)
            self.acknowledged[group].add(report)
            metric = self.metrics.get(header.metric)
            if metric is not None and sealed in self.contents:
                under = self.taken[group][metric.name, header.period]
                under.add((header.metric, header.key))
                ids, keys = {id_ for id_, _ in under}, {key for _, key in under} - self.revoked
                if len(ids) > 1 or len(keys) > 1:
                    raise Wrong("split", f"{metric.name} of period {header.period} is taken under {sorted(under)}")

    def forwards(self, group: str, batch: bytes, body: bytes) -> None:
        try:
            header = BatchHeader.decode(body)
        except ValueError:
            return
        if header.kind == "discard":
            self._discards(group, (header.metric, header.period, header.key))
        rest = body[BATCH_HEADER_BYTES:]
        if len(rest) != header.body_bytes:
            return
        sealed = frozenset(rest[at : at + header.size] for at in range(0, len(rest), header.size or 1))
        known = self.forwarded.get(batch)
        if known is not None and (known.header, known.sealed) != (header, sealed):
            raise Wrong("changed", f"batch {batch.hex()} is sent with another content")
        self.forwarded[batch] = Forwarded(group, header, sealed, body)
        for one in sealed if group not in self.torn else ():
            if self.left_under.setdefault((group, one), batch) != batch:
                raise Wrong(
                    "batch-id", f"batch {batch.hex()} has a report of batch {self.left_under[group, one].hex()}"
                )

    def _discards(self, group: str, bucket: tuple[bytes, int, int]) -> None:
        """A shuffler says that it discarded a bucket: only if the crowd is too small, or is not wanted any more."""
        self.discarded.add((group, bucket))
        id_, period, key = bucket
        taken = sum(
            (header.metric, header.period, header.key) == bucket
            for header, _ in map(decode_report, self.acknowledged[group])
        )
        metric = self.metrics[id_]
        excused = key in self.revoked or metric.name in self.switched or group in self.torn
        if taken >= max(metric.min_batch or 0, FLOOR) and not excused:
            raise Wrong("lost", f"{group} discarded {taken} reports of {metric.name} of period {period}")

    def corrupted(self, batch: bytes, place: int) -> None:
        """A batch was changed at this byte between the services: the report there opens no more. With another header it
        is another batch, and the aggregator, which has that one, takes no other under its id."""
        sent = self.forwarded.get(batch)
        if sent is None:
            return
        hit = sent.body[BATCH_HEADER_BYTES:] if place >= BATCH_HEADER_BYTES else b""
        at = (place - BATCH_HEADER_BYTES) // (sent.header.size or 1) * sent.header.size
        lost = {hit[at : at + sent.header.size]} if hit else sent.sealed
        self.forgiven |= {self.contents[one].nonce for one in lost if one in self.contents}

    def opens(self, part: Any) -> None:
        """A worker of an aggregator opens these reports."""
        with part.path.open("rb") as file:
            first = file.read(part.header.size)
        for id_, batch in self.forwarded.items():
            if batch.header == part.header and first in batch.sealed:
                self.opened_batches.add(id_)

    # -- what must hold after each step

    def look(self, storage: Storage) -> None:
        """Every release of an aggregator's storage: new ones are recomputed, known ones must be the same."""
        found = {release.id: release for release in storage.releases()}
        for id_, known in self.releases.items():
            if found.get(id_) != known:
                raise Wrong("changed", f"release {id_.hex()} of {self.metrics[known.metric].name}")
        for id_, release in found.items():
            if id_ not in self.releases:
                self._take(storage, release)

    def _take(self, storage: Storage, release: Release) -> None:
        metric = self.metrics[release.metric]
        record = json.loads(release.record)
        pair = release.metric, release.period
        where = f"{metric.name} of period {release.period}"
        marks = [mark for mark in storage.accepted(*pair) if mark.startswith(release.id)]
        raw = b"".join(storage.nonces(*pair, mark) for mark in marks[:1])
        nonces = [raw[at : at + 16] for at in range(0, len(raw), 16)]
        self.releases[release.id] = release
        if not nonces:
            if record["valid"] and not self.is_over(release.period) and not self.clocks_moved:
                raise Wrong("estimate", f"{where}: {record['valid']} reports are said to be valid, none is remembered")
            return  # erased already
        if len(set(nonces)) != len(nonces):
            raise Wrong("doubled", f"{where}: a nonce twice in one batch")
        for nonce in nonces:
            if nonce in self.counted[pair]:
                raise Wrong("doubled", f"{where}: a nonce in two batches")
            if (*pair, nonce) not in self.sealed_nonces or nonce in self.junk:
                raise Wrong("phantom", f"{where}: a nonce that nobody sealed for it")
            self.counted[pair][nonce] = release.id
        if record["valid"] != len(nonces):
            raise Wrong(
                "estimate", f"{where}: {record['valid']} reports are said to be valid, {len(nonces)} are counted"
            )
        if len(nonces) < self.least[release.metric]:
            raise Wrong("undersized", f"{where}: {len(nonces)} of at least {self.least[release.metric]}")
        self._recompute(release, set(nonces), where)

    def _recompute(self, release: Release, nonces: set[bytes], where: str) -> None:
        """The tally from what was sealed, without the code that counts."""
        mechanism = self.metrics[release.metric].mechanism
        payloads = self.payloads(release.metric, release.period, nonces)
        reports = [mechanism.decode(payloads[nonce]) for nonce in sorted(nonces)]
        if mechanism.tally(np.array(reports)).to_bytes() != release.tally:
            raise Wrong("estimate", f"{where}: the tally is not the sum of its {len(reports)} reports")

    def payloads(self, metric: bytes, period: int, nonces: set[bytes]) -> dict[bytes, bytes]:
        """By nonce, what was inside the reports of a metric and period."""
        return {
            each.nonce: each.payload
            for each in self.contents.values()
            if each.nonce in nonces and (each.header.metric, each.header.period) == (metric, period)
        }

    # -- what no promise covers

    def restored(self, storage: Storage) -> None:
        """An aggregator went back to a backup: what it accepted since is known to nobody."""
        self.went_back = True
        self.revoked |= {key.id for key in storage.sealing_keys() if key.revoked}  # a restore without keys revokes
        found = {release.id for release in storage.releases()}
        for id_ in set(self.releases) - found:
            gone = self.releases.pop(id_)
            pair = gone.metric, gone.period
            lost = {nonce for nonce, batch in self.counted[pair].items() if batch == id_}
            self.forgiven |= lost
            for nonce in lost:
                del self.counted[pair][nonce]
        self.opened_batches.clear()
        for sent in self.forwarded.values():
            self.forgiven |= {self.contents[one].nonce for one in sent.sealed if one in self.contents}
