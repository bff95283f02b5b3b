"""Overview of what is in Redis: buckets by state, and the sums for the status page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_shuffler.storage.protocol import Count, Overview, Waiting
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys

__all__ = ["listed", "overview"]

_AT_ONCE = 64
"""Buckets in one round of calls."""


def listed(client: RedisClient, keys: Keys, state: str, *fields: str) -> Iterator[tuple[str, list[bytes]]]:
    """The buckets in this state as of the start of the listing, with these fields of each."""
    listing = keys.listing(state)
    (members,) = client.run([command("ZRANGE", listing, 0, -1)], write=False)
    for at in range(0, len(members), _AT_ONCE):
        names = [member.decode() for member in members[at : at + _AT_ONCE]]
        rows: list[list[bytes]] = [[] for _ in names]
        if fields:
            buckets = [keys.bucket(name) for name in names]
            rows = client.run([command("HMGET", bucket, *fields) for bucket in buckets], write=False)
        yield from ((name, row) for name, row in zip(names, rows, strict=True) if None not in row)


def overview(client: RedisClient, keys: Keys) -> Overview:
    waiting: list[Waiting] = []
    counts: dict[tuple[str, str], Count] = {}
    (sums,) = client.run([command("HGETALL", keys.counts)], write=False)
    for field, value in zip(sums[::2], sums[1::2], strict=True):
        name, what, unit = field.decode().split("\x1f")
        counts[name, what] = counts.get((name, what), Count(0, 0))._replace(**{unit: int(value)})
    batches = _batches(client, keys)
    for state in ("open", "closing", "closed", "planned"):
        for member, (raw, total, closes_at) in listed(client, keys, state, "name", "reports", "closes_at"):
            name = raw.decode()
            reports = _inside(client, keys, member) if state in {"open", "closing"} else int(total)
            shown, held = "closed" if state == "closing" else state, batches.all_held.get(member, False)
            waiting.append(Waiting(name, shown, reports, int(closes_at), held))
            if state != "planned":  # the plan has counted them
                before = counts.get((name, "ingested"), Count(0, 0))
                counts[name, "ingested"] = Count(before.reports + reports, 0)
    return Overview(sorted(waiting), batches.states, batches.held, counts)


def _inside(client: RedisClient, keys: Keys, member: str) -> int:
    shards = [keys.shard(member, shard) for shard in range(SHARDS)]
    found = client.run([command("HGET", shard, "reports") for shard in shards], write=False)
    return sum(int(each or 0) for each in found)


class _Batches(NamedTuple):
    states: dict[str, int]
    held: dict[str, Count]
    """By the reason of the refusal."""
    all_held: dict[str, bool]
    """By bucket: whether every batch of it is held."""


def _batches(client: RedisClient, keys: Keys) -> _Batches:
    (ids,) = client.run([command("ZRANGE", keys.due, 0, -1)], write=False)
    fields = ("bucket", "sent", "held", "reports")
    rows = client.run([command("HMGET", keys.batch(id_), *fields) for id_ in ids], write=False)
    states, held, all_held = {"planned": 0, "sent": 0}, dict[str, Count](), dict[str, bool]()
    for bucket, sent, why, reports in rows:
        if bucket is None:
            continue  # settled meanwhile
        member = bucket.decode()
        all_held[member] = all_held.get(member, True) and bool(why)
        if why:
            before = held.get(why.decode(), Count(0, 0))
            held[why.decode()] = Count(before.reports + int(reports), before.batches + 1)
        else:
            states["sent" if sent == b"1" else "planned"] += 1
    return _Batches(states, dict(sorted(held.items())), all_held)
