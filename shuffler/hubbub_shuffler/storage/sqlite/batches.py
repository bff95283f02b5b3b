"""Batches and their leases in SQLite. Every function runs inside its caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from hubbub_shuffler.batching.permute import stretch
from hubbub_shuffler.storage.protocol import LONGEST_PAUSE, Batch, Bucket, Claim, HeldBatch, Plan, Terms
from hubbub_shuffler.storage.sqlite.schema import THIS, count

__all__ = ["claim", "claim_held", "extend", "held", "hold_back", "insert", "offer", "postpone", "settle"]

_DUE = "(due <= ? OR due > ?)"
"""With now and now + LONGEST_PAUSE as parameters: due, or set by a wrong clock."""
_FREE = f"held != '' AND (lease IS NULL OR {_DUE})"
"""Held, and not being offered now."""


def insert(db: sqlite3.Connection, bucket: Bucket, plan: Plan) -> None:
    """One row per id, with the size of its stretch of the order."""
    kind, parts, total = "discard" if plan.discard else "batch", len(plan.ids), plan.distinct
    for part, id_ in enumerate(plan.ids):
        reports = 0 if plan.discard else len(range(total)[stretch(total, part, parts)])
        db.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, NULL, 0, '', 0, 0)",
            (id_, *bucket, kind, part, parts, reports),
        )


def claim(db: sqlite3.Connection, token: bytes, now: float, lease: float) -> Claim | None:
    """The batch that has been due for longest, leased under this token."""
    return _claim(db, token, now, lease, f"{_DUE} ORDER BY due LIMIT 1", now, now + LONGEST_PAUSE)


def claim_held(db: sqlite3.Connection, id_: bytes, token: bytes, now: float, lease: float) -> Claim | None:
    return _claim(db, token, now, lease, f"id = ? AND {_FREE}", id_, now, now + LONGEST_PAUSE)


def _claim(
    db: sqlite3.Connection, token: bytes, now: float, lease: float, where: str, *given: float | bytes
) -> Claim | None:
    columns = "id, metric, period, key, kind, part, parts, reports, sent, attempts, held, until"
    row = db.execute(f"SELECT {columns} FROM batches WHERE {where}", given).fetchone()  # noqa: S608  constant
    if row is None:
        return None
    id_, *bucket, kind, part, parts, reports, sent, attempts, held, until = row
    terms = db.execute(f"SELECT name, size, closes_at, minimum FROM buckets WHERE {THIS}", bucket).fetchone()  # noqa: S608  constant
    db.execute("UPDATE batches SET lease = ?, due = ? WHERE id = ?", (token, now + lease, id_))
    return Claim(
        Batch(id_, Bucket(*bucket), Terms(*terms), kind, part, parts, reports, bool(sent), attempts, held, until), token
    )


def extend(db: sqlite3.Connection, claim: Claim, due: float) -> bool:
    changed = db.execute("UPDATE batches SET due = ? WHERE id = ? AND lease = ?", (due, claim.batch.id, claim.token))
    return changed.rowcount == 1


def postpone(db: sqlite3.Connection, claim: Claim, due: float, *, sent: bool) -> bool:
    changed = db.execute(
        "UPDATE batches SET lease = NULL, due = ?, sent = ?, attempts = attempts + 1 WHERE id = ? AND lease = ?",
        (due, int(sent), claim.batch.id, claim.token),
    )
    return changed.rowcount == 1


def hold_back(db: sqlite3.Connection, claim: Claim, why: str, since: int, until: int, due: float) -> bool:
    changed = db.execute(
        "UPDATE batches SET since = iif(held = '', ?, since), held = ?, until = ?, sent = 0, lease = NULL, due = ?, "
        "attempts = attempts + 1 WHERE id = ? AND lease = ?",
        (since, why, until, due, claim.batch.id, claim.token),
    )
    return changed.rowcount == 1


def held(db: sqlite3.Connection) -> list[HeldBatch]:
    rows = db.execute(
        "SELECT id, name, period, batches.reports, held, since, until FROM batches "
        "JOIN buckets USING (metric, period, key) WHERE held != '' ORDER BY period, name, id"
    )
    return [HeldBatch(*row) for row in rows]


def offer(db: sqlite3.Connection, ids: Collection[bytes] | None, now: float) -> int:
    where, clocks = f"UPDATE batches SET due = 0 WHERE {_FREE}", (now, now + LONGEST_PAUSE)  # noqa: S608  constant
    if ids is None:
        return db.execute(where, clocks).rowcount
    return sum(db.execute(f"{where} AND id = ?", (*clocks, id_)).rowcount for id_ in ids)


def settle(db: sqlite3.Connection, claim: Claim, verdict: str) -> bool:
    """Remove the batch, count it, and mark its bucket as spent if it was the last one."""
    batch = claim.batch
    held = db.execute("SELECT reports FROM batches WHERE id = ? AND lease = ?", (batch.id, claim.token)).fetchone()
    if held is None:
        return False
    db.execute("DELETE FROM batches WHERE id = ?", (batch.id,))
    what = verdict if batch.kind == "batch" else f"discard-{verdict}"
    count(db, batch.terms.name, what, reports=held[0], batches=1)
    left = db.execute(f"SELECT 1 FROM batches WHERE {THIS} LIMIT 1", batch.bucket).fetchone()  # noqa: S608  constant
    if left is None:
        db.execute(
            f"UPDATE buckets SET state = 'spent' WHERE {THIS} AND state = 'planned'",  # noqa: S608  constant
            batch.bucket,
        )
    return True
