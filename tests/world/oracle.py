"""Oracle of a world: what was sealed, sent, acknowledged and counted must agree, after each step.

A failure is raised as `Wrong`, and names one of `KINDS`. docs/reference/reliability.md describes them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hubbub.wire import BATCH_HEADER_BYTES, BatchHeader, Plaintext, ReportHeader, decode_report
from hubbub_aggregator.analysis.read_releases import over
from tests.world.recompute import estimated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hubbub.codebook import Metric
    from hubbub_aggregator.storage import Batch, Release, Storage
    from hubbub_shuffler.storage import Count

__all__ = ["KINDS", "Oracle", "Wrong"]

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
    "no-key": "an open period has no key",
    "unsettled": "something is on its way long after the faults",
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
    releases: dict[bytes, Release] = field(default_factory=dict)
    counted: dict[tuple[bytes, int], dict[bytes, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """By metric id and period: each nonce, and the batch that counts it."""
    opened: set[tuple[bytes, int]] = field(default_factory=set)
    opened_batches: set[bytes] = field(default_factory=set)
    revoked: set[int] = field(default_factory=set)
    forgiven: set[bytes] = field(default_factory=set)
    """Nonces that a restore of a backup, or torn pages, may lose: no promise covers them."""
    junk: set[bytes] = field(default_factory=set)
    """Nonces inside hostile reports that must not count."""
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
        rest = body[BATCH_HEADER_BYTES:]
        if len(rest) != header.body_bytes:
            return
        sealed = frozenset(rest[at : at + header.size] for at in range(0, len(rest), header.size or 1))
        known = self.forwarded.get(batch)
        if known is not None and (known.header, known.sealed) != (header, sealed):
            raise Wrong("changed", f"batch {batch.hex()} is sent with another content")
        self.forwarded[batch] = Forwarded(group, header, sealed)

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
        payloads = self._payloads(release.metric, release.period, nonces)
        reports = [mechanism.decode(payloads[nonce]) for nonce in sorted(nonces)]
        if mechanism.tally(np.array(reports)).to_bytes() != release.tally:
            raise Wrong("estimate", f"{where}: the tally is not the sum of its {len(reports)} reports")

    def _payloads(self, metric: bytes, period: int, nonces: set[bytes]) -> dict[bytes, bytes]:
        """By nonce, what was inside the reports of a metric and period."""
        return {
            each.nonce: each.payload
            for each in self.contents.values()
            if each.nonce in nonces and (each.header.metric, each.header.period) == (metric, period)
        }

    # -- what must hold in the end

    def settle(self, aggregator_batches: dict[bytes, Batch], over: Callable[[int], bool]) -> None:
        """Every acknowledged report is counted, or in a discard or refusal that is recorded."""
        discards = {
            (batch.header.metric, batch.header.period, batch.header.key)
            for batch in aggregator_batches.values()
            if batch.header.kind == "discard"
        }
        refused: dict[bytes, str] = {}
        for id_, batch in aggregator_batches.items():
            if batch.state == "refused" and id_ in self.forwarded:
                refused.update(dict.fromkeys(self.forwarded[id_].sealed, batch.reason or "?"))
        for group, reports in self.acknowledged.items():
            for report in sorted(reports):
                header, sealed = decode_report(report)
                content = self.contents.get(sealed)
                if content is None or header.metric not in self.metrics or content.nonce in self.junk:
                    continue  # junk is not promised anything
                pair = header.metric, header.period
                if content.header != header or content.nonce in self.counted[pair] or content.nonce in self.forgiven:
                    continue
                if header.key in self.revoked:
                    continue  # nobody may open it any more; the shuffler's counts say so
                if (*pair, header.key) in discards or sealed in refused or group in self.torn or over(header.period):
                    continue
                raise Wrong(
                    "lost",
                    f"{self.metrics[header.metric].name} of period {header.period}, acknowledged by {group}: "
                    "not counted, in no discard, in no refused batch",
                )

    def accounts(self, group: str, counts: Mapping[tuple[str, str], Count]) -> None:
        """Every report that a storage took is somewhere in its counts: a duplicate, discarded, or with a verdict."""
        if group in self.torn:
            return
        taken, left = Counter[str](), Counter[str]()
        for (name, what), count in counts.items():
            if what == "lost" and count.reports:
                raise Wrong("lost", f"{group} says that it lost {count.reports} reports")
            if what == "ingested":
                taken[name] += count.reports
            elif what not in {"halved", "lost"}:
                left[name] += count.reports
        if taken != left:
            raise Wrong("unrecorded", f"{group}: of {dict(taken)} reports {dict(left)} are accounted for")

    def ledger(self, storage: Storage) -> None:
        """Every batch that was opened is in the ledger, with what it cost."""
        known = {release.id for release in (*storage.releases(), *storage.expired(), *storage.opened_and_refused())}
        for id_ in self.opened_batches:
            batch = storage.batch(id_)
            if batch is not None and batch.state != "pending" and id_ not in known:
                raise Wrong("ledger", f"batch {id_.hex()} was opened, is {batch.state}, and is in no ledger")

    def estimates(self, storage: Storage) -> None:
        """What analysts are told, against a recomputation from the reports that count."""
        for (id_, period), nonces in self.counted.items():
            metric = self.metrics[id_]
            crowd = over(storage, metric, range(period, period + 1))
            if crowd is None or crowd.tally.reports != len(nonces):
                continue  # all or some of its releases were seen when their nonces were erased
            told = metric.estimate(crowd.tally).values.tolist()
            expected = estimated(metric, self._payloads(id_, period, set(nonces)).values())
            if any(abs(one - other) > 1e-9 for one, other in zip(told, expected, strict=True)):
                raise Wrong("estimate", f"{metric.name} of period {period}: {told}, by recomputation {expected}")

    def restored(self, storage: Storage) -> None:
        """An aggregator went back to a backup: what it accepted since is known to nobody."""
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
