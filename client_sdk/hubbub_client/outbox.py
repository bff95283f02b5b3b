"""The outbox: randomized reports that no shuffler has acknowledged yet, as payload and nonce and, once sealed, as sent.

Sealed bytes are stored before they are first sent, and a retry sends the same ones. Only when their key turned out
to be unknown or revoked are they sealed again, around the same payload and nonce.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from hubbub_client._draw import Draw

__all__ = ["MOST_BYTES", "MOST_REPORTS", "Outbox", "Waiting"]

MOST_REPORTS = 10_000
MOST_BYTES = 8 * 1024 * 1024
"""Of reports in the outbox, as they are kept; beyond either limit the oldest go."""
_BYTES = "(2 * length(payload) + 200)"
"""What a report takes with its sealed form, which is made later."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One report in the outbox."""

    id: bytes
    """Of the metric."""
    period: int
    drawn: Draw
    closes_at: float
    key: int | None = None
    sealed: bytes | None = None


class Outbox:
    """Every method works inside a transaction of the caller's."""

    @staticmethod
    def put(connection: sqlite3.Connection, report: Waiting, *, due: float, delay: float) -> None:
        times = due, due + delay, report.closes_at
        connection.execute(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)",
            (report.drawn.nonce, report.id, report.period, report.drawn.payload, *times),
        )

    @staticmethod
    def drop_oldest(connection: sqlite3.Connection) -> int:
        """Make room within the limits; the ledger keeps the spends. How many went."""
        count, size = connection.execute(f"SELECT count(*), total({_BYTES}) FROM outbox").fetchone()  # noqa: S608  ours
        if count <= MOST_REPORTS and size <= MOST_BYTES:
            return 0
        gone: list[bytes] = []
        rows = connection.execute(f"SELECT nonce, {_BYTES} FROM outbox ORDER BY closes_at, send_at")  # noqa: S608  ours
        for nonce, bytes_ in rows:
            if count - len(gone) <= MOST_REPORTS and size <= MOST_BYTES:
                break
            gone.append(nonce)
            size -= bytes_
        Outbox.remove(connection, gone)
        return len(gone)

    @staticmethod
    def due(connection: sqlite3.Connection, now: float | None, *, hurry: bool = False) -> list[Waiting]:
        """What may be sent at this time, with `hurry` without its delay; None: everything. In the order of the
        random nonces."""
        rows = connection.execute(
            "SELECT id, period, payload, nonce, closes_at, key, sealed FROM outbox "
            "WHERE :now IS NULL OR CASE WHEN :hurry THEN due_at ELSE send_at END <= :now ORDER BY nonce",
            {"now": now, "hurry": hurry},
        )
        return [Waiting(row[0], row[1], Draw(row[2], row[3]), *row[4:]) for row in rows]

    @staticmethod
    def next_at(connection: sqlite3.Connection) -> float | None:
        """When the next report may be sent; None when there is none."""
        (soonest,) = connection.execute("SELECT min(send_at) FROM outbox").fetchone()
        return None if soonest is None else float(soonest)

    @staticmethod
    def seal(connection: sqlite3.Connection, report: Waiting, key: int, sealed: bytes) -> None:
        """Keep how it is sent. Another process that sealed it first wins: one report, one spelling."""
        connection.execute(
            "UPDATE outbox SET key = ?, sealed = ? WHERE nonce = ? AND sealed IS ?",
            (key, sealed, report.drawn.nonce, report.sealed),
        )

    @staticmethod
    def remove(connection: sqlite3.Connection, nonces: Iterable[bytes]) -> None:
        """Acknowledged, or given up; either way the ledger keeps the spend."""
        connection.executemany("DELETE FROM outbox WHERE nonce = ?", [(nonce,) for nonce in nonces])

    @staticmethod
    def size(connection: sqlite3.Connection) -> int:
        (count,) = connection.execute("SELECT count(*) FROM outbox").fetchone()
        return int(count)
