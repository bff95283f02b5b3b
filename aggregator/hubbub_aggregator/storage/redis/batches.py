"""Batches and their verdicts in Redis: one pair of metric and period in one slot, the lists in another.

A batch is placed (its id says which pair), listed as pending, then entered in its pair. The verdict is one script on
the pair. It is noted in the lists afterwards; a crash in between leaves the batch in `pending`, and the next reader of
that list notes what the pair says. Blobs are written before the verdict, with an expiry that the verdict removes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hubbub.wire import BatchHeader
from hubbub_aggregator.storage.protocol import Accepted, Batch, Outcome, State
from hubbub_aggregator.storage.redis import nonces as redis_nonces
from hubbub_aggregator.storage.redis.key_names import Keys, Member
from hubbub_service_common.process.clock_and_entropy import entropy
from hubbub_service_common.redis.calls_and_scripts import Part, Script, command, script_text
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage.kinds_and_errors import StorageError

__all__ = ["RedisBatches", "lua"]

_STATES: dict[str, State] = {"p": "pending", "a": "accepted", "r": "refused"}
_UNCOMMITTED = 86_400
"""Seconds after which blobs expire if no verdict has named them."""
_ID, _TOKEN = 16, 8
"""Bytes of a batch's id, and of the token that names its blobs. A mark is the id, then the token in hexadecimal."""
_SCRIPTS = ("place", "admit", "accepted", "blobs", "commit", "refuse", "drop", "unplace", "note", "lease", "put", "set")


def lua(name: str) -> Script:
    """A script of this backend."""
    return Script(script_text(__package__, name))


class RedisBatches:
    """The part of the storage that is about batches."""

    def __init__(self, client: RedisClient, keys: Keys) -> None:
        self._client, self._keys = client, keys
        self._lua = {name: lua(name) for name in _SCRIPTS}
        self._lengths = redis_nonces.Lengths()

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
        # again: a `drop` or a `forget` that began before the batch was entered can't undo this
        self._place(batch.id, content)
        self._client.one(listed)
        kept = _decode(batch.id, entry)
        if kept.state != "pending":
            self._note(kept, entry)
        return kept

    def _place(self, id: bytes, content: bytes) -> bytes:  # noqa: A002  it is an id
        placed: bytes = self._client.one(self._lua["place"]((self._keys.place(id),), content, entropy(_TOKEN)))
        return placed

    def batch(self, id: bytes) -> Batch | None:  # noqa: A002  it is an id
        placed = self._client.one(command("GET", self._keys.place(id)), write=False)
        return None if placed is None else self._entered(BatchHeader.decode(placed), id)

    def _entered(self, header: BatchHeader, id: bytes) -> Batch | None:  # noqa: A002  it is an id
        """What the pair says. If replicas are required they have it too, so that a caller may rely on it.

        The write is there only for the WAIT after it, which says that all before it on this server is replicated too.
        """
        pair = self._keys.pair(header.metric, header.period)
        calls = [command("HGET", pair.batches, id), self._lua["set"]((pair.seen,), 1)]
        asks = self._client.replicas > 0
        entry = self._client.run(calls if asks else calls[:1], write=asks)[0]
        return None if entry is None else _decode(id, entry)

    def pending(self) -> list[Batch]:
        waiting = [batch for _, batch in self._listed() if batch is not None]
        return sorted(waiting, key=lambda batch: (batch.header.period, batch.id))

    def _listed(self) -> list[tuple[Member, Batch | None]]:
        """The pending list, checked against the pairs. Batches that have a verdict are noted and left out."""
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

    def accepted(self, metric: bytes, period: int, start: int = 0) -> list[bytes]:
        names = self._keys.pair(metric, period)
        call = self._lua["accepted"]((names.accepted, names.version, names.batches), start)
        found: list[bytes] = self._client.one(call, write=False)
        return found

    def nonces(self, metric: bytes, period: int, mark: bytes) -> bytes:
        return redis_nonces.read(self._client, self._blob(metric, period, mark))

    def among(self, metric: bytes, period: int, mark: bytes, nonces: bytes) -> bytes:
        return redis_nonces.among(self._client, self._blob(metric, period, mark), nonces, self._lengths)

    def _blob(self, metric: bytes, period: int, mark: bytes) -> bytes:
        return self._keys.pair(metric, period).nonces(bytes.fromhex(mark[_ID:].decode()))

    def accept(
        self,
        id: bytes,  # noqa: A002  it is an id
        version: int,
        accepted: Accepted,
        last: bytes | None = None,
    ) -> Outcome:
        batch = self.batch(id)
        if batch is None or batch.state != "pending":
            return "settled"  # a verdict is never changed
        names, token = self._keys.pair(batch.header.metric, batch.header.period), entropy(_TOKEN)
        counts, nonces = names.counts(token), names.nonces(token)
        record = accepted.record.encode()
        settled = Batch(id, batch.header, batch.digest, "accepted", None, None, accepted.valid, accepted.invalid)
        blobs = (len(record).to_bytes(4) + record + accepted.tally, accepted.nonces)
        try:
            self._client.one(self._lua["blobs"]((names.batches, counts, nonces), *blobs, _UNCOMMITTED))
        except StorageError:
            # Every new attempt uses other names, and these blobs would stay beside those for a day. After this call
            # they may belong to a verdict, so that a later failure removes nothing.
            with suppress(StorageError):
                self._client.one(command("UNLINK", counts, nonces), write=False)
            raise
        keys = (names.batches, names.version, names.accepted, counts, nonces)
        entry, mark = _encode(settled, token), id + token.hex().encode()
        compared: tuple[Part, ...] = () if last is None else (last,)
        said = self._client.one(self._lua["commit"](keys, id, version, entry, mark, *compared))
        if said == b"accepted":
            self._note(settled, entry)
            return "accepted"
        self._client.one(command("UNLINK", counts, nonces))
        if said == b"settled":
            self._note_entered(batch)
            return "settled"
        return "outdated"

    def refuse(
        self,
        id: bytes,  # noqa: A002  it is an id
        reason: str,
        valid: int | None,
        invalid: Mapping[str, int],
        record: str | None = None,
    ) -> bool:
        batch = self.batch(id)
        if batch is None or batch.state != "pending":
            return False
        pair = self._keys.pair(batch.header.metric, batch.header.period)
        settled = Batch(id, batch.header, batch.digest, "refused", None, reason, valid, invalid)
        # the entry has the record too: a process that finds the verdict without its note can make the note
        entry = _encode(settled, record=record, call=entropy(_TOKEN))
        said = self._client.one(self._lua["refuse"]((pair.batches,), id, entry))
        self._note_entered(batch)
        return bool(said == b"refused")

    def drop(self, id: bytes, spool: str) -> bool:  # noqa: A002  it is an id
        placed = self._client.one(command("GET", self._keys.place(id)), write=False)
        if placed is None:
            return False
        header = BatchHeader.decode(placed)
        pair = self._keys.pair(header.metric, header.period)
        # it stays in the pending list until its next verdict or its horizon: it may be sent again at this very moment
        dropped = bool(self._client.one(self._lua["drop"]((pair.batches,), id, spool)))
        if dropped:
            self._client.one(self._lua["unplace"]((self._keys.place(id),), placed))
        return dropped

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
        if batch.state == "refused":
            sums[f"refused:{batch.reason}"] = 1
        sums |= {f"invalid:{name}": number for name, number in batch.invalid.items()}
        discard: Part = member.period if batch.header.kind == "discard" else b""
        unwanted = batch.reason or "" if batch.header.kind == "discard" else ""
        of_metric = (keys.releases_of(member.metric), keys.discards_of(member.metric))
        last = (keys.opened_and_refused, keys.discard_reasons_of(member.metric))
        names = (keys.pending, keys.noted, keys.sums, keys.releases, *of_metric, *last)
        flat = [part for pair in sums.items() for part in pair]
        parts = (member.encode(), batch.id, release, discard, record, unwanted, *flat)
        self._client.one(self._lua["note"](names, *parts))


def _member(batch: Batch) -> Member:
    return Member(batch.header.period, batch.id, batch.header.metric)


def _encode(batch: Batch, token: bytes = b"", record: str | None = None, call: bytes = b"") -> bytes:
    """An entry: the first letter of its state, which scripts look at, then everything else.

    `call`: makes the entry unique, so that a script that is sent twice recognizes its own work.
    """
    rest: dict[str, Any] = {
        "header": batch.header.encode().hex(),
        "digest": batch.digest.hex(),
        "spool": batch.spool,
        "reason": batch.reason,
        "valid": batch.valid,
        "invalid": dict(batch.invalid),
        "blobs": token.hex(),
        "record": record,
        "call": call.hex(),
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
