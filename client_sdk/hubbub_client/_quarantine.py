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
from hubbub_client import _checksum
from hubbub_client._witness import is_contradicted, read_witness, witness_path

__all__ = [
    "IMPLAUSIBLE",
    "Emptied",
    "Forgetful",
    "Salvaged",
    "damaged_path",
    "is_damage",
    "keep_closed",
    "last_seen",
    "put_aside",
    "start_closed",
]

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_MOMENTS = ("fetched_at", "closed_surely")
"""At which the file was at work, or could have been."""
_NUMBERS = (*_MOMENTS, "sequence")
IMPLAUSIBLE = 60 * DAY
"""So far in the future, a moment that was written down is one of a clock that was wrong."""
_WORTH_KEEPING = ("pin", "sequence", "digest")
"""Whom to trust and which bundle came last, so that damage does not help an older one."""


class Salvaged(NamedTuple):
    """What could still be read of a file that is put aside."""

    facts: list[tuple[str, Any]]
    totals: list[tuple[str, str, int]] | None
    """Lifetime spends by metric; None when they are lost."""
    spent: list[tuple[str, int, int]]
    """Metric, start and end of each period that was spent, as far as that can be read."""
    last_seen: float = 0.0
    """The latest moment that this device was seen to be at work, by anything but its clock now."""


class Emptied(sqlite3.DatabaseError):
    """A file without anything in it, which is no way in which one begins."""


class Forgetful(sqlite3.DatabaseError):
    """A file that lacks spends: a page of it was lost, or it is an older copy."""


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no database any more, as opposed to busy, full or not ours."""
    if isinstance(error, Emptied | Forgetful):
        return True
    return isinstance(error, sqlite3.DatabaseError) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE


def damaged_path(path: Path) -> Path:
    """Where the last damaged file is kept, for whoever wants to look; a person's opt-out deletes it."""
    return path.with_name(path.name + ".damaged")


def put_aside(path: Path, *, by_system_clock: bool) -> Salvaged:
    """Rename the file, after reading of it what can be read. A log without its file would be applied to the next."""
    salvaged = _salvage(path)._replace(last_seen=last_seen(path, by_system_clock=by_system_clock))
    os.replace(path, damaged_path(path))
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).unlink()
    return salvaged


def last_seen(path: Path, *, by_system_clock: bool) -> float:
    """The latest moment that the files tell of. The times at which they were written count only if the client goes by
    the same clock as the system."""
    moments = [0.0]
    with suppress(OSError):
        witness = read_witness(path)
        moments.append(witness.at if witness else 0.0)
    for file in (path, path.with_name(path.name + "-wal"), witness_path(path)) if by_system_clock else ():
        with suppress(OSError):
            moments.append(file.stat().st_mtime)
    return max(moments)


def start_closed(connection: sqlite3.Connection, moment: float, salvaged: Salvaged) -> None:
    """Mark a new file as the successor of one whose spends are lost.

    Closed is what began before now, and before any moment at which the old file was at work: a clock that is behind
    opens nothing. What a clock that was far ahead has spent is closed by itself.
    """
    facts = {name: value for name, value in salvaged.facts if name in _WORTH_KEEPING}
    seen = max([salvaged.last_seen, *(value for name, value in salvaged.facts if name in _MOMENTS)])
    limit = max(moment, seen) + IMPLAUSIBLE
    surely = max([seen, *(start + 1 for _, start, _ in salvaged.spent if start <= limit)])
    if surely + IMPLAUSIBLE >= (issued := float(facts.get("sequence", 0))):
        surely = max(surely, issued)  # the aggregator's clock, which may close more
    facts |= {"closed_before": max(moment, surely), "closed_surely": surely}
    if salvaged.totals is None:
        facts["lifetime_unknown"] = 1
    connection.executemany("INSERT OR IGNORE INTO totals VALUES (?, ?, ?)", salvaged.totals or [])
    spans = [(metric, end, start) for metric, start, end in salvaged.spent]
    connection.executemany("INSERT OR IGNORE INTO ledger VALUES (?, ?, ?, 'closed', NULL, NULL)", spans)
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", list(facts.items()))


def keep_closed(connection: sqlite3.Connection, now: float) -> None:
    """A clock that was far ahead at that moment does not close for years; but what was surely at work stays closed,
    wherever the clock is now."""
    changed = connection.execute(
        "UPDATE facts SET value = max(?, (SELECT value FROM facts WHERE name = 'closed_surely'))"
        " WHERE name = 'closed_before' AND value > ?"
        " AND EXISTS (SELECT 1 FROM facts WHERE name = 'closed_surely')",
        (now, now + IMPLAUSIBLE),
    )
    if changed.rowcount:
        _checksum.renew(connection)


def _salvage(path: Path) -> Salvaged:
    facts: list[tuple[str, Any]] = []
    totals: list[tuple[str, str, int]] | None = None
    spent: list[tuple[str, int, int]] = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        with suppress(sqlite3.Error):
            wanted = (*_WORTH_KEEPING, *_MOMENTS)
            marks = ", ".join("?" * len(wanted))
            found = connection.execute(f"SELECT name, value FROM facts WHERE name IN ({marks})", wanted)  # noqa: S608  question marks
            facts = [(name, value) for name, value in found if name not in _NUMBERS or isinstance(value, int | float)]
        with suppress(sqlite3.Error, OSError):
            unknown = connection.execute("SELECT 1 FROM facts WHERE name = 'lifetime_unknown'").fetchone()
            contradicted = is_contradicted(connection, path.stat().st_ino, read_witness(path))
            # Only of a table that is whole, in a file that is the newest: else a total would be too small.
            if unknown is None and not contradicted and _checksum.is_whole(connection, "totals"):
                totals = connection.execute("SELECT metric, epsilon, reports FROM totals").fetchall()
        with suppress(sqlite3.Error):
            rows = connection.execute("SELECT metric, start, end FROM ledger WHERE decision = 'spent'")
            spent = [row for row in rows if isinstance(row[1], int) and isinstance(row[2], int)]
    return Salvaged(facts, totals, spent)
