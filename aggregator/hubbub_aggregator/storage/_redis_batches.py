"""Batches and their verdicts in Redis: one pair of metric and period in one slot, the lists in another.

A batch is placed (its id says which pair), listed as pending, then entered in its pair. The verdict is one script on
the pair. Lists are noted after it; a crash in between leaves the batch in `pending`, and whoever reads that list next
notes what the pair says. Blobs are written before the verdict, with an expiry that the verdict takes off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hubbub.wire import BatchHeader
from hubbub_aggregator.storage._redis_keys import Keys, Member
from hubbub_aggregator.storage.protocol import Accepted, Batch, Pair, State
from hubbub_service_common.redis.calls import Part, Script, command, script_text
from hubbub_service_common.redis.client import RedisClient

__all__ = ["RedisBatches", "lua"]

_STATES: dict[str, State] = {"p": "pending", "a": "accepted", "r": "refused"}
_UNCOMMITTED = 86_400
"""Seconds after which blobs are gone that no verdict named."""
_TOKEN = 8
_SCRIPTS = ("place", "admit", "commit", "refuse", "drop", "unplace", "note", "lease")


def lua(name: str) -> Script:
    """A script of this backend."""
    return Script(script_text(__package__, name))


class RedisBatches:
    """The part of the storage that is about batches."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._client, self._keys = client, keys
        self._lua = {name: lua(name) for name in _SCRIPTS}

    def admit(self, batch: Batch) -> Batch:
        content = batch.header.encode() + batch.digest
        first = self._place(batch.id, content)[:-_TOKEN]
        if first != content:
            header = BatchHeader.decode(first)
            other = Batch(batch.id, header, first[len(header.encode()) :], "pending")
            return self._entered(header, batch.id) or other
        known = self._entered(batch.header, batch.id)
        if known is not None:
            return known
        header = batch.header
        listed = command("ZADD", self._keys.pending, header.period, _member(batch).encode())
        self._client.one(listed)
        pair = self._keys.pair(header.metric, header.period)
        entry = self._client.one(self._lua["admit"]((pair.batches,), batch.id, _encode(batch)))
        # once more: neither a `drop` nor a `forget` that began before it was entered can undo this
        self._place(batch.id, content)
        self._client.one(listed)
        kept = _decode(batch.id, entry)
        if kept.state != "pending":
            self._note(kept, entry)
        return kept

    def _place(self, id: bytes, content: bytes) -> bytes:  # noqa: A002  it is an id
        placed: bytes = self._client.one(self._lua["place"]((self._keys.place(id),), content, os.urandom(_TOKEN)))
        return placed

    def batch(self, id: bytes) -> Batch | None:  # noqa: A002  it is an id
        placed = self._client.one(command("GET", self._keys.place(id)), write=False)
        return None if placed is None else self._entered(BatchHeader.decode(placed), id)

    def _entered(self, header: BatchHeader, id: bytes) -> Batch | None:  # noqa: A002  it is an id
        """What the pair says, and what replicas have if any were asked for: a caller may take it for an answer.

        The write is there for the WAIT behind it, which says that all before it on this server is replicated too.
        """
        pair = self._keys.pair(header.metric, header.period)
        calls = [command("HGET", pair.batches, id), command("SET", pair.seen, 1)]
        asks = self._client.replicas > 0
        entry = self._client.run(calls if asks else calls[:1], write=asks)[0]
        return None if entry is None else _decode(id, entry)

    def pending(self) -> list[Batch]:
        waiting = [batch for _, batch in self._listed() if batch is not None]
        return sorted(waiting, key=lambda batch: (batch.header.period, batch.id))

    def _listed(self) -> list[tuple[Member, Batch | None]]:
        """The pending list against what the pairs say; what has its verdict is noted and left out."""
        raw = self._client.one(command("ZRANGE", self._keys.pending, 0, -1), write=False)
        members = [Member.decode(one) for one in raw]
        calls = [command("HGET", self._keys.pair(one.metric, one.period).batches, one.id) for one in members]
        found: list[tuple[Member, Batch | None]] = []
        for member, entry in zip(members, self._client.run(calls, write=False), strict=True):
            batch = None if entry is None else _decode(member.id, entry)
            if batch is not None and batch.state != "pending":
                self._note(batch, entry)
            else:
                found.append((member, batch))
        return found

    def pair(self, metric: bytes, period: int) -> Pair:
        names = self._keys.pair(metric, period)
        # the version first: what is accepted between the two makes the next step fail, and never counts twice
        version = int(self._client.one(command("GET", names.version), write=False) or 0)
        entries = self._client.one(command("HVALS", names.batches), write=False)
        tokens = sorted(token for entry in entries if (token := _token(entry)))
        blobs = self._client.run([command("GET", names.nonces(token)) for token in tokens], write=False)
        return Pair(version, tuple(blob for blob in blobs if blob is not None))

    def accept(self, id: bytes, version: int, accepted: Accepted) -> bool:  # noqa: A002  it is an id
        batch = self.batch(id)
        if batch is None or batch.state != "pending":
            return True  # settled meanwhile; a verdict is never changed
        names, token = self._keys.pair(batch.header.metric, batch.header.period), os.urandom(_TOKEN)
        counts, nonces = names.counts(token), names.nonces(token)
        record = accepted.record.encode()
        settled = Batch(id, batch.header, batch.digest, "accepted", None, None, accepted.valid, accepted.invalid)
        blobs = {counts: len(record).to_bytes(4) + record + accepted.tally, nonces: accepted.nonces}
        self._client.run([command("SET", name, blob, "EX", _UNCOMMITTED) for name, blob in blobs.items()])
        keys = (names.batches, names.version, counts, nonces)
        entry = _encode(settled, token)
        said = self._client.one(self._lua["commit"](keys, id, version, entry))
        if said == b"accepted":
            self._note(settled, entry)
        elif said == b"settled":
            self._note_entered(batch)  # by another, or by this call before its answer was lost
        else:
            self._client.one(command("UNLINK", counts, nonces))
        return said in (b"accepted", b"settled")

    def refuse(
        self,
        id: bytes,  # noqa: A002  it is an id
        reason: str,
        valid: int | None,
        invalid: Mapping[str, int],
        record: str | None = None,
    ) -> None:
        batch = self.batch(id)
        if batch is None or batch.state != "pending":
            return
        pair = self._keys.pair(batch.header.metric, batch.header.period)
        settled = Batch(id, batch.header, batch.digest, "refused", None, reason, valid, invalid)
        # the record stands in the entry too: who finds the verdict and no note of it can make the note
        self._client.one(self._lua["refuse"]((pair.batches,), id, _encode(settled, record=record)))
        self._note_entered(batch)

    def drop(self, id: bytes) -> None:  # noqa: A002  it is an id
        placed = self._client.one(command("GET", self._keys.place(id)), write=False)
        if placed is None:
            return
        header = BatchHeader.decode(placed)
        pair = self._keys.pair(header.metric, header.period)
        # it stays in the pending list, where only its next verdict or its horizon may take it off: it may be sent
        # again at this very moment
        if self._client.one(self._lua["drop"]((pair.batches,), id)):
            self._client.one(self._lua["unplace"]((self._keys.place(id),), placed))

    def lease(self, id: bytes, holder: str, seconds: float) -> bool:  # noqa: A002  it is an id
        call = self._lua["lease"]((self._keys.lease(id),), holder, int(seconds * 1000))
        return bool(self._client.one(call, write=False) == 1)

    def tallied(self) -> dict[str, int]:
        waiting = len(self.pending())
        flat = self._client.one(command("HGETALL", self._keys.sums), write=False)
        found = {name.decode(): int(number) for name, number in zip(flat[::2], flat[1::2], strict=True)}
        return found | ({"batch:pending": waiting} if waiting else {})

    def _note_entered(self, batch: Batch) -> None:
        pair = self._keys.pair(batch.header.metric, batch.header.period)
        entry = self._client.one(command("HGET", pair.batches, batch.id), write=False)
        if entry is not None and not entry.startswith(b"p"):
            self._note(_decode(batch.id, entry), entry)

    def _note(self, batch: Batch, entry: bytes) -> None:
        keys, member, token = self._keys, _member(batch), _token(entry)
        release = member._replace(token=token).encode() if token else b""
        record: str = json.loads(entry[1:])["record"] or ""
        sums: dict[str, int] = {f"{batch.header.kind}:{batch.state}": 1}
        if batch.reason is not None:
            sums[f"refused:{batch.reason}"] = 1
        sums |= {f"invalid:{name}": number for name, number in batch.invalid.items()}
        discard: Part = member.period if batch.header.kind == "discard" else b""
        of_metric = (keys.releases_of(member.metric), keys.discards_of(member.metric))
        names = (keys.pending, keys.noted, keys.sums, keys.releases, *of_metric, keys.opened_and_refused)
        flat = [part for pair in sums.items() for part in pair]
        self._client.one(self._lua["note"](names, member.encode(), batch.id, release, discard, record, *flat))


def _member(batch: Batch) -> Member:
    return Member(batch.header.period, batch.id, batch.header.metric)


def _encode(batch: Batch, token: bytes = b"", record: str | None = None) -> bytes:
    """An entry: the first letter of its state, which scripts look at, then everything else."""
    rest: dict[str, Any] = {
        "header": batch.header.encode().hex(),
        "digest": batch.digest.hex(),
        "spool": batch.spool,
        "reason": batch.reason,
        "valid": batch.valid,
        "invalid": dict(batch.invalid),
        "blobs": token.hex(),
        "record": record,
    }
    return batch.state[0].encode() + json.dumps(rest, separators=(",", ":")).encode()


def _decode(id: bytes, entry: bytes) -> Batch:  # noqa: A002  it is an id
    rest = json.loads(entry[1:])
    return Batch(
        id,
        BatchHeader.decode(bytes.fromhex(rest["header"])),
        bytes.fromhex(rest["digest"]),
        _STATES[chr(entry[0])],
        rest["spool"],
        rest["reason"],
        rest["valid"],
        rest["invalid"],
    )


def _token(entry: bytes) -> bytes:
    return bytes.fromhex(json.loads(entry[1:])["blobs"])
