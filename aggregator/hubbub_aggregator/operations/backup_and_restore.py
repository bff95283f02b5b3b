"""Backup of the embedded storage, made while the aggregator runs, and its restore.

A backup holds releases, verdicts, codebooks and nonces. It holds private keys only on request; without them, a restore
revokes the sealing keys, and replaces them for periods that have not begun. Waiting bodies are never in it: the
shuffler holds every batch until its verdict, and sends a batch again that the aggregator does not know.

What was published after the backup is not in it, and a shuffler takes no bundle that forgets the key of a begun period:
the newest bundle, which every shuffler relays, says what is missing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hubbub.bundle import verify
from hubbub.canonical import canonical_bytes
from hubbub.errors import InvalidParameter, UntrustedBundle
from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.publication.codebook_versions import Codebooks
from hubbub_aggregator.publication.collection_end import is_stop_page, keep_last_periods
from hubbub_aggregator.publication.collection_pause import Pause, pause_at
from hubbub_aggregator.publication.keys import IDENTITY, KeyRing, load_identity
from hubbub_aggregator.publication.lead_time import CACHE_LIFETIMES, cache_lifetime
from hubbub_aggregator.storage import SignedBundle, SqliteStorage, StoredCodebook, StoredKey
from hubbub_service_common.process.atomic_files import new_file, state_directory

if TYPE_CHECKING:
    from hubbub.bundle_body import Body, SealingKey
    from hubbub_aggregator.storage import Storage

__all__ = ["Restored", "backup", "catch_up", "restore"]

_MARK = "hubbub aggregator backup 1"
_MOST_LISTED = 192
"""Most keys of a restored state before new ones are made: a backup and a bundle may hold different keys."""


class Restored(NamedTuple):
    """What became of the sealing keys."""

    revoked: int
    """How many had to be revoked because their private halves are gone."""
    pause: Pause | None
    """Set if the period of the restore has no live key."""
    lead: int = 0
    """Seconds by which a new key is published ahead."""


def backup(database: Path, file: Path, *, identity: Path | None = None) -> None:
    """Copy a database consistently into a new file, mode 0600.

    Private keys are in it only if the file of the identity key is given; the identity is then in it too.
    """
    if not database.exists():
        raise InvalidParameter(f"{database} does not exist: start the aggregator once, or check --state-dir")
    if identity is not None and not identity.exists():
        raise InvalidParameter(f"{identity} does not exist: this backup could not hold the identity")
    with _new_file(file) as part, closing(sqlite3.connect(part, isolation_level=None)) as copy:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as source:
            # in one step: that blocks no writer, and a copy in several steps would start over after each write
            source.backup(copy)
        copy.execute("PRAGMA secure_delete = ON")
        copy.execute("CREATE TABLE backup (mark TEXT NOT NULL, identity BLOB) STRICT")
        copy.execute("INSERT INTO backup VALUES (?, ?)", (_MARK, None if identity is None else identity.read_bytes()))
        if identity is None:
            copy.execute("UPDATE keys SET private_key = NULL")
        copy.execute("VACUUM")
        copy.execute("PRAGMA journal_mode = DELETE")


def restore(
    file: Path, state_dir: Path, database: str, now: float, relayed: bytes | None = None, *, max_age: int = 0
) -> Restored:
    """Restore a backup into a state directory that has no database.

    The next bundle is signed afresh. Its sequence is at least the Unix time, and above those in the backup and in
    `relayed`, the newest bundle that a shuffler has, so that no device takes it for an old one. `max_age`: as in the
    settings.
    """
    target = state_directory(state_dir) / database
    if target.exists():
        raise InvalidParameter(f"{target} exists already: restore a backup into an empty state directory")
    identity = _identity_in(file)
    kept = state_dir / IDENTITY
    if identity is None and not kept.exists():
        raise InvalidParameter(
            f"this backup holds no keys, and {kept} does not exist: put the identity key there first, since devices "
            "trust no other"
        )
    if identity is not None and kept.exists() and kept.read_bytes() != identity:
        raise InvalidParameter(f"{kept} holds another identity than this backup")
    if identity is None:
        _refuse_another_identity(file, kept)
    # the database comes last and whole: an aggregator must never start from one without its identity or its new keys
    if identity is not None and not kept.exists():
        with _new_file(kept) as part:
            part.write_bytes(identity)
    with _new_file(target) as part:
        with closing(sqlite3.connect(part, isolation_level=None)) as copy:
            with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source:
                source.backup(copy)
            copy.execute("PRAGMA secure_delete = ON")
            copy.execute("DROP TABLE backup")
            copy.execute("UPDATE bundle SET content = x''")  # so that it is signed again, under a higher number
            copy.execute("VACUUM")
        storage = SqliteStorage(part)
        try:
            if relayed is not None:
                newest = verify(relayed, [anchor_of(load_identity(state_dir))], 0.0).body
                catch_up(storage, newest)
                _count_on_from(storage, SignedBundle(newest.sequence, newest.issued, b"", relayed))
            return _replace_lost_keys(storage, now, max_age)
        finally:
            storage.close()


def catch_up(storage: Storage, newest: Body) -> None:
    """Take over what was published after the backup: codebooks, and the public halves of lost keys."""
    known = {key.id: key for key in storage.sealing_keys()}
    for key in newest.keys:
        kept = known.get(key.id)
        if kept is not None and kept.public_key != key.public_key:
            if _overlap(kept, key):
                raise InvalidParameter(
                    f"key {key.id} is a different key in this backup: the bundle does not belong to the same state"
                )
            storage.drop_key(key.id)  # the backup is so old that this id was given out again since
            del known[key.id]
        elif kept is not None and key.state == "revoked":
            storage.revoke_key(key.id)
    _revoke_overtaken(storage, newest)
    for key in newest.keys:
        if key.id not in known:
            revoked = key.state == "revoked"
            storage.add_key(StoredKey(key.id, key.first_period, key.last_period, key.public_key, None, revoked))
    last = max(storage.starts(), default=-1)
    for codebook in newest.codebooks:
        if codebook.first_period > last and not is_stop_page(codebook):
            storage.add_codebook(StoredCodebook(codebook.first_period, canonical_bytes(codebook.document)))
    keep_last_periods(storage, newest)
    _switch_as(storage, newest)


def _switch_as(storage: Storage, newest: Body) -> None:
    """Switch metrics off and on as the newest bundle has them: a copy may be older than the switch."""
    off = {metric.name for codebook in newest.codebooks for metric in codebook.metrics if metric.id in newest.off}
    collecting = [codebook for codebook in newest.codebooks if not is_stop_page(codebook)]
    disabled = {metric.name for codebook in collecting[-1:] for metric in codebook.metrics if not metric.enabled} - off
    for name in storage.switched_off() ^ off - disabled:
        storage.switch(name, off=name in off)


def _revoke_overtaken(storage: Storage, newest: Body) -> None:
    """Revoke keys of the backup whose periods got another key after it was made.

    That happens if another backup, which did not know of them, was restored meanwhile. Devices go by the newest bundle,
    and a period has one key.
    """
    listed = {key.id for key in newest.keys}
    live = [key for key in newest.keys if key.state != "revoked"]
    for kept in storage.sealing_keys():
        if kept.id not in listed and not kept.revoked and any(_overlap(kept, key) for key in live):
            storage.revoke_key(kept.id)


def _overlap(kept: StoredKey, key: SealingKey) -> bool:
    return kept.first_period <= key.last_period and key.first_period <= kept.last_period


def _count_on_from(storage: Storage, newest: SignedBundle) -> None:
    """Let the next bundle be newer than this one, which may have been signed under a clock that was ahead."""
    kept = storage.bundle()
    if kept is None or kept.sequence < newest.sequence:
        storage.publish(newest, None if kept is None else kept.sequence)


def _replace_lost_keys(storage: Storage, now: float, max_age: int) -> Restored:
    codebooks = Codebooks(storage)
    if not codebooks:
        return Restored(0, None)
    lost = [key for key in storage.sealing_keys() if key.private_key is None and not key.revoked]
    for key in lost:
        storage.revoke_key(key.id)
    lifetime = cache_lifetime(storage, max_age)
    ring = KeyRing(storage, codebooks, lifetime)
    _drop_useless_keys(ring, now)
    ring.ensure(now, restored=True)
    pause = pause_at(now, codebooks.collection.calendar, storage.sealing_keys())
    return Restored(len(lost), pause, CACHE_LIFETIMES * lifetime)


def _drop_useless_keys(ring: KeyRing, now: float) -> None:
    """Drop revoked keys past their horizon, and if too many are left, others that are revoked and useless.

    A backup does not age: without this, its keys would take up ids forever.
    """
    for key in ring.storage.sealing_keys():
        if key.revoked and ring.codebooks.horizon(key.last_period) <= now:
            ring.storage.drop_key(key.id)
    too_many = max(0, len(ring.storage.sealing_keys()) - _MOST_LISTED)
    for key in [key for key in ring.useless(now, now) if key.revoked][:too_many]:
        ring.storage.drop_key(key.id)


def _refuse_another_identity(file: Path, kept: Path) -> None:
    """Refuse an identity that did not sign the bundle in the backup: it would silence every device."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source:
        newest = source.execute("SELECT raw, issued FROM bundle ORDER BY sequence DESC LIMIT 1").fetchone()
    if newest is not None:
        try:
            verify(newest[0], [anchor_of(load_identity(kept.parent))], newest[1])
        except UntrustedBundle as error:
            raise InvalidParameter(f"{kept} holds another identity than this backup") from error


def _identity_in(file: Path) -> bytes | None:
    """The identity in a backup, if it holds one. InvalidParameter if the file is not a backup."""
    if not file.exists():
        raise InvalidParameter(f"{file} does not exist")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as source:
            mark, identity = source.execute("SELECT mark, identity FROM backup").fetchone()
            (fault,) = source.execute("PRAGMA integrity_check").fetchone()
    except (sqlite3.Error, TypeError) as error:
        raise InvalidParameter(f"{file} is not a backup of an aggregator: {error}") from error
    if mark != _MARK or fault != "ok":
        raise InvalidParameter(f"{file} is damaged, or was made by another version: {fault}")
    return None if identity is None else bytes(identity)


@contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A file to write to, which takes this name when everything is written. Nothing is ever replaced."""
    try:
        with new_file(path) as part:
            yield part
    except FileExistsError as error:
        raise InvalidParameter(f"{path} exists already, and nothing was changed") from error
