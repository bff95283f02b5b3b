"""The aggregator's keys: one identity that signs bundles, and sealing keys that each cover a few periods.

A period is sealed by exactly one key, for good. Keys are published ahead, by at least two cache lifetimes and two
periods, so that every device knows the next key before it needs it. If a key is revoked, periods that have begun, or
that begin before every device can know, get no other key: two keys would split their crowd.

Every open and coming period gets a key, even if there are keys of distant times already: a clock that was wrong for a
while leaves such keys behind, which stay and are used when their period comes. `key_id_allocation` says which id a key
gets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hubbub.bundle import SealingKey
from hubbub.errors import InvalidParameter
from hubbub.period import LARGEST_INDEX
from hubbub.sealing import new_private_key, public_key_of
from hubbub_aggregator.publication.key_id_allocation import (
    AT_ONCE,
    LIVE,
    SCARCE,
    drawn_for_a_restore,
    free_id,
    free_ids,
    gaps,
    longer_where_scarce,
)
from hubbub_aggregator.publication.lead_time import CACHE_LIFETIMES, soonest
from hubbub_aggregator.storage import KeyTaken, Storage, StoredKey
from hubbub_service_common.process.atomic_files import state_directory, write

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from hubbub.codebook import Collection
    from hubbub_aggregator.publication.codebook_versions import Codebooks

__all__ = ["IDENTITY", "KeyRing", "Revocation", "load_identity", "new_identity", "storage_secret"]

IDENTITY = "identity.key"
_LEAST_AHEAD = 2


def new_identity(state_dir: Path) -> Ed25519PrivateKey:
    """Make an identity key in the state directory, mode 0600. InvalidParameter if there is one already."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = state_directory(state_dir) / IDENTITY
    key = Ed25519PrivateKey.generate()
    try:
        write(path, key.private_bytes_raw(), replace=False)
    except FileExistsError as error:
        raise InvalidParameter(
            f"{path} exists already: devices trust that key, and a new one would silence them; "
            "to start over, use another state directory"
        ) from error
    return key


def load_identity(state_dir: Path, elsewhere: Path | None = None) -> Ed25519PrivateKey:
    """The identity key, made on first use. A file that is named instead, such as a mounted secret, must exist."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = elsewhere or state_directory(state_dir) / IDENTITY
    if not path.exists():
        if elsewhere is not None:
            raise InvalidParameter(f"{path} does not exist: make an identity with `hubbub keys new` and put it there")
        return new_identity(state_dir)
    raw = path.read_bytes()
    if path.stat().st_mode & 0o077:
        raise InvalidParameter(f"{path} can be read by others: chmod 600 it, and treat the key as leaked")
    if len(raw) != 32:
        raise InvalidParameter(f"{path} is not an identity key: 32 bytes are needed, it has {len(raw)}; restore it")
    return Ed25519PrivateKey.from_private_bytes(raw)


def storage_secret(identity: Ed25519PrivateKey) -> bytes:
    """The key that encrypts sealing keys in a storage that others can read. The identity never signs with it."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(SHA256(), 16, None, b"hubbub-01 sealing keys in storage").derive(identity.private_bytes_raw())


class Revocation(NamedTuple):
    """What becomes of the periods of a revoked key."""

    lost: range
    """Periods that get no other key. Reports that are sealed for them are never opened."""
    instead: StoredKey | None
    """The key that seals the rest of them; None if there is no rest."""
    again: int | None
    """The first period after the lost ones that has a key; None if none has one yet."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """The sealing keys of one collection."""

    storage: Storage
    codebooks: Codebooks
    max_age: int = 0
    """Seconds for which a bundle is cached; a key is published ahead by at least twice that time."""

    @property
    def collection(self) -> Collection:
        return self.codebooks.collection

    @property
    def ahead(self) -> int:
        """Periods beyond the present one for which a key is published."""
        return max(_LEAST_AHEAD, -(-CACHE_LIFETIMES * self.max_age // self.collection.calendar.seconds))

    @property
    def lived(self) -> int:
        """Periods for which a key exists, from its publication until it is erased."""
        seconds = self.codebooks.longest + int(self.codebooks.erase_after)
        return -(-seconds // self.collection.calendar.seconds) + self.ahead + 2

    @property
    def span(self) -> int:
        """Periods that one key covers."""
        return -(-self.lived // LIVE)

    def ensure(self, now: float, *, sure: bool = True, past: float | None = None, restored: bool = False) -> None:
        """Give every open and coming period a key. The first key ever starts with the first codebook.

        `sure`: the clock can be trusted. Only then do periods of a revoked key get another one, if every device can
        still learn of it. `past`: a time that has certainly passed, minus infinity if none has, None if `now` has.
        Without one, no key of a distant time is dropped to make room, since that can't be undone. `restored`: devices
        may have keys for the same periods that were made after the backup, and are lost.
        """
        if sure and not restored:
            self._make_room(now, now if past is None else past)
        current, keys = self.collection.calendar.index_at(now), self.storage.sealing_keys()
        # after a long pause, periods that have closed need no key
        low = max(self.codebooks.first_period, min(self._oldest_open(now), current))
        high = current + self.ahead + (self.span if restored else 0)
        drawn = drawn_for_a_restore() if restored else None
        taken = [*self._sealed(keys, now, sure=sure), *self.codebooks.closed()]
        for first, last, after in gaps(taken, low, high):
            # a clock that jumps back and forth must not use up the ids that the right time needs
            far = all(key.last_period != first - 1 for key in keys) and bool(keys)
            if far and not sure and free_ids(keys) < 2 * SCARCE:
                continue
            length = max(longer_where_scarce(self.span, keys, self.lived), -(-(last - first + 1) // AT_ONCE))
            for start in range(first, last + 1, length):
                end = start + length - 1 if after is None else min(start + length, after) - 1
                try:
                    self._add(start, end, restored=drawn)
                except KeyTaken:
                    return  # a command was faster; the next call reads what it made

    def rotate(self, now: float) -> StoredKey:
        """A new key, from the next unpublished period on. Published keys stay: devices hold them."""
        keys = self.storage.sealing_keys()
        if not keys:
            raise InvalidParameter("there are no keys yet: the aggregator makes them when it first starts")
        coming, closed = self.collection.calendar.index_at(now) + 1, self.codebooks.closed()
        furthest = max(coming, *(key.last_period + 1 for key in keys), *(last + 1 for _, last in closed))
        found = next(gaps([*self._sealed(keys, now, sure=True), *closed], coming, min(furthest, LARGEST_INDEX)), None)
        if found is None:
            raise InvalidParameter(
                "a total ends the collection, and every period up to its end has a key",
                "publish a codebook that collects again, and rotate then",
            )
        first, _, after = found
        last = first + self.span - 1
        return self._add(first, last if after is None else min(last, after - 1))

    def revoke(self, id: int, now: float) -> Revocation:  # noqa: A002  it is an id
        """End a key for good: its private part is erased. It stays listed as revoked.

        A new key seals those of its periods that begin late enough for every device to know it. For the others, devices
        and the shuffler hold the revoked key already.
        """
        known = {key.id: key for key in self.storage.sealing_keys()}
        if id not in known or known[id].revoked:
            usable = ", ".join(str(key.id) for key in known.values() if not key.revoked)
            what = "is revoked already" if id in known else "does not exist"
            raise InvalidParameter(f"key {id} {what}; keys that can be revoked: {usable or 'none'}")
        key = known[id]
        start = max(key.first_period, soonest(self.storage, self.collection.calendar, now, self.max_age))
        instead = None
        if start <= key.last_period:
            instead = self._add(start, key.last_period, instead_of=id)
        else:
            self.storage.revoke_key(id)
        lost = range(key.first_period, min(start, key.last_period + 1))
        following = (one for one in self.storage.sealing_keys() if not one.revoked and one.last_period >= lost.stop)
        return Revocation(lost, instead, min((max(one.first_period, lost.stop) for one in following), default=None))

    def unsealed(self, key: SealingKey | StoredKey) -> list[int]:
        """The periods of a revoked key that no other key seals."""
        live = [other for other in self.storage.sealing_keys() if not other.revoked]
        periods = range(key.first_period, key.last_period + 1)
        return [period for period in periods if not any(other.covers(period) for other in live)]

    def forget(self, past: float) -> bool:
        """Erase private keys and nonces of periods past their horizon, together.

        `past`: a time that has certainly passed, since this can't be undone.
        """
        over = [
            key.last_period for key in self.storage.sealing_keys() if self.codebooks.horizon(key.last_period) <= past
        ]
        return bool(over) and self.storage.forget(max(over))

    def overdue(self, now: float) -> float:
        """Seconds by which the erasure of a private key is late, or 0. It is due `erase_after` past the horizon."""
        held = [key.last_period for key in self.storage.sealing_keys() if key.private_key is not None]
        return max(0.0, now - self.codebooks.erase_after - self.codebooks.horizon(min(held))) if held else 0.0

    def _sealed(self, keys: Sequence[StoredKey], now: float, *, sure: bool) -> list[tuple[int, int]]:
        """The periods, as (first, last), that get no other key.

        These are the periods of live keys, and those of revoked keys that begin too soon for every device to learn of
        another key.
        """
        if not (sure and any(key.revoked for key in keys)):  # reading the last bundle takes long
            return [(key.first_period, key.last_period) for key in keys]
        told = soonest(self.storage, self.collection.calendar, now, self.max_age)
        ends = [(key, min(key.last_period, told - 1) if key.revoked else key.last_period) for key in keys]
        return [(key.first_period, last) for key, last in ends if key.first_period <= last]

    def _make_room(self, now: float, past: float) -> None:
        """If ids are scarce, drop revoked keys of closed periods, and keys too far ahead for any device to have used.

        A clock that was wrong has made the latter. Under a clock that is behind, today's keys would look like that.
        """
        if past == -math.inf:
            return
        keys = self.storage.sealing_keys()
        wanted = 2 * SCARCE - free_ids(keys)
        if wanted <= SCARCE:
            return
        for key in self.useless(now, past)[:wanted]:
            self.storage.drop_key(key.id)

    def useless(self, now: float, past: float) -> list[StoredKey]:
        """Keys that may be dropped, in this order: revoked keys of closed periods, then keys too far ahead.

        No other key may be: a shuffler takes no bundle that forgets the key of a begun period, and a device may have
        sealed with a coming one, whose id must not mean two keys.
        """
        keys, closed = self.storage.sealing_keys(), self._oldest_open(past)
        coming = self.collection.calendar.index_at(now) + self.ahead + self.span
        over = [key for key in keys if key.revoked and key.last_period < closed]
        far = [key for key in keys if key.first_period > coming]
        return sorted(over, key=lambda key: key.last_period) + sorted(far, key=lambda key: -key.first_period)

    def _oldest_open(self, now: float) -> int:
        calendar = self.collection.calendar
        grace = max(c.grace for c in self.codebooks.ruling(calendar.index_at(now)))
        return calendar.index_at(max(0.0, now - grace))

    def find(self, period: int, id: int) -> StoredKey | None:  # noqa: A002  it is an id
        """The key of this id, if it ever sealed this period."""
        return next((key for key in self.storage.sealing_keys() if key.id == id and key.covers(period)), None)

    def published(self, now: float) -> list[SealingKey]:
        """All keys as a bundle shows them."""
        current = self.collection.calendar.index_at(now)
        return [
            SealingKey(
                key.id,
                key.public_key,
                key.first_period,
                key.last_period,
                "revoked" if key.revoked else "pending" if key.first_period > current else "active",
            )
            for key in self.storage.sealing_keys()
        ]

    def _add(self, first: int, last: int, *, instead_of: int | None = None, restored: int | None = None) -> StoredKey:
        private = new_private_key()
        id = free_id(self.storage.sealing_keys(), restored)  # noqa: A001  it is an id
        key = StoredKey(id, first, last, public_key_of(private), private)
        self.storage.add_key(key, instead_of=instead_of)
        return key
