"""What there is in Redis: buckets by state, and the sums for the status page."""

from __future__ import annotations

from collections.abc import Iterator

from hubbub_shuffler.storage._redis_keys import SHARDS, Keys
from hubbub_shuffler.storage._redis_link import Link
from hubbub_shuffler.storage._redis_scripts import command
from hubbub_shuffler.storage.protocol import Count, Overview, Waiting

__all__ = ["listed", "overview"]

_AT_ONCE = 64
"""Buckets in one round of calls."""


def listed(link: Link, keys: Keys, state: str, *fields: str) -> Iterator[tuple[str, list[bytes]]]:
    """The buckets in this state, as they were when we began, with these fields of each."""
    listing = keys.listing(state)
    (members,) = link.run([command(listing, "ZRANGE", listing, 0, -1)], again=True, write=False)
    for at in range(0, len(members), _AT_ONCE):
        names = [member.decode() for member in members[at : at + _AT_ONCE]]
        rows: list[list[bytes]] = [[] for _ in names]
        if fields:
            buckets = [keys.bucket(name) for name in names]
            rows = link.run([command(bucket, "HMGET", bucket, *fields) for bucket in buckets], again=True, write=False)
        yield from ((name, row) for name, row in zip(names, rows, strict=True) if None not in row)


def overview(link: Link, keys: Keys) -> Overview:
    waiting: list[Waiting] = []
    counts: dict[tuple[str, str], Count] = {}
    (sums,) = link.run([command(keys.counts, "HGETALL", keys.counts)], again=True, write=False)
    for field, value in zip(sums[::2], sums[1::2], strict=True):
        name, what, unit = field.decode().split("\x1f")
        counts[name, what] = counts.get((name, what), Count(0, 0))._replace(**{unit: int(value)})
    for state in ("open", "closing", "closed", "planned"):
        for member, (raw, total) in listed(link, keys, state, "name", "reports"):
            name = raw.decode()
            reports = _inside(link, keys, member) if state in {"open", "closing"} else int(total)
            waiting.append(Waiting(name, "closed" if state == "closing" else state, reports))
            if state != "planned":  # from then on, the plan has counted them
                before = counts.get((name, "ingested"), Count(0, 0))
                counts[name, "ingested"] = Count(before.reports + reports, 0)
    return Overview(sorted(waiting), _batches(link, keys), counts)


def _inside(link: Link, keys: Keys, member: str) -> int:
    shards = [keys.shard(member, shard) for shard in range(SHARDS)]
    found = link.run([command(shard, "HGET", shard, "reports") for shard in shards], again=True, write=False)
    return sum(int(each or 0) for each in found)


def _batches(link: Link, keys: Keys) -> dict[str, int]:
    (ids,) = link.run([command(keys.due, "ZRANGE", keys.due, 0, -1)], again=True, write=False)
    sent = link.run([command(keys.due, "HGET", keys.batch(id_), "sent") for id_ in ids], again=True, write=False)
    return {"planned": sent.count(b"0"), "sent": sent.count(b"1")}
