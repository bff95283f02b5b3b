"""Quarantine of a damaged state file: it is put aside, and whatever it may have spent counts as spent.

Which periods were spent can no longer be read. So the new file is *closed* up to the moment when it is made: no period
that began before it is reported, and nothing more is spent on that UTC day. The lifetime total is carried over if it
can still be read; if not, a client with a `lifetime_epsilon` reports nothing more.
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
from hubbub_client._integrity.witness import Lack, Witness, lack_of, read_witness, witness_path

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
    "lost_spends",
    "put_aside",
    "salvage",
    "start_closed",
]

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_MOMENTS = ("fetched_at", "closed_surely")
"""Facts that hold moments at which the file was in use, or could have been."""
_NUMBERS = (*_MOMENTS, "sequence")
IMPLAUSIBLE = 60 * DAY
"""Seconds. A moment in the file that is further ahead of the clock than this was written by a wrong clock."""
_WORTH_KEEPING = ("pin", "sequence", "digest")
"""Facts that say whom to trust and which bundle came last, so that damage does not let an older one in."""


class Salvaged(NamedTuple):
    """What can still be read of a file that is put aside."""

    facts: list[tuple[str, Any]]
    totals: list[tuple[str, str, int]] | None
    """Lifetime spends by metric; None when they are lost."""
    charged: list[tuple[str, int, int]]
    """Metric, start and end of each period that was charged or closed, as far as that can be read. Whether a period was
    spent depends on what was recorded, so it is not used."""
    last_seen: float = 0.0
    """The latest moment at which this device is known to have run, by anything but its clock now."""


class Emptied(sqlite3.DatabaseError):
    """An empty file. A new file is never empty, so it has lost its content."""


def is_damage(error: Exception) -> bool:
    """Whether an error says that the file is no longer a usable database, as opposed to busy, full or newer."""
    if isinstance(error, Emptied | Forgetful | Torn):
        return True
    return isinstance(error, sqlite3.DatabaseError) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE


def damaged_path(path: Path) -> Path:
    """Where the last damaged file is kept, for inspection. An opt-out deletes it."""
    return path.with_name(path.name + ".damaged")


def put_aside(path: Path, *, by_system_clock: bool) -> Salvaged:
    """Read what can be read of the file, then rename it. Its log is renamed first: a log without its file would be
    applied to the next file."""
    salvaged = salvage(path, path)._replace(last_seen=last_seen(path, by_system_clock=by_system_clock))
    with suppress(FileNotFoundError):
        os.replace(_log(path), _log(damaged_path(path)))
    os.replace(path, damaged_path(path))
    with suppress(FileNotFoundError):
        path.with_name(path.name + "-shm").unlink()
    return salvaged


def forget_damaged(path: Path) -> None:
    """Delete the damaged file, as it may still hold true values."""
    for file in (damaged_path(path), _log(damaged_path(path))):
        file.unlink(missing_ok=True)


def lost_spends(path: Path, witness: Witness | None) -> bool:
    """Whether a file that may hold spends was here, if there is none now: it was put aside, or the witness knows it."""
    return damaged_path(path).exists() or (witness is not None and not witness.is_blank)


def last_seen(path: Path, *, by_system_clock: bool) -> float:
    """The latest moment at which the files were in use. This device's own witness says exactly until when something may
    have been drawn. Without one, the files' modification times count, if the client uses the system's clock; they also
    reflect records, and moments when the clock was wrong."""
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
    """A moment by which every period that was ever drawn had begun, and every charged day; 0 if there was none. Only
    periods that began by `limit` count."""
    rows = """
        SELECT max(max(start + 1, coalesce(day, 0) * :day, CASE decision WHEN 'closed' THEN end ELSE 0 END))
        FROM ledger WHERE start <= :limit AND (epsilon IS NOT NULL OR decision = 'closed')
    """
    (latest,) = connection.execute(rows, {"day": DAY, "limit": limit}).fetchone()
    row = connection.execute("SELECT value FROM facts WHERE name = 'closed_surely'").fetchone()
    return max(float(latest or 0), float(row[0]) if row else 0.0)


def start_closed(connection: sqlite3.Connection, moment: float, salvaged: Salvaged) -> None:
    """Mark a new file as the successor of one whose spends are lost.

    It closes every period that began before now, or before any moment at which the old file was in use, so a clock that
    is behind reopens nothing. Periods that were charged while the clock was far ahead are closed one by one.
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
    """Bring `closed_before` back to now if a clock that was far ahead has set it, so that nothing is closed for years.
    What `closed_surely` covers stays closed, wherever the clock is now."""
    with checksum.renewing(connection, "closed"):
        connection.execute(
            "UPDATE facts SET value = max(?, (SELECT value FROM facts WHERE name = 'closed_surely'))"
            " WHERE name = 'closed_before' AND value > ?"
            " AND EXISTS (SELECT 1 FROM facts WHERE name = 'closed_surely')",
            (now, now + IMPLAUSIBLE),
        )


def salvage(path: Path, beside: Path) -> Salvaged:
    """What can be read of a file. Its witness is the one of the state file at `beside`."""
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
            # Only from a whole table in the newest file: otherwise a total could be too small.
            if unknown is None and lack is not Lack.SPENDS and checksum.is_whole(connection, "totals"):
                totals = connection.execute("SELECT metric, epsilon, reports FROM totals").fetchall()
        with suppress(sqlite3.Error):
            closed = "epsilon IS NOT NULL OR decision = 'closed'"
            rows = connection.execute(f"SELECT metric, start, end FROM ledger WHERE {closed}")  # noqa: S608  ours
            charged = [row for row in rows if isinstance(row[1], int) and isinstance(row[2], int)]
    return Salvaged(facts, totals, charged)


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")
