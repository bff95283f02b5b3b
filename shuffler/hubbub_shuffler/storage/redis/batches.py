"""Batches and their leases in Redis. Each step is one script in the control slot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from hubbub_service_common.redis.calls_and_scripts import Part, command
from hubbub_service_common.redis.client import RedisClient
from hubbub_shuffler.batching.permute import Entropy, stretch
from hubbub_shuffler.storage.protocol import LONGEST_PAUSE, Batch, Bucket, Claim, HeldBatch, Plan, Terms
from hubbub_shuffler.storage.redis.key_names import Keys, bucket_of, member_of
from hubbub_shuffler.storage.redis.scripts import Scripts

__all__ = ["Leases"]

_CANDIDATES = 16
_LOG = logging.getLogger("hubbub_shuffler")


class Leases:
    """Batches that are planned and not settled. No call is sent twice, except for those that only read.

    `clock`: None for the server's clock, which all processes share. If that is wrong, batches are sent again at worst.
    `lost`: called when a batch is missing.
    """

    def __init__(
        self,
        client: RedisClient,
        keys: Keys,
        scripts: Scripts,
        clock: Callable[[], float] | None,
        entropy: Entropy,
        lost: Callable[[], None],
    ) -> None:
        self._client, self._keys, self._scripts, self._clock, self._entropy = client, keys, scripts, clock, entropy
        self._lost = lost

    def _now(self) -> Part:
        return "" if self._clock is None else repr(float(self._clock()))

    def plan(self, bucket: Bucket, plan: Plan) -> bool:
        member, keys, parts, total = member_of(bucket), self._keys, len(plan.ids), plan.distinct
        sizes = [0 if plan.discard else len(range(total)[stretch(total, i, parts)]) for i in range(parts)]
        lists = (
            keys.bucket(member),
            keys.listing("closed"),
            keys.listing("spent" if plan.discard else "planned"),
            keys.due,
            keys.counts,
            *(keys.batch(id_) for id_ in plan.ids),
        )
        batches: list[Part] = [part for pair in zip(plan.ids, sizes, strict=True) for part in pair]
        seed = b"" if plan.discard else plan.seed
        call = self._scripts.plan(lists, member, seed, total, plan.duplicates, *batches)
        return self._client.run([call], again=False) == [1]

    def claim(self, lease: float) -> Claim | None:
        """Try due batches, the oldest first, until one is claimed or none is left."""
        while due := self._due():
            for id_ in due:
                if (claim := self._claim(id_, lease)) is not None:
                    return claim
        return None

    def claim_held(self, id: bytes, lease: float) -> Claim | None:  # noqa: A002  it is an id
        return self._claim(id, lease, "held")

    def _claim(self, id_: bytes, lease: float, held: str = "") -> Claim | None:
        token = self._entropy(16)
        keys = (self._keys.batch(id_), self._keys.due)
        call = self._scripts.claim(keys, self._now(), id_, token, lease, LONGEST_PAUSE, held)
        (row,) = self._client.run([call], again=False)
        if row is None:
            return None
        if row == []:
            _LOG.error("REDIS LOST DATA: batch %s is missing: see `hubbub shuffler damaged list`", id_.hex())
            self._lost()
            return None
        member, name, size, closes_at, minimum, kind, *numbers, why, until = row
        terms = Terms(name.decode(), int(size), int(closes_at), int(minimum))
        part, parts, reports, sent, attempts = map(int, numbers)
        of, why = bucket_of(member.decode()), (why or b"").decode()
        batch = Batch(id_, of, terms, kind.decode(), part, parts, reports, bool(sent), attempts, why, int(until or 0))
        return Claim(batch, token)

    def hold_back(self, claim: Claim, why: str, *, since: int, until: int, seconds: float) -> bool:
        keys = (self._keys.batch(claim.batch.id), self._keys.due)
        given = (self._now(), claim.batch.id, claim.token, seconds, why, since, until)
        return self._client.run([self._scripts.hold_back(keys, *given)], again=False) == [1]

    def held(self) -> list[HeldBatch]:
        fields = ("bucket", "name", "reports", "held", "since", "until")
        (ids,) = self._client.run([command("ZRANGE", self._keys.due, 0, -1)], write=False)
        calls = [command("HMGET", self._keys.batch(id_), *fields) for id_ in ids]
        found = []
        for id_, row in zip(ids, self._client.run(calls, write=False), strict=True):
            if row[3]:
                member, name, reports, why, since, until = (each.decode() for each in row)
                period = bucket_of(member).period
                found.append(HeldBatch(id_, name, period, int(reports), why, int(since), int(until)))
        return sorted(found, key=lambda batch: (batch.period, batch.name, batch.id))

    def offer(self, ids: Collection[bytes] | None = None) -> int:
        wanted = [batch.id for batch in self.held()] if ids is None else ids
        offer, due = self._scripts.offer, self._keys.due
        return sum(
            self._client.run([offer((self._keys.batch(id_), due), self._now(), id_, LONGEST_PAUSE) for id_ in wanted])
        )

    def extend(self, claim: Claim, lease: float) -> bool:
        return self._hold(claim, lease, "")

    def postpone(self, claim: Claim, seconds: float, *, sent: bool) -> bool:
        return self._hold(claim, seconds, str(int(sent)))

    def _hold(self, claim: Claim, seconds: float, sent: str) -> bool:
        """With `sent` empty, extend the lease; otherwise give the batch back until then."""
        keys = (self._keys.batch(claim.batch.id), self._keys.due)
        call = self._scripts.hold(keys, self._now(), claim.batch.id, claim.token, seconds, sent)
        return self._client.run([call], again=False) == [1]

    def settle(self, claim: Claim, verdict: str) -> bool:
        batch, keys = claim.batch, self._keys
        member = member_of(batch.bucket)
        what = verdict if batch.kind == "batch" else f"discard-{verdict}"
        lists = (
            keys.batch(batch.id),
            keys.due,
            keys.bucket(member),
            keys.listing("planned"),
            keys.listing("spent"),
            keys.counts,
        )
        return self._client.run([self._scripts.settle(lists, batch.id, claim.token, member, what)], again=False) == [1]

    def _due(self) -> list[bytes]:
        call = self._scripts.due((self._keys.due,), self._now(), 0, _CANDIDATES, LONGEST_PAUSE)
        return list(self._client.run([call], write=False)[0])
