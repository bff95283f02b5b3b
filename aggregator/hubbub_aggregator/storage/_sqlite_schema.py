"""The tables of the SQLite backend."""

from __future__ import annotations

__all__ = ["OTHERWISE", "SCHEMA", "UPGRADES", "VERSION"]

OTHERWISE = "restore a backup that this one made into an empty state directory"
"""What to do about a file that a newer version wrote."""
VERSION = 3
_EXPIRED = """
CREATE TABLE expired (
    id BLOB PRIMARY KEY, metric BLOB NOT NULL, period INTEGER NOT NULL, record TEXT NOT NULL
) STRICT, WITHOUT ROWID
"""
_OPENED_AND_REFUSED = """
CREATE TABLE opened_and_refused (
    id BLOB PRIMARY KEY, metric BLOB NOT NULL, period INTEGER NOT NULL, record TEXT NOT NULL
) STRICT, WITHOUT ROWID
"""
# headers say since then how many reports of the bucket are in other batches; before, nobody knew of any
_LONGER_HEADERS = "UPDATE batches SET header = CAST(header || zeroblob(8) AS BLOB)"
UPGRADES = {1: _EXPIRED, 2: f"{_OPENED_AND_REFUSED};{_LONGER_HEADERS}"}
"""What the schema after this one added."""
SCHEMA = f"""
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
{_EXPIRED};
{_OPENED_AND_REFUSED};
"""
