"""Batches in SQLite, and whose each is for now. Every function runs inside a transaction of its caller."""

from __future__ import annotations

import sqlite3

from hubbub_shuffler.permute import stretch
from hubbub_shuffler.storage._schema import THIS, count
from hubbub_shuffler.storage.protocol import LONGEST_PAUSE, Batch, Bucket, Claim, Plan, Terms

__all__ = ["claim", "extend", "insert", "postpone", "settle"]


def insert(db: sqlite3.Connection, bucket: Bucket, plan: Plan) -> None:
    """One row per id; the sizes are those into which the order will be cut."""
    kind, parts, total = "discard" if plan.discard else "batch", len(plan.ids), plan.distinct
    for part, id_ in enumerate(plan.ids):
        reports = 0 if plan.discard else len(range(total)[stretch(total, part, parts)])
        db.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, NULL, 0)",
            (id_, *bucket, kind, part, parts, reports),
        )


def claim(db: sqlite3.Connection, token: bytes, now: float, lease: float) -> Claim | None:
    """The batch that is due for longest, leased under this token."""
    row = db.execute(
        "SELECT id, metric, period, key, kind, part, parts, reports, sent, attempts FROM batches "
        "WHERE due <= ? OR due > ? ORDER BY due LIMIT 1",
        (now, now + LONGEST_PAUSE),
    ).fetchone()
    if row is None:
        return None
    id_, *bucket, kind, part, parts, reports, sent, attempts = row
    terms = db.execute(f"SELECT name, size, closes_at, minimum FROM buckets WHERE {THIS}", bucket).fetchone()  # noqa: S608  constant
    db.execute("UPDATE batches SET lease = ?, due = ? WHERE id = ?", (token, now + lease, id_))
    return Claim(Batch(id_, Bucket(*bucket), Terms(*terms), kind, part, parts, reports, bool(sent), attempts), token)


def extend(db: sqlite3.Connection, claim: Claim, due: float) -> bool:
    changed = db.execute("UPDATE batches SET due = ? WHERE id = ? AND lease = ?", (due, claim.batch.id, claim.token))
    return changed.rowcount == 1


def postpone(db: sqlite3.Connection, claim: Claim, due: float, *, sent: bool) -> bool:
    changed = db.execute(
        "UPDATE batches SET lease = NULL, due = ?, sent = ?, attempts = attempts + 1 WHERE id = ? AND lease = ?",
        (due, int(sent), claim.batch.id, claim.token),
    )
    return changed.rowcount == 1


def settle(db: sqlite3.Connection, claim: Claim, verdict: str) -> bool:
    """Take the batch away, count it, and free the bucket once that was its last one."""
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
