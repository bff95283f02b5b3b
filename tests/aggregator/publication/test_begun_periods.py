"""Begun periods: what was published for them never changes, through restarts, restores and edits of the codebook.

A shuffler refuses a bundle that breaks this, and goes on with the one it has: a mistake here stops the collection.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import verify
from hubbub.bundle_body import Body, MetricHeader, SealingKey
from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.publication.bundles import Publisher
from hubbub_aggregator.publication.codebook_versions import Codebooks
from hubbub_aggregator.publication.keys import KeyRing
from hubbub_aggregator.storage import SqliteStorage
from tests.aggregator.world import CODEBOOK, DAY, START

MAX_AGE = 3600
WRITTEN = CODEBOOK.replace('period = "1d"\ngrace = "1d"', 'period = "1h"\ngrace = "3h"')
OFF = 'type = "boolean"\nenabled = false'
TEXTS = [
    WRITTEN,
    WRITTEN.replace("epsilon = 2.0", "epsilon = 1.5"),
    WRITTEN.replace('type = "boolean"', OFF),
    WRITTEN.replace("epsilon = 1.0", "epsilon = 0.5", 1).replace('type = "boolean"', OFF),
    WRITTEN.replace('grace = "3h"', 'grace = "4h"').replace("[metrics.theme]", "[metrics.look]"),
]


def headers(body: Body, period: int) -> set[MetricHeader]:
    """What a period's metrics are, but for whether they are switched on."""
    codebook = body.in_force(period)
    return set() if codebook is None else {replace(metric, enabled=True) for metric in codebook.metrics}


def sealing(body: Body, period: int) -> tuple[SealingKey | None, set[int]]:
    """The key that seals a period, and the revoked ones that did."""
    return body.key_for(period), {key.id for key in body.keys if key.covers(period) and key.state == "revoked"}


def refuse_if_changed(before: Body, after: Body, now: float) -> None:
    """As a shuffler that holds `before` would at this time."""
    calendar = before.codebooks[0].metrics[0].calendar
    for period in range(calendar.index_at(now) - 5, calendar.index_at(now) + 1):
        grace = max((metric.grace for metric in headers(before, period)), default=0)
        if calendar.period(period).closes_at(grace) <= now:
            continue
        assert headers(after, period) == headers(before, period) or not headers(before, period)
        (old, gone), (new, revoked) = sealing(before, period), sealing(after, period)
        assert gone <= revoked, "a revoked key must stay listed"
        if old is not None:
            assert (new is None and old.id in revoked) or (
                new is not None and (new.id, new.public_key) == (old.id, old.public_key)
            )
        elif gone:
            assert new is None, "a period whose key was revoked gets no other"


@dataclass
class Desk:
    """An aggregator without its service: what publishes, on a clock that the test moves."""

    path: Path
    identity: Ed25519PrivateKey
    now: float = float(START)

    def __post_init__(self) -> None:
        self.storage = SqliteStorage(self.path)
        self.storage._connection.execute("PRAGMA synchronous = OFF")  # no power cut is tested here
        self.codebooks = Codebooks(self.storage, MAX_AGE)
        self.ring = KeyRing(self.storage, self.codebooks, MAX_AGE)
        self.publisher = Publisher(self.storage, self.identity, self.codebooks, self.ring, 7 * DAY, MAX_AGE)

    def tick(self) -> Body:
        self.codebooks.refresh()
        self.ring.ensure(self.now)
        self.ring.forget(self.now)
        return verify(self.publisher.current(self.now).raw, [anchor_of(self.identity)], self.now).body

    def do_something(self, rng: random.Random, written: list[Codebook]) -> None:
        what = rng.random()
        if what < 0.01:
            self.codebooks.adopt(rng.choice(written), self.now)
        elif what < 0.05:
            with suppress(InvalidParameter):  # the same one again
                self.codebooks.publish(rng.choice(written), self.now)
        elif what < 0.09:
            live = [key.id for key in self.storage.sealing_keys() if not key.revoked]
            self.ring.revoke(rng.choice(live[-5:]), self.now)
        elif what < 0.1:
            self.ring.rotate(self.now)


@pytest.mark.everyday(1)
@pytest.mark.parametrize("seed", range(3))
def test_no_history_of_edits_and_revocations_changes_a_begun_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A shuffler asks within a cache lifetime: what it holds and what it gets then agree on every begun period."""
    monkeypatch.setattr("hubbub.accounting.min_batch_sizes.smallest_batch", lambda *_: 200)  # it takes seconds
    rng, desk = random.Random(seed), Desk(tmp_path / "state.db", Ed25519PrivateKey.generate())
    written = [Codebook.from_toml(text).with_min_batch(lambda _: 200) for text in TEXTS]
    desk.codebooks.adopt(written[0], desk.now)
    held, fetched = desk.tick(), desk.now
    codebooks, revoked = 0, set()
    while desk.now < START + 2 * DAY:
        desk.now = min(desk.now + rng.choice([1, 600, 3600]), fetched + MAX_AGE)
        desk.do_something(rng, written)
        body = desk.tick()
        if desk.now >= fetched + MAX_AGE or rng.random() < 0.2:
            refuse_if_changed(held, body, desk.now)
            held, fetched = body, desk.now
            codebooks = max(codebooks, len(body.codebooks))
            revoked |= {key.id for key in body.keys if key.state == "revoked"}
    assert codebooks > 2  # there was something that could have gone wrong
    assert len(revoked) > 2
    desk.storage.close()
