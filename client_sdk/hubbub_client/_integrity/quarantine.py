"""A damaged state file is put aside, and what it may have held of the budget counts as spent.

Nobody can read any more which periods were spent. So the file that takes its place is *closed* up to that moment:
no period that began before it is reported, and nothing more is spent on that UTC day. What was spent in all is
carried over if it can still be read; if not, a client with a `lifetime_epsilon` reports nothing more.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from hubbub.period import DAY
from hubbub_client._integrity import checksum
from hubbub_client._integrity.checksum import Forgetful
from hubbub_client._integrity.torn_rows import Torn
from hubbub_client._integrity.witness import Lack, lack_of, read_witness, witness_path

__all__ = [
    "IMPLAUSIBLE",
    "Emptied",
    "Salvaged",
    "damaged_path",
    "forget_damaged",
    "is_damage",
    "keep_closed",
    "last_seen",
    "latest_charge",
    "put_aside",
    "salvage",
    "start_closed",
]

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_MOMENTS = ("fetched_at", "closed_surely")
"""At which the file was at work, or could have been."""
_NUMBERS = (*_MOMENTS, "sequence")
IMPLAUSIBLE = 60 * DAY
"""So far ahead of the clock, a moment that was written down is one of a clock that was wrong."""
_WORTH_KEEPING = ("pin", "sequence", "digest")
"""Whom to trust and which bundle came last, so that damage does not help an older one."""


class Salvaged(NamedTuple):
    """What could still be read of a file that is put aside."""

    facts: list[tuple[str, Any]]
    totals: list[tuple[str, str, int]] | None
    """Lifetime spends by metric; None when they are lost."""
    charged: list[tuple[str, int, int]]
    """Metric, start and end of each period that was charged, or closed before, as far as that can be read. Whether it
    was spent depends on what was recorded, so nothing follows from that."""
    last_seen: float = 0.0
    """The latest moment that this device was seen to be at work, by anything but its clock now."""


class Emptied(sqlite3.DatabaseError):
    """A file without anything in it, which is no way in which one begins."""


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no database any more, as opposed to busy, full or not ours."""
    if isinstance(error, Emptied | Forgetful | Torn):
        return True
    return isinstance(error, sqlite3.DatabaseError) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE


def damaged_path(path: Path) -> Path:
    """Where the last damaged file is kept, for whoever wants to look; a person's opt-out deletes it."""
    return path.with_name(path.name + ".damaged")


def put_aside(path: Path, *, by_system_clock: bool) -> Salvaged:
    """Rename the file, after reading of it what can be read. Its log comes along, and first: one without its file would
    be applied to the next."""
    salvaged = salvage(path, path)._replace(last_seen=last_seen(path, by_system_clock=by_system_clock))
    with suppress(FileNotFoundError):
        os.replace(_log(path), _log(damaged_path(path)))
    os.replace(path, damaged_path(path))
    with suppress(FileNotFoundError):
        path.with_name(path.name + "-shm").unlink()
    return salvaged


def forget_damaged(path: Path) -> None:
    """Delete what was put aside: who knows what it holds."""
    for file in (damaged_path(path), _log(damaged_path(path))):
        file.unlink(missing_ok=True)


def last_seen(path: Path, *, by_system_clock: bool) -> float:
    """The latest moment that the files tell of. A witness that is our own tells exactly until when something may have
    been drawn. Without one, the times at which they were written count, if the client goes by the system's clock: those
    also tell of records, and of looks at a clock that was wrong."""
    witness = None
    with suppress(OSError):
        witness = read_witness(path)
    moments = [witness.at if witness else 0.0]
    if by_system_clock and (witness is None or witness.database == 0):
        for file in (path, _log(path), damaged_path(path), witness_path(path)):
            with suppress(OSError):
                moments.append(file.stat().st_mtime)
    return max(moments)


def latest_charge(connection: sqlite3.Connection, limit: float) -> float:
    """Everything that was ever drawn began before this moment, and no charge is of a later day; 0 if there was none.
    As far as it began by `limit`."""
    rows = """
        SELECT max(max(start + 1, coalesce(day, 0) * :day, CASE decision WHEN 'closed' THEN end ELSE 0 END))
        FROM ledger WHERE start <= :limit AND (epsilon IS NOT NULL OR decision = 'closed')
    """
    (latest,) = connection.execute(rows, {"day": DAY, "limit": limit}).fetchone()
    row = connection.execute("SELECT value FROM facts WHERE name = 'closed_surely'").fetchone()
    return max(float(latest or 0), float(row[0]) if row else 0.0)


def start_closed(connection: sqlite3.Connection, moment: float, salvaged: Salvaged) -> None:
    """Mark a new file as the successor of one whose spends are lost.

    Closed is what began before now, and before any moment at which the old file was at work: a clock that is behind
    opens nothing. What a clock that was far ahead has charged is closed by itself.
    """
    facts = {name: value for name, value in salvaged.facts if name in _WORTH_KEEPING}
    seen = max([salvaged.last_seen, *(value for name, value in salvaged.facts if name in _MOMENTS)])
    limit = max(moment, seen) + IMPLAUSIBLE
    surely = max([seen, *(start + 1 for _, start, _ in salvaged.charged if start <= limit)])
    if surely + IMPLAUSIBLE >= (issued := float(facts.get("sequence", 0))):
        surely = max(surely, issued)  # the aggregator's clock, which may close more
    facts |= {"closed_before": max(moment, surely), "closed_surely": surely}
    if salvaged.totals is None:
        facts["lifetime_unknown"] = 1
    connection.executemany("INSERT OR IGNORE INTO totals VALUES (?, ?, ?)", salvaged.totals or [])
    spans = [(metric, end, start) for metric, start, end in salvaged.charged]
    connection.executemany("INSERT OR IGNORE INTO ledger VALUES (?, ?, ?, 'closed', NULL, NULL)", spans)
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", list(facts.items()))


def keep_closed(connection: sqlite3.Connection, now: float) -> None:
    """A clock that was far ahead at that moment does not close for years; but what was surely at work stays closed,
    wherever the clock is now."""
    with checksum.renewing(connection, "closed"):
        connection.execute(
            "UPDATE facts SET value = max(?, (SELECT value FROM facts WHERE name = 'closed_surely'))"
            " WHERE name = 'closed_before' AND value > ?"
            " AND EXISTS (SELECT 1 FROM facts WHERE name = 'closed_surely')",
            (now, now + IMPLAUSIBLE),
        )


def salvage(path: Path, beside: Path) -> Salvaged:
    """What can be read of a file; `beside` is where its witness is."""
    facts: list[tuple[str, Any]] = []
    totals: list[tuple[str, str, int]] | None = None
    charged: list[tuple[str, int, int]] = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        with suppress(sqlite3.Error):
            wanted = (*_WORTH_KEEPING, *_MOMENTS)
            marks = ", ".join("?" * len(wanted))
            found = connection.execute(f"SELECT name, value FROM facts WHERE name IN ({marks})", wanted)  # noqa: S608  question marks
            facts = [
                (n, value) for n, value in found if isinstance(value, int | float if n in _NUMBERS else str | bytes)
            ]
        with suppress(sqlite3.Error, OSError):
            unknown = connection.execute("SELECT 1 FROM facts WHERE name = 'lifetime_unknown'").fetchone()
            lack = lack_of(connection, path.stat().st_ino, read_witness(beside))
            # Only of a table that is whole, in a file that is the newest: else a total would be too small.
            if unknown is None and lack is not Lack.SPENDS and checksum.is_whole(connection, "totals"):
                totals = connection.execute("SELECT metric, epsilon, reports FROM totals").fetchall()
        with suppress(sqlite3.Error):
            closed = "epsilon IS NOT NULL OR decision = 'closed'"
            rows = connection.execute(f"SELECT metric, start, end FROM ledger WHERE {closed}")  # noqa: S608  ours
            charged = [row for row in rows if isinstance(row[1], int) and isinstance(row[2], int)]
    return Salvaged(facts, totals, charged)


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")
