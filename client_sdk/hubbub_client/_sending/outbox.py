"""The outbox: randomized reports that no shuffler has acknowledged yet, as payload and nonce, and once sealed, as sent.

Sealed bytes are stored before they are first sent, and a retry sends the same ones.

There are two lanes. Metrics with `missing` report whether anything was recorded or not; the others report because
something was. Each lane has its own limits, requests and pauses, so that nothing in the second shows in the first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hubbub_client._integrity.torn_rows import SOUND
from hubbub_client._randomizing.draw import Draw

__all__ = ["MOST_BYTES", "MOST_REPORTS", "Lane", "Outbox", "Waiting"]

MOST_REPORTS = 10_000
MOST_BYTES = 8 * 1024 * 1024
"""Limits of the reports in one lane, as they are kept. Beyond either, the oldest are dropped."""
_BYTES = "(2 * length(payload) + 200)"
"""Bytes that a report takes, with room for its sealed form, which is made later."""


class Lane(Enum):
    """Which reports go out together."""

    STEADY = "steady"
    """Reports of metrics with `missing`: each period has one, whatever was recorded."""
    OCCASIONAL = "occasional"
    """Reports of the other metrics: there is one if something was recorded."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One report in the outbox."""

    lane: Lane
    id: bytes
    """The metric's."""
    period: int
    drawn: Draw
    closes_at: float
    key: int | None = None
    sealed: bytes | None = None


class Outbox:
    """The table of reports. Every method works inside the caller's transaction."""

    @staticmethod
    def put(connection: sqlite3.Connection, report: Waiting, *, due: float, delay: float) -> None:
        times = due, due + delay, report.closes_at
        connection.execute(
            "INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL)",
            (report.drawn.nonce, report.lane.value, report.id, report.period, report.drawn.payload, *times),
        )

    @staticmethod
    def drop_oldest(connection: sqlite3.Connection) -> int:
        """Drop the oldest reports of each lane beyond its limits; the ledger keeps their spends. Returns how many."""
        return sum(_drop_oldest(connection, lane) for lane in Lane)

    @staticmethod
    def all(connection: sqlite3.Connection, lane: Lane) -> list[Waiting]:
        """All reports of a lane."""
        rows = connection.execute(f"{_SELECT} AND lane = ? ORDER BY nonce", (lane.value,))
        return [_waiting(row) for row in rows]

    @staticmethod
    def due(connection: sqlite3.Connection, lane: Lane, now: float, *, hurry: bool = False) -> list[Waiting]:
        """The reports that may be sent now and are not too late, in the order of their random nonces. With `hurry`,
        also those whose delay is not over."""
        rows = connection.execute(
            f"{_SELECT} AND lane = :lane AND CASE WHEN :hurry THEN due_at ELSE send_at END <= :now"
            " AND closes_at > :now ORDER BY nonce",
            {"lane": lane.value, "now": now, "hurry": hurry},
        )
        return [_waiting(row) for row in rows]

    @staticmethod
    def next_at(connection: sqlite3.Connection, lane: Lane, now: float) -> float | None:
        """When the next report of this lane may be sent; None when there is none."""
        soonest = "SELECT min(send_at) FROM outbox WHERE lane = ? AND closes_at > ?"
        (soonest,) = connection.execute(soonest, (lane.value, now)).fetchone()
        return None if soonest is None else float(soonest)

    @staticmethod
    def seal(connection: sqlite3.Connection, report: Waiting, key: int, sealed: bytes) -> None:
        """Keep the sealed bytes. If another process sealed the report first, its bytes win: a report is sealed once."""
        connection.execute(
            "UPDATE outbox SET key = ?, sealed = ? WHERE nonce = ? AND sealed IS ?",
            (key, sealed, report.drawn.nonce, report.sealed),
        )

    @staticmethod
    def remove(connection: sqlite3.Connection, nonces: Iterable[bytes]) -> None:
        """Remove reports that were acknowledged or given up. The ledger keeps their spends."""
        connection.executemany("DELETE FROM outbox WHERE nonce = ?", [(nonce,) for nonce in nonces])

    @staticmethod
    def size(connection: sqlite3.Connection) -> int:
        (count,) = connection.execute("SELECT count(*) FROM outbox").fetchone()
        return int(count)


_SELECT = f"SELECT lane, id, period, payload, nonce, closes_at, key, sealed FROM outbox WHERE {SOUND['outbox']}"  # noqa: S608  ours


def _waiting(row: tuple[Any, ...]) -> Waiting:
    return Waiting(Lane(row[0]), row[1], row[2], Draw(row[3], row[4]), *row[5:])


def _drop_oldest(connection: sqlite3.Connection, lane: Lane) -> int:
    held = f"SELECT count(*), total({_BYTES}) FROM outbox WHERE lane = ?"  # noqa: S608  ours
    count, size = connection.execute(held, (lane.value,)).fetchone()
    if count <= MOST_REPORTS and size <= MOST_BYTES:
        return 0
    gone: list[bytes] = []
    oldest = f"SELECT nonce, {_BYTES} FROM outbox WHERE lane = ? ORDER BY closes_at, send_at"  # noqa: S608  ours
    for nonce, bytes_ in connection.execute(oldest, (lane.value,)):
        if count - len(gone) <= MOST_REPORTS and size <= MOST_BYTES:
            break
        gone.append(nonce)
        size -= bytes_
    Outbox.remove(connection, gone)
    return len(gone)
