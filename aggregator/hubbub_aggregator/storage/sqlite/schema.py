"""The tables of the SQLite backend."""

from __future__ import annotations

__all__ = ["OTHERWISE", "SCHEMA", "UPGRADES", "VERSION"]

OTHERWISE = "restore a backup made by this version into an empty state directory"
"""What to do about a file that a newer version wrote."""
VERSION = 5
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
# since version 3, headers say how many reports of the bucket are in other batches; older ones now say 0
_LONGER_HEADERS = "UPDATE batches SET header = CAST(header || zeroblob(8) AS BLOB)"
_NONCES = """
CREATE TABLE nonces (period INTEGER NOT NULL, batch BLOB NOT NULL, first BLOB NOT NULL, nonces BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX nonces_of ON nonces (period, batch, first)
"""
_ORDER = "CREATE UNIQUE INDEX batches_accepted ON batches (metric, period, version)"
# Before version 4, an accepted batch had its nonces in one piece, which is a piece like any other, and the order of
# batches was not kept: any will do, since each pair has as many of them as its version said.
_NONCES_BY_PIECE = """
INSERT INTO nonces SELECT period, id, substr(nonces, 1, 16), nonces FROM releases WHERE length(nonces) > 0;
ALTER TABLE releases DROP COLUMN nonces;
ALTER TABLE batches ADD COLUMN version INTEGER;
UPDATE batches SET version = place FROM (
    SELECT id AS accepted, row_number() OVER (PARTITION BY metric, period ORDER BY id) AS place
    FROM batches WHERE state = 'accepted' AND kind = 'batch'
) WHERE id = accepted;
DROP INDEX batches_of;
DROP TABLE pairs
"""
_SWITCHED_OFF = "CREATE TABLE switched_off (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID"
UPGRADES = {
    1: _EXPIRED,
    2: f"{_OPENED_AND_REFUSED};{_LONGER_HEADERS}",
    3: f"{_NONCES};{_NONCES_BY_PIECE};{_ORDER}",
    4: _SWITCHED_OFF,
}
"""By version: what the next one added."""
SCHEMA = f"""
CREATE TABLE batches (
    id BLOB PRIMARY KEY, header BLOB NOT NULL, digest BLOB NOT NULL, metric BLOB NOT NULL, period INTEGER NOT NULL,
    kind TEXT NOT NULL, state TEXT NOT NULL, spool TEXT, reason TEXT, valid INTEGER, invalid TEXT NOT NULL,
    version INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX batches_waiting ON batches (state, period);
{_ORDER};
CREATE TABLE releases (
    id BLOB PRIMARY KEY, metric BLOB NOT NULL, period INTEGER NOT NULL, tally BLOB NOT NULL, record TEXT NOT NULL
) STRICT;
CREATE INDEX releases_of ON releases (metric, period, id);
CREATE INDEX releases_by_period ON releases (period, id);
{_NONCES};
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
{_SWITCHED_OFF};
"""
