"""The witness: a small file beside the state file, replaced after each charge, and before a drawn report leaves.

It knows how many charges there were, how many reports were drawn in each lane of the outbox, and which file they are
in. If an older copy of the state file is put back, that copy has fewer of them; if it is put back together with its
witness, it is another file. Both are noticed at the next start, and what the copy may have forgotten counts as spent
(`quarantine`).

Charges decide whether a file may be believed when it says that nothing was spent. They come with the pin of a period,
so that the consequences are the same whatever was recorded.

The order makes a crash harmless: a charge or draw is on disk first, then the witness counts it, then something is drawn
on that charge, or the report leaves. After a crash, the witness may count too few, but only of what has not left.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from contextlib import suppress
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from hubbub_client._consent.opt_out_file import sync_directory

__all__ = [
    "Counted",
    "Lack",
    "Witness",
    "begin",
    "count",
    "counted",
    "lack_of",
    "raise_occasional_count",
    "read_witness",
    "stamp",
    "tidy",
    "witness_path",
    "write_witness",
]

_FILE_NAME = "hubbub.witness"


class Counted(NamedTuple):
    """How many charges there ever were, and how many draws in each lane. Lanes are counted apart, so that neither waits
    for the other's witness."""

    charged: int = 0
    steady: int = 0
    occasional: int = 0

    def of(self, what: str) -> int:
        return self[self._fields.index(what)]


class Witness(NamedTuple):
    """The content of a witness."""

    database: int
    """The inode of the state file."""
    itself: int
    """Its own inode."""
    counted: Counted
    at: float
    """Only periods that began before this moment may have been drawn. 0: none."""
    mark: str = ""
    """Identifies the very file that was read, whatever it says."""

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever charged here, nor lost; and so nothing was ever drawn."""
        return self.counted.charged == 0

    def is_of(self, inode: int) -> bool:
        """Whether it is the witness of this file. One that was copied or cannot be read is the witness of none."""
        return 0 != inode == self.database


def witness_path(database: Path) -> Path:
    return database.with_name(_FILE_NAME)


def read_witness(database: Path) -> Witness | None:
    """The witness, if there is one. One that cannot be read, or was copied, is the witness of no file at all."""
    path = witness_path(database)
    try:
        with path.open("rb") as file:
            raw, itself = file.read(10_000), os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        return _UNREADABLE
    mark = blake2b(raw + b"%d" % itself, digest_size=8).hexdigest()
    try:
        said = json.loads(raw)
        numbers = Counted(*(int(said[what]) for what in Counted._fields))
        witness = Witness(int(said["database"]), int(said["itself"]), numbers, float(said["at"]), mark)
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return _UNREADABLE._replace(mark=mark)
    if not (0 <= witness.at < 2**60 and all(0 <= number < 2**60 for number in numbers)):
        return _UNREADABLE._replace(mark=mark)
    return witness if witness.itself == itself else witness._replace(database=0)


_UNREADABLE = Witness(0, 0, Counted(1, 1, 1), 0.0)


def write_witness(database: Path, counted: Counted, at: float) -> Witness:
    """Replace the witness: all of it or nothing, on stable storage when this returns. Raises OSError if that fails."""
    path = witness_path(database)
    made = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with open(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            witness = Witness(database.stat().st_ino, os.fstat(file.fileno()).st_ino, counted, at)
            said = {"database": witness.database, "itself": witness.itself, **counted._asdict(), "at": at}
            file.write(json.dumps(said).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if path.is_dir():  # an empty directory of that name is only in the way
            path.rmdir()
        os.replace(made, path)
    finally:
        with suppress(OSError):
            made.unlink(missing_ok=True)
    sync_directory(path.parent)
    return witness


def tidy(database: Path) -> None:
    """Delete files that killed processes left. Under the state file's write lock, so that no other process is writing a
    witness."""
    for left in database.parent.glob(f"{_FILE_NAME}.*-*"):
        with suppress(OSError):
            left.unlink()


# -- what the state file says itself: inside the caller's transaction -----------------------------


class Lack(Enum):
    """What a file has forgotten, according to its witness."""

    NOTHING = "nothing"
    OCCASIONAL = "occasional"
    """Draws of metrics without `missing`, in periods whose charges it has."""
    SPENDS = "spends"
    """It cannot be the file that the witness has seen, or it has forgotten charges or draws since."""


def begin(
    connection: sqlite3.Connection, witness: Witness | None, *, is_successor: bool = False, charged: int = 0
) -> None:
    """Set the counters of a new file, or of one that had none. A successor continues those of the lost file, so that
    what was lost is not taken for never charged."""
    start = witness.counted if witness else Counted(charged=charged)
    if is_successor:
        start = start._replace(charged=max(start.charged, 1))
    facts: list[tuple[str, Any]] = [(f"counted:{what}", start.of(what)) for what in Counted._fields]
    facts += [(f"counted_before:{what}", start.of(what)) for what in Counted._fields]
    if is_successor:
        facts.append(("succeeds", witness.mark if witness else ""))
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)


def stamp(connection: sqlite3.Connection, file: os.stat_result) -> None:
    """Write a new file's own inode into it, so that a copy of it can be told apart."""
    connection.execute("INSERT OR REPLACE INTO facts VALUES ('made_as', ?)", (str(file.st_ino),))


def count(connection: sqlite3.Connection, what: str) -> None:
    """Count one more charge, or draw of a lane."""
    connection.execute("UPDATE facts SET value = value + 1 WHERE name = ?", (f"counted:{what}",))


def counted(connection: sqlite3.Connection) -> Counted:
    facts = _facts(connection)
    return Counted(*(facts.get(f"counted:{what}", 0) for what in Counted._fields))


def raise_occasional_count(connection: sqlite3.Connection, number: int) -> None:
    """Count the forgotten draws, too, now that nothing more is drawn on their charges."""
    connection.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'counted:occasional'", (number,))


def lack_of(connection: sqlite3.Connection, inode: int, witness: Witness | None) -> Lack:
    """What this file lacks if the witness is right. Whether that is `SPENDS` does not depend on what was recorded."""
    facts = _facts(connection)
    if any(f"counted:{what}" not in facts for what in Counted._fields):
        return Lack.SPENDS
    if witness is not None and witness.is_of(inode):
        short = [what for what in Counted._fields if facts[f"counted:{what}"] < witness.counted.of(what)]
        if short == ["occasional"]:
            return Lack.OCCASIONAL
        return Lack.SPENDS if short else Lack.NOTHING
    # The witness is of another file, or there is none. That is fine if it was so when this file was made, and nothing
    # was counted since.
    never_recorded = ("charged", "steady")
    is_untouched = all(facts[f"counted:{what}"] == facts.get(f"counted_before:{what}") for what in never_recorded)
    if "succeeds" in facts:  # a copy of a successor may come with a copied witness
        is_so = facts.get("made_as") == str(inode) and facts["succeeds"] == (witness.mark if witness else "")
    else:
        is_so = witness is None or witness.is_blank
    return Lack.NOTHING if is_untouched and is_so else Lack.SPENDS


def _facts(connection: sqlite3.Connection) -> dict[str, Any]:
    names = "name LIKE 'counted%' OR name IN ('succeeds', 'made_as')"
    return dict(connection.execute(f"SELECT name, value FROM facts WHERE {names}").fetchall())  # noqa: S608  ours
