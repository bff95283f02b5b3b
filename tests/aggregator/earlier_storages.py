"""Storages as earlier versions of the aggregator wrote them: what they hold must be taken over."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from hubbub.wire import BatchHeader

__all__ = ["COMMIT_2", "NONCES", "OTHER", "SCHEMA_3", "WAITING", "file_of_schema_3"]

METRIC = b"m" * 16
NONCES = [b"".join(b"NONCE-%d-%08d" % (number, at) for at in range(3_000)) for number in (1, 2)]
"""Of two batches of one pair; larger than a piece is now."""
OTHER, WAITING = (3).to_bytes(16), (4).to_bytes(16)

SCHEMA_3 = """
CREATE TABLE batches (
    id BLOB PRIMARY KEY, header BLOB NOT NULL, digest BLOB NOT NULL, metric BLOB NOT NULL, period INTEGER NOT NULL,
    kind TEXT NOT NULL, state TEXT NOT NULL, spool TEXT, reason TEXT, valid INTEGER, invalid TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX batches_waiting ON batches (state, period);
CREATE INDEX batches_of ON batches (metric, period);
CREATE TABLE releases (
    id BLOB PRIMARY KEY, metric BLOB NOT NULL, period INTEGER NOT NULL, tally BLOB NOT NULL, nonces BLOB,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX releases_of ON releases (metric, period, id);
CREATE INDEX releases_by_period ON releases (period, id);
CREATE TABLE pairs (
    metric BLOB NOT NULL, period INTEGER NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (metric, period)
) STRICT, WITHOUT ROWID;
CREATE TABLE codebooks (first_period INTEGER PRIMARY KEY, compiled BLOB NOT NULL) STRICT;
CREATE TABLE keys (
    id INTEGER PRIMARY KEY, first_period INTEGER NOT NULL, last_period INTEGER NOT NULL, public_key BLOB NOT NULL,
    private_key BLOB, revoked INTEGER NOT NULL
) STRICT;
CREATE TABLE bundle (
    sequence INTEGER PRIMARY KEY, issued INTEGER NOT NULL, content BLOB NOT NULL, raw BLOB NOT NULL
) STRICT;
CREATE TABLE remembered (question TEXT PRIMARY KEY, answer INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE expired (
    id BLOB PRIMARY KEY, metric BLOB NOT NULL, period INTEGER NOT NULL, record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE opened_and_refused (
    id BLOB PRIMARY KEY, metric BLOB NOT NULL, period INTEGER NOT NULL, record TEXT NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 3;
"""

COMMIT_2 = b"""-- KEYS batches, version, counts, nonces   ARGV id, version, entry
local kept = redis.call('HGET', KEYS[1], ARGV[1])
if not kept or kept:sub(1, 1) ~= 'p' then return 'settled' end
if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[2] then return 'conflict' end
if redis.call('EXISTS', KEYS[3], KEYS[4]) ~= 2 then return 'gone' end
redis.call('PERSIST', KEYS[3])
redis.call('PERSIST', KEYS[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('INCR', KEYS[2])
return 'accepted'
"""
"""How the version before this one accepted a batch in Redis. Both may run at once while machines are upgraded."""


def file_of_schema_3(path: Path) -> None:
    """Two accepted batches in a pair, one in a period whose nonces were forgotten, a discard, and one that waits."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(SCHEMA_3)
        for number, period, kind, state in [
            (1, 7, "batch", "accepted"),
            (2, 7, "batch", "accepted"),
            (3, 5, "batch", "accepted"),
            (4, 7, "batch", "pending"),
            (5, 7, "discard", "accepted"),
            (6, 7, "batch", "refused"),
        ]:
            name, counts = number.to_bytes(16), kind == "batch"
            header = BatchHeader(METRIC, period, 3, 10, 70)
            if not counts:
                header = BatchHeader(METRIC, period, 3, kind="discard")
            spool, valid = (f"file-{number}", None) if state == "pending" else (None, 9)
            row = (name, header.encode(), name * 2, METRIC, period, kind, state, spool, None, valid, "{}")
            db.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            if counts and state == "accepted":
                nonces = NONCES[number - 1] if number < 3 else None
                row_ = (name, METRIC, period, b"tally-%d" % number, nonces, f'{{"id":{number}}}')
                db.execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?)", row_)
        db.execute("INSERT INTO pairs VALUES (?, 7, 2)", (METRIC,))
        db.execute("INSERT INTO pairs VALUES (?, 5, 1)", (METRIC,))
        db.execute("INSERT INTO keys VALUES (0, 7, 8, ?, ?, 0)", (b"p" * 32, b"s" * 32))
