"""The nonces of accepted batches in SQLite: sorted pieces, indexed by their first nonce.

A piece is read whole. There is no index of all nonces: a batch of random nonces would write to nearly every page of it.
"""

from __future__ import annotations

from sqlite3 import Connection

from hubbub.wire import NONCE_BYTES
from hubbub_aggregator.storage.sorted_nonces import each, holds

__all__ = ["among", "erase", "read", "write"]

_PIECE = 1024 * NONCE_BYTES
"""Bytes in a piece: four pages of the file."""


def write(db: Connection, period: int, batch: bytes, nonces: bytes) -> None:
    """Keep the sorted nonces of a batch, inside the caller's transaction."""
    pieces = (nonces[at : at + _PIECE] for at in range(0, len(nonces), _PIECE))
    rows = ((period, batch, piece[:NONCE_BYTES], piece) for piece in pieces)
    db.executemany("INSERT INTO nonces VALUES (?, ?, ?, ?)", rows)


def read(db: Connection, period: int, batch: bytes) -> bytes:
    """All nonces of a batch, sorted."""
    rows = db.execute("SELECT nonces FROM nonces WHERE period = ? AND batch = ? ORDER BY first", (period, batch))
    return b"".join(piece for (piece,) in rows)


def among(db: Connection, period: int, batch: bytes, nonces: bytes) -> bytes:
    """Those of these sorted nonces that the batch has: at most one piece is read for each."""
    piece, found = b"", list[bytes]()
    for nonce in each(nonces):
        if not piece or nonce > piece[-NONCE_BYTES:]:
            row = db.execute(
                "SELECT nonces FROM nonces WHERE period = ? AND batch = ? AND first <= ? ORDER BY first DESC LIMIT 1",
                (period, batch, nonce),
            ).fetchone()
            piece = b"" if row is None else row[0]
        if holds(piece, nonce):
            found.append(nonce)
    return b"".join(found)


def erase(db: Connection, through: int) -> None:
    """Forget the nonces of all periods up to this one."""
    db.execute("DELETE FROM nonces WHERE period <= ?", (through,))
