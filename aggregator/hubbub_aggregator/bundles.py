"""The bundle that devices trust: signed again whenever what it says has changed, or it has aged by half."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.bundle import sign
from hubbub.canonical import digest
from hubbub.trust import anchor_of
from hubbub_aggregator.storage import SignedBundle, Storage

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from hubbub_aggregator.codebooks import Codebooks
    from hubbub_aggregator.keys import KeyRing

__all__ = ["Publisher"]

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class Publisher:
    """Signs with the identity key; the sequence is kept with the bundle and only ever rises."""

    storage: Storage
    identity: Ed25519PrivateKey
    codebooks: Codebooks
    ring: KeyRing
    lifetime: int
    max_age: int

    def current(self, now: float) -> SignedBundle:
        """The bundle to serve now."""
        for _ in range(_ATTEMPTS):
            newest = self.storage.bundle()
            codebooks, keys = self.codebooks.bundled(now), self.ring.published(now)
            content = digest(
                "hubbub-01 bundle content",
                [
                    anchor_of(self.identity),
                    self.lifetime,
                    self.max_age,
                    [[codebook.first_period, codebook.document["id"]] for codebook in codebooks],
                    [key.document() for key in keys],
                ],
            )
            if newest is not None and newest.content == content and now < newest.issued + self.lifetime // 2:
                return newest
            last = None if newest is None else newest.sequence
            sequence = max(int(now), 0 if last is None else last + 1)
            raw = sign(
                self.identity,
                collection=self.codebooks.collection.name,
                codebooks=codebooks,
                keys=keys,
                now=int(now),
                lifetime=self.lifetime,
                max_age=self.max_age,
                last=last,
                sequence=sequence,
            )
            signed = SignedBundle(sequence, int(now), content, raw)
            if self.storage.publish(signed, last):
                return signed
        raise RuntimeError("the bundle changes faster than it can be signed")
