"""The tables of the state file, and the upgrade from older versions."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from hubbub.period import DAY
from hubbub_client._integrity import checksum
from hubbub_client._integrity import witness as _witness
from hubbub_client._integrity.checksum import Forgetful
from hubbub_client._state.sqlite import VERSION_FUNCTION, connect

__all__ = ["VERSION", "NewerVersion", "create", "upgrade"]

VERSION = 5
_OLDEST = 2

_LONG_AFTER = 60 * DAY
"""Seconds after its end when no period can be charged any more."""

_FACTS = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE ledger (
    metric TEXT NOT NULL, end INTEGER NOT NULL, start INTEGER NOT NULL,
    decision TEXT NOT NULL, epsilon TEXT, day INTEGER, PRIMARY KEY (metric, end, start)
) WITHOUT ROWID;
CREATE INDEX ledger_end ON ledger (end);
"""
_PINS = """
CREATE TABLE pages (id BLOB PRIMARY KEY, document BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE pins (
    start INTEGER NOT NULL, end INTEGER NOT NULL, page BLOB NOT NULL, closes_at INTEGER NOT NULL,
    key INTEGER, public_key BLOB, PRIMARY KEY (end, start)
) WITHOUT ROWID;
CREATE TABLE reductions (
    metric TEXT NOT NULL, period INTEGER NOT NULL, reduce TEXT NOT NULL, state TEXT NOT NULL,
    closes_at REAL NOT NULL, at REAL NOT NULL, PRIMARY KEY (metric, period)
) WITHOUT ROWID;
CREATE TABLE outbox (
    nonce BLOB PRIMARY KEY, lane TEXT NOT NULL, id BLOB NOT NULL, period INTEGER NOT NULL, payload BLOB NOT NULL,
    due_at REAL NOT NULL, send_at REAL NOT NULL, closes_at REAL NOT NULL, key INTEGER, sealed BLOB
) WITHOUT ROWID;
"""
_TOTALS = """
CREATE TABLE days (day INTEGER PRIMARY KEY, epsilon TEXT NOT NULL);
CREATE TABLE totals (metric TEXT PRIMARY KEY, epsilon TEXT NOT NULL, reports INTEGER NOT NULL) WITHOUT ROWID;
"""
_TRIGGERS = "".join(
    f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table} BEGIN SELECT {VERSION_FUNCTION}(); END;\n"
    for table, verbs in {
        **dict.fromkeys(("ledger", "days", "totals"), ("INSERT", "UPDATE", "DELETE")),
        "outbox": ("INSERT", "UPDATE"),  # sealed bytes leave the device; an opt-out deletes
    }.items()
    for verb in verbs
)


class NewerVersion(sqlite3.DatabaseError):
    """The file was written by a newer SDK. It is left alone, as this SDK cannot know what counts as a spend in it."""


def create(path: Path, begin: Callable[[sqlite3.Connection], None]) -> None:
    """Make the file, private and whole, unless another process is faster. `begin` adds its first content.

    It is made under another name, so that a file that is found empty can only be one that has lost its content.
    """
    made = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        os.close(os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(connect(made, 0.0)) as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            _run(connection, _FACTS + _TOTALS + _PINS + _TRIGGERS)
            begin(connection)
            _witness.stamp(connection, made.stat())
            checksum.renew(connection)
            connection.execute(f"PRAGMA user_version={VERSION}")
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode=WAL")
        _publish(made, path)  # closed by now: closing any handle of a file gives up SQLite's locks on it
    finally:
        made.unlink(missing_ok=True)


def _publish(made: Path, path: Path) -> None:
    try:
        os.link(made, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links: a process that finds it half written takes it for damaged
        with suppress(FileExistsError), path.open("xb") as file:
            path.chmod(0o600)
            with closing(connect(made, 0.0)) as connection:
                _witness.stamp(connection, os.fstat(file.fileno()))
            file.write(made.read_bytes())
            file.flush()
            os.fsync(file.fileno())


def upgrade(connection: sqlite3.Connection, version: int, witness: _witness.Witness | None) -> None:
    """Upgrade a file of an older version, inside the caller's transaction: all of it or nothing.

    Raises Forgetful if its totals do not fit its rows, as the new checksums would say that they do. Also if there is a
    witness already: then a newer file was here, and this is an older copy.
    """
    if not _OLDEST <= version < VERSION:
        raise NewerVersion(f"the state file has version {version}, this SDK reads {_OLDEST} to {VERSION}")
    if witness is not None:
        raise Forgetful("a file of an older version where there was a newer one")
    if version < 3:
        _add_totals(connection)
    elif not _adds_up(connection):
        raise Forgetful("the totals do not fit the rows")
    if version < 4:
        _add_pins(connection)
    connection.execute("INSERT INTO facts SELECT 'closed_surely', 0 FROM facts WHERE name = 'closed_before'")
    (charged,) = connection.execute("SELECT count(*) FROM ledger WHERE epsilon IS NOT NULL").fetchone()
    _witness.begin(connection, None, charged=charged)
    _run(connection, _TRIGGERS)
    checksum.renew(connection)
    connection.execute(f"PRAGMA user_version={VERSION}")


def _adds_up(connection: sqlite3.Connection) -> bool:
    """Whether the totals by metric and by day are what the rows say. Where rows were merged, or lost with an earlier
    file, the totals may be higher; but not on days that come long after those."""
    rows = connection.execute("SELECT metric, day, epsilon, decision FROM ledger WHERE epsilon IS NOT NULL").fetchall()
    metrics, days = defaultdict[str, Fraction](Fraction), defaultdict[int, Fraction](Fraction)
    reports: defaultdict[str, int] = defaultdict(int)
    for metric, day, epsilon, decision in rows:
        metrics[metric] += Fraction(epsilon)
        days[day] += Fraction(epsilon)
        reports[metric] += decision == "spent"
    totals = {m: (Fraction(e), n) for m, e, n in connection.execute("SELECT metric, epsilon, reports FROM totals")}
    spent = {day: Fraction(epsilon) for day, epsilon in connection.execute("SELECT day, epsilon FROM days")}
    (merged,) = connection.execute("SELECT max(end) FROM ledger WHERE decision = 'closed'").fetchone()
    closed = connection.execute("SELECT value FROM facts WHERE name = 'closed_before'").fetchone()
    if merged is None and closed is None:
        return totals == {m: (metrics[m], reports[m]) for m in metrics} and spent == dict(days)
    since = (max(merged or 0, closed[0] if closed else 0) + _LONG_AFTER) // DAY
    return (
        all(metrics[m] <= totals.get(m, (0, 0))[0] and reports[m] <= totals[m][1] for m in metrics)
        and all(days[day] <= spent.get(day, 0) for day in days)
        and all(spent[day] == days.get(day, 0) for day in spent if day >= since)
    )


def _add_pins(connection: sqlite3.Connection) -> None:
    """Version 4 keeps values under the names of metrics, and a pin for each period."""
    metrics = _bundled_metrics(connection)
    kept = connection.execute("SELECT id, period, state, closes_at, at FROM reductions").fetchall()
    waiting = connection.execute("SELECT * FROM outbox").fetchall()
    for table in ("known", "reductions", "outbox"):
        connection.execute(f"DROP TABLE {table}")
    _run(connection, _PINS)
    values = [(m["name"], period, m["reduce"], *rest) for id_, period, *rest in kept if (m := metrics.get(id_))]
    connection.executemany("INSERT OR REPLACE INTO reductions VALUES (?, ?, ?, ?, ?, ?)", values)
    reports = [(nonce, _lane(metrics.get(id_)), id_, *rest) for nonce, id_, *rest in waiting]
    connection.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", reports)
    connection.execute("DELETE FROM ledger WHERE decision = 'in share'")  # charged when their period is pinned


def _bundled_metrics(connection: sqlite3.Connection) -> dict[bytes, dict[str, Any]]:
    """The metrics of the bundle in the file, by id. It was verified when it was kept."""
    row = connection.execute("SELECT value FROM facts WHERE name = 'bundle'").fetchone()
    try:
        body = json.loads(bytes(row[0]).split(b"\n", 2)[2]) if row else {"codebooks": []}
        found = [metric for entry in body["codebooks"] for metric in entry["codebook"]["metrics"]]
        return {bytes.fromhex(metric["id"]): {"missing": None, **metric} for metric in found}
    except (ValueError, LookupError, TypeError):
        return {}


def _lane(metric: dict[str, Any] | None) -> str:
    return "occasional" if metric is None or metric["missing"] is None else "steady"


def _add_totals(connection: sqlite3.Connection) -> None:
    """Version 3 keeps spends by day and by metric, and when a value was recorded."""
    connection.execute("ALTER TABLE reductions ADD COLUMN at REAL NOT NULL DEFAULT 0")
    connection.execute("DROP INDEX IF EXISTS ledger_day")
    _run(connection, _TOTALS)
    days: defaultdict[int, Fraction] = defaultdict(Fraction)
    metrics: defaultdict[str, list[Fraction]] = defaultdict(list)
    spent = "SELECT metric, day, epsilon FROM ledger WHERE decision = 'spent'"
    for metric, day, epsilon in connection.execute(spent):
        days[day] += Fraction(epsilon)
        metrics[metric].append(Fraction(epsilon))
    connection.executemany("INSERT INTO days VALUES (?, ?)", [(day, str(total)) for day, total in days.items()])
    connection.executemany(
        "INSERT INTO totals VALUES (?, ?, ?)",
        [(metric, str(sum(epsilons, Fraction(0))), len(epsilons)) for metric, epsilons in metrics.items()],
    )


def _run(connection: sqlite3.Connection, script: str) -> None:
    for statement in filter(str.strip, script.split(";\n")):  # not executescript, which would commit
        connection.execute(statement)
