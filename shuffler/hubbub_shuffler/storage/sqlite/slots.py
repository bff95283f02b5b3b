"""Slots: where reports lie in the SQLite file, as a random permutation of the order of arrival.

SQLite fills pages in the order of writing. Rows that were only ever appended would show the order of arrival to anyone
with the file, whatever their ids. Here a new piece goes to a slot drawn at random, and the piece that was there moves
to the new slot at the end (the inside-out shuffle): after every commit, each order of arrival is as likely as any
other. This holds among pieces of one length, because then a slot is overwritten in place and nothing else moves. So the
reports of a group commit are cut into pieces of 1, 2, 4, ... reports, and each length has its own table.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing

from hubbub_shuffler.batching.permute import Entropy, shuffled
from hubbub_shuffler.storage.protocol import PIECE_BYTES, Arrivals, BucketDamaged

__all__ = ["EMPTY", "create_table", "pack", "page", "put", "tables", "unpack"]

_LENGTHS = PIECE_BYTES.bit_length()
_FILLED = struct.Struct(f">{_LENGTHS}I")
EMPTY = bytes(_FILLED.size)
"""How many slots of each length a new bucket has filled."""


def pack(numbers: Sequence[int]) -> bytes:
    """The number of filled slots of each length, in its stored form."""
    return _FILLED.pack(*numbers)


def unpack(filled: bytes) -> tuple[int, ...]:
    """The number of filled slots, by the binary logarithm of how many reports a slot has."""
    return _FILLED.unpack(filled)


def create_table(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"CREATE TABLE {table} (slot INTEGER PRIMARY KEY, body BLOB NOT NULL)")


def put(db: sqlite3.Connection, waiting: str, filled: bytes, arrivals: Arrivals, entropy: Entropy) -> bytes:
    """Keep these reports in the tables of a bucket. Returns the new number of filled slots."""
    slots = list(unpack(filled))
    for length, body in _pieces(shuffled(arrivals.sealed, entropy), arrivals.terms.size):
        table, last = f"{waiting}_{length}", slots[length]
        if not last:
            create_table(db, table)
        drawn = int.from_bytes(entropy(8)) % (last + 1)  # uneven by less than 2^-32
        moved = body
        if drawn != last:
            found = db.execute(f"SELECT body FROM {table} WHERE slot = ?", (drawn,)).fetchone()  # noqa: S608  our own name
            if found is None or not isinstance(found[0], bytes) or len(found[0]) != len(body):
                # to SQLite, a page that came back with fewer rows is no error
                raise BucketDamaged("reports of an open bucket are missing", arrivals.bucket)
            (moved,) = found
            db.execute(f"UPDATE {table} SET body = ? WHERE slot = ?", (body, drawn))  # noqa: S608  our own name
        db.execute(f"INSERT INTO {table} VALUES (?, ?)", (last, moved))  # noqa: S608  our own name
        slots[length] += 1
    return pack(slots)


def _pieces(sealed: Sequence[bytes], size: int) -> Iterator[tuple[int, bytes]]:
    """The reports in as few pieces as possible, each with the binary logarithm of its number of reports."""
    longest = max(1, PIECE_BYTES // size).bit_length() - 1
    at = 0
    while left := len(sealed) - at:
        length = min(longest, left.bit_length() - 1)
        yield length, b"".join(sealed[at : at + 2**length])
        at += 2**length


def tables(waiting: str, filled: bytes) -> dict[int, str]:
    """The tables that a bucket has, by the binary logarithm of how many reports a slot has."""
    return {length: f"{waiting}_{length}" for length, slots in enumerate(unpack(filled)) if slots}


def page(
    db: sqlite3.Connection, waiting: str, filled: bytes, start: tuple[int, int]
) -> tuple[bytes, tuple[int, int]] | None:
    """The reports in the slots from `start` (length, slot) on that fit into one piece, and the start of the next."""
    bodies: list[bytes] = []
    size, (first, slot) = 0, start
    for length in range(first, _LENGTHS):
        slots = unpack(filled)[length]
        if slot < slots:
            select = f"SELECT body FROM {waiting}_{length} WHERE slot >= ? ORDER BY slot"  # noqa: S608  our own name
            with closing(db.execute(select, (slot,))) as found:
                for (body,) in found:
                    size += len(body)
                    if bodies and size > PIECE_BYTES:
                        return b"".join(bodies), (length, slot)
                    bodies.append(body)
                    slot += 1
        slot = 0
    return (b"".join(bodies), (_LENGTHS, 0)) if bodies else None
