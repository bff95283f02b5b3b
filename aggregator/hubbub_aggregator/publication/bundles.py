"""The bundle that devices trust: signed again whenever its content changes, or half of its lifetime is over.

Under a wrong clock, a bundle would be expired when it is signed, or be valid for a year, with a sequence that after a
restore keeps out all later bundles. The last bundle tells what time it was. A clock that can't be trusted does not date
a new bundle if it is before that time, or after the last bundle's end, or was set a moment ago. News that can't wait,
such as a revoked key, is then signed with the date of the last bundle.

If the last bundle has expired by such a clock, for example after a week without power, it is signed again for a day:
otherwise no device could report until the clock is trusted. Only the expiry follows that clock, not the date, the
sequence, or what the bundle says about periods. If the clock was ahead, an attacker who withholds later bundles can
keep devices on this one for as long as the clock was ahead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hubbub.bundle import sign
from hubbub.canonical import digest
from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.publication.lead_time import told
from hubbub_aggregator.storage import SignedBundle, Storage
from hubbub_service_common.clock.trusted_clock import TOLERANCE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from hubbub_aggregator.publication.codebook_versions import Codebooks
    from hubbub_aggregator.publication.keys import KeyRing

__all__ = ["Publisher"]

_ATTEMPTS = 10
_IN_DOUBT = 86_400
"""The most seconds for which a bundle is valid if its expiry follows a clock that is not trusted."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """Signs bundles with the identity key. The sequence is kept with the bundle and only ever rises."""

    storage: Storage
    identity: Ed25519PrivateKey
    codebooks: Codebooks
    ring: KeyRing
    lifetime: int
    max_age: int
    _ends: dict[int, int] = field(default_factory=dict, init=False)
    """When the newest bundle expires, by its sequence, because reading it takes long."""

    def current(self, now: float, *, sure: bool = True, was_set: bool = False) -> SignedBundle:
        """The bundle to serve now. `sure`: the clock can be trusted. `was_set`: it made a step, and may be wrong."""
        for _ in range(_ATTEMPTS):
            newest = self.storage.bundle()
            at, expires = self._dates(newest, now, sure=sure, was_set=was_set)
            codebooks, keys, off = self.codebooks.bundled(at), self.ring.published(at), self.codebooks.ids_off(at)
            content = digest(
                "hubbub-01 bundle content",
                [
                    anchor_of(self.identity),
                    self.lifetime,
                    self.max_age,
                    [[codebook.first_period, codebook.document["id"]] for codebook in codebooks],
                    [key.document() for key in keys],
                    [id_.hex() for id_ in sorted(off)],
                ],
            )
            if newest is not None and newest.content == content and self._good(newest, at, expires):
                return newest
            last = None if newest is None else newest.sequence
            sequence = max(at, 0 if last is None else last + 1)
            raw = sign(
                self.identity,
                collection=self.codebooks.collection.name,
                codebooks=codebooks,
                keys=keys,
                now=at,
                lifetime=expires - at,
                max_age=self.max_age,
                last=last,
                sequence=sequence,
                off=off,
            )
            signed = SignedBundle(sequence, at, content, raw)
            if self.storage.publish(signed, last):
                return signed
        raise RuntimeError("the bundle changes faster than it can be signed")

    def plausible(self, now: float) -> bool:
        """Whether the time can be right, judging by the last bundle."""
        newest = self.storage.bundle()
        return newest is None or newest.issued - TOLERANCE <= now < newest.issued + self.lifetime

    def _dates(self, newest: SignedBundle | None, now: float, *, sure: bool, was_set: bool) -> tuple[int, int]:
        """The date of a bundle that is signed now, and when it expires."""
        if sure or newest is None or (not was_set and newest.issued <= now < newest.issued + self.lifetime):
            return int(now), int(now) + self.lifetime
        usual, short = newest.issued + self.lifetime, min(self.lifetime, _IN_DOUBT)
        if now < usual - short // 2:
            return newest.issued, usual
        known = self._expires(newest)  # a bundle that was signed for a day is used for half of it
        return newest.issued, known if now + short // 2 < known <= now + short + TOLERANCE else int(now) + short

    def _good(self, newest: SignedBundle, at: int, expires: int) -> bool:
        """Whether the newest bundle can stay, provided that its content is current.

        One with a date in the future can't: a clock was wrong, and the bundle would be valid for too long. Nor can one
        whose expiry followed a clock in doubt, once the doubt is over or the clock says otherwise.
        """
        due = expires if at == newest.issued else newest.issued + self.lifetime
        aged = not newest.issued - TOLERANCE <= at < newest.issued + self.lifetime // 2
        return not aged and self._expires(newest) == due

    def _expires(self, newest: SignedBundle) -> int:
        if newest.sequence not in self._ends:
            self._ends.clear()
            self._ends[newest.sequence] = told(newest, "expires")
        return self._ends[newest.sequence]
