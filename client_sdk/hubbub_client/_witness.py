"""The witness: a small file beside the state, replaced whenever something drawn is about to leave the device.

It knows how many reports were drawn, in each lane of the outbox, and which file they are in. An older copy of the state
that someone puts back knows of fewer; one that was copied together with its witness is another file. Both are noticed
at the next start, and what they may have forgotten counts as spent (`_quarantine`).

The order makes a crash harmless: a draw is on disk first, then the witness tells of it, then the report leaves. What a
crash leaves behind is a witness that tells of too few, and of nothing that had left.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from hubbub_client._optout import sync_directory

__all__ = [
    "Drawn",
    "Witness",
    "begin",
    "count_draw",
    "drawn",
    "is_contradicted",
    "read_witness",
    "witness_path",
    "write_witness",
]

_FILE_NAME = "hubbub.witness"
_LANES = ("steady", "occasional")


class Drawn(NamedTuple):
    """How many reports were drawn in each lane, ever. One lane does not wait for what the other has to witness."""

    steady: int = 0
    occasional: int = 0

    def of(self, lane: str) -> int:
        return self[_LANES.index(lane)]


class Witness(NamedTuple):
    """What it says."""

    database: int
    """The inode of the state file."""
    itself: int
    """Its own inode."""
    drawn: Drawn
    at: float
    """When it was written, by the clock of this device."""

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever drawn here, nor lost."""
        return not any(self.drawn)


def witness_path(database: Path) -> Path:
    return database.with_name(_FILE_NAME)


def read_witness(database: Path) -> Witness | None:
    """None if there is none. One that cannot be understood, or was copied, is a witness of no file at all."""
    path = witness_path(database)
    try:
        with path.open("rb") as file:
            raw, itself = file.read(10_000), os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return None
    try:
        said = json.loads(raw)
        witness = Witness(
            int(said["database"]), int(said["itself"]), Drawn(*(int(said[lane]) for lane in _LANES)), float(said["at"])
        )
    except (ValueError, LookupError, TypeError):
        return Witness(0, itself, Drawn(1, 1), 0.0)
    return witness if witness.itself == itself else witness._replace(database=0)


def write_witness(database: Path, drawn: Drawn, at: float) -> Witness:
    """Replace it: all of it or nothing, on stable storage when this returns. OSError when that fails."""
    path = witness_path(database)
    made = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            witness = Witness(database.stat().st_ino, os.fstat(file.fileno()).st_ino, drawn, at)
            said = {"database": witness.database, "itself": witness.itself, **drawn._asdict(), "at": at}
            file.write(json.dumps(said).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, path)
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)
    sync_directory(path.parent)
    return witness


# -- what the state file says itself: inside a transaction of the caller's ------------------------


def begin(connection: sqlite3.Connection, witness: Witness | None, *, is_successor: bool) -> None:
    """The counters of a new file, or of one that had none. A successor goes on from those of the file that was lost, so
    that nobody takes what was lost for never drawn."""
    counted = witness.drawn if witness else Drawn()
    if is_successor:
        counted = Drawn(max(counted.steady, 1), counted.occasional)
    facts: list[tuple[str, Any]] = [(f"drawn:{lane}", counted.of(lane)) for lane in _LANES]
    facts += [(f"drawn_before:{lane}", counted.of(lane)) for lane in _LANES]
    if is_successor and witness is not None:
        facts.append(("succeeds", witness.database))
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)


def count_draw(connection: sqlite3.Connection, lane: str) -> None:
    """One more."""
    connection.execute("UPDATE facts SET value = value + 1 WHERE name = ?", (f"drawn:{lane}",))


def drawn(connection: sqlite3.Connection) -> Drawn:
    facts = _facts(connection)
    return Drawn(*(facts.get(f"drawn:{lane}", 0) for lane in _LANES))


def is_contradicted(connection: sqlite3.Connection, inode: int, witness: Witness | None) -> bool:
    """Whether this cannot be the file that the witness has seen, or it has forgotten draws since."""
    facts = _facts(connection)
    if any(f"drawn:{lane}" not in facts for lane in _LANES):
        return True
    is_untouched = all(facts[f"drawn:{lane}"] == facts.get(f"drawn_before:{lane}") for lane in _LANES)
    if witness is not None and witness.database == inode:
        return any(facts[f"drawn:{lane}"] < witness.drawn.of(lane) for lane in _LANES)
    # It is the witness of another file, or there is none: so it was when this file was made, and nothing came since.
    if "succeeds" in facts:
        return not is_untouched or witness is None or witness.database != facts["succeeds"]
    return not is_untouched or not (witness is None or witness.is_blank)


def _facts(connection: sqlite3.Connection) -> dict[str, int]:
    rows = connection.execute("SELECT name, value FROM facts WHERE name LIKE 'drawn%' OR name = 'succeeds'")
    return dict(rows.fetchall())
