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

__all__ = ["Emptied", "Salvaged", "damaged_path", "is_damage", "put_aside", "start_closed"]

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_WORTH_KEEPING = ("pin", "sequence", "digest")
"""Whom to trust and which bundle came last, so that damage does not help an older one."""


class Salvaged(NamedTuple):
    """What could still be read of a damaged file."""

    facts: list[tuple[str, Any]]
    totals: list[tuple[str, str, int]] | None
    """Lifetime spends by metric; None when they are lost."""
    newest: int = 0
    """When the newest period began that was spent: a clock that was wrong may have been ahead."""


class Emptied(sqlite3.DatabaseError):
    """A file without anything in it, which is no way in which one begins."""


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no database any more, as opposed to busy, full or not ours."""
    if isinstance(error, Emptied):
        return True
    return isinstance(error, sqlite3.DatabaseError) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE


def damaged_path(path: Path) -> Path:
    """Where the last damaged file is kept, for whoever wants to look; a person's opt-out deletes it."""
    return path.with_name(path.name + ".damaged")


def put_aside(path: Path) -> Salvaged:
    """Rename the file, after reading of it what can be read. A log without its file would be applied to the next."""
    salvaged = _salvage(path)
    os.replace(path, damaged_path(path))
    for ending in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).unlink()
    return salvaged


def start_closed(connection: sqlite3.Connection, moment: float, salvaged: Salvaged | None) -> None:
    """Mark a new file as the successor of one whose spends are lost."""
    # Until now, and until whatever a clock that was ahead has spent.
    facts: list[tuple[str, Any]] = [("closed_before", max(moment, salvaged.newest + 1 if salvaged else 0))]
    if salvaged is None or salvaged.totals is None:
        facts.append(("lifetime_unknown", 1))
    if salvaged is not None:
        facts += salvaged.facts
        connection.executemany("INSERT OR IGNORE INTO totals VALUES (?, ?, ?)", salvaged.totals or [])
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)


def _salvage(path: Path) -> Salvaged:
    facts: list[tuple[str, Any]] = []
    totals: list[tuple[str, str, int]] | None = None
    newest: int | None = None
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        with suppress(sqlite3.Error):
            marks = ", ".join("?" * len(_WORTH_KEEPING))
            found = connection.execute(f"SELECT name, value FROM facts WHERE name IN ({marks})", _WORTH_KEEPING)  # noqa: S608  question marks
            facts = found.fetchall()
        with suppress(sqlite3.Error):
            unknown = connection.execute("SELECT 1 FROM facts WHERE name = 'lifetime_unknown'").fetchone()
            # Only of a table that is whole: a total that lost a row would be too small.
            if unknown is None and connection.execute("PRAGMA integrity_check('totals')").fetchone() == ("ok",):
                totals = connection.execute("SELECT metric, epsilon, reports FROM totals").fetchall()
        with suppress(sqlite3.Error):
            (newest,) = connection.execute("SELECT max(start) FROM ledger WHERE decision = 'spent'").fetchone()
    return Salvaged(facts, totals, newest or 0)
