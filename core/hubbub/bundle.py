"""The bundle: codebooks and sealing keys in one signed document, which is verified before it is read.

    hubbub-bundle 1
    ed25519:<signer's public key> <signature>
    {"codebooks": ..., "collection": ..., "expires": ..., ...}

The signature covers a label and the raw bytes of the last line, so nothing is parsed before it is verified.
The aggregator signs the bundle, the shuffler relays it byte for byte, and the device verifies it against its trust
anchors.

This module knows no mechanism. `hubbub.bundle_body` reads the few facts of a codebook that are needed here.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hubbub.bundle_body import Body, BundledCodebook, MetricHeader, SealingKey, read_body
from hubbub.canonical import canonical_bytes, read_json
from hubbub.errors import (
    BadSignature,
    ExpiredBundle,
    InvalidParameter,
    MalformedBundle,
    RolledBackBundle,
    UntrustedBundle,
)
from hubbub.trust_anchor import anchor_of, base64_text, parse_anchor, read_base64

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "LARGEST_BUNDLE",
    "Bundle",
    "BundledCodebook",
    "MetricHeader",
    "SealingKey",
    "Seen",
    "entity_tag",
    "sign",
    "verify",
]

LARGEST_BUNDLE = 8 * 2**20
"""Bytes. Enough for a list of 65,536 values, and about as much as a device should download."""

_FIRST_LINE = b"hubbub-bundle 1"
_LABEL = b"hubbub-01 bundle\0"
_SECOND_LINE = re.compile(rb"(ed25519:[A-Za-z0-9_-]{43}) ([A-Za-z0-9_-]{86})")


class Seen(NamedTuple):
    """What a device remembers of the newest bundle that it accepted, to recognise a replayed older one."""

    sequence: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was verified."""

    body: Body
    signer: str
    digest: bytes
    """SHA-256 of the signed bytes."""

    @property
    def seen(self) -> Seen:
        return Seen(self.body.sequence, self.digest)


def sign(
    key: Ed25519PrivateKey,
    *,
    collection: str,
    codebooks: Sequence[BundledCodebook],
    keys: Sequence[SealingKey],
    now: int,
    lifetime: int,
    max_age: int,
    last: int | None,
    sequence: int | None = None,
    off: Collection[bytes] = (),
) -> bytes:
    """A new bundle. `last` is the newest sequence ever signed with this key, or None if there is none.

    The new sequence is above `last` and at least the Unix time, so it still goes forward if the aggregator was
    restored from a backup and has forgotten `last`.
    """
    least = max(now, 0 if last is None else last + 1)
    if sequence is not None and sequence < least:
        raise InvalidParameter(
            f"the sequence must be above the last one and at least the Unix time, so {least} or more, "
            f"got {sequence}; leave it out to use that"
        )
    body = Body(
        collection=collection,
        sequence=least if sequence is None else sequence,
        issued=now,
        expires=now + lifetime,
        max_age=max_age,
        codebooks=tuple(codebooks),
        keys=tuple(keys),
        off=frozenset(off),
    )
    raw = canonical_bytes(body.document())
    read_body(read_json(raw))  # never sign what a device would refuse
    signature = base64_text(key.sign(_LABEL + raw))
    envelope = b"\n".join([_FIRST_LINE, f"{anchor_of(key)} {signature}".encode("ascii"), raw])
    if len(envelope) > LARGEST_BUNDLE:
        raise MalformedBundle(
            f"the bundle has {len(envelope)} bytes, but devices accept at most {LARGEST_BUNDLE}: "
            "retire old codebooks or shorten lists of values"
        )
    return envelope


def entity_tag(raw: bytes) -> str:
    """The HTTP entity tag of a bundle, by which services and devices know its bytes again."""
    return f'"{hashlib.sha256(raw).hexdigest()[:32]}"'


def verify(raw: bytes, trust: Collection[str], now: float, seen: Seen | None = None) -> Bundle:
    """The bundle in these bytes, or a BundleError that says why it is refused.

    `trust` has the trust anchors, `seen` the newest bundle accepted before. Authenticity is checked before
    anything is parsed, and expiry before rollback.
    """
    if not trust:
        raise InvalidParameter('no trust anchor is configured: set trust="ed25519:..."')
    anchors = {anchor: parse_anchor(anchor) for anchor in trust}
    signer, signature, raw_body = _open(raw)
    if signer not in anchors:
        raise UntrustedBundle(
            f"the bundle is signed by {signer}, which is not a trust anchor: if the aggregator changed its "
            "identity key on purpose, add the new anchor; if not, someone replaced the bundle on the way"
        )
    _check_signature(anchors[signer], signature, raw_body)
    try:
        document = read_json(raw_body)
        is_canonical = canonical_bytes(document) == raw_body
    except ValueError as error:
        raise MalformedBundle(f"the signed document is not strict JSON: {error}") from error
    if not is_canonical:
        raise MalformedBundle("the signed document is not in canonical form, so other software signed it")
    body = read_body(document)
    if now >= body.expires:
        expired = ExpiredBundle(
            f"the bundle expired at {body.expires} (Unix time) and it is now {now:.0f}: fetch a new one, "
            "and check this device's clock"
        )
        expired.expires = body.expires
        raise expired
    digest = hashlib.sha256(raw_body).digest()
    if seen is not None:
        _refuse_rollback(body.sequence, digest, seen)
    return Bundle(body, signer, digest)


def _open(raw: bytes) -> tuple[str, bytes, bytes]:
    """Signer, signature and body of an envelope. None of them is verified yet."""
    if len(raw) > LARGEST_BUNDLE:
        raise MalformedBundle(f"a bundle has at most {LARGEST_BUNDLE} bytes, got {len(raw)}")
    first, _, rest = raw.partition(b"\n")
    second, _, body = rest.partition(b"\n")
    if first != _FIRST_LINE:
        raise MalformedBundle(
            f"a bundle starts with the line {_FIRST_LINE.decode()!r}, got {first[:40]!r}: "
            "the address may be wrong, or the software too old for this bundle"
        )
    match = _SECOND_LINE.fullmatch(second)
    if match is None:
        raise MalformedBundle("the second line of a bundle names the signer and the signature; this one does not")
    signer = match[1].decode("ascii")
    try:
        parse_anchor(signer)
        signature = read_base64(match[2].decode("ascii"), 64)
    except ValueError as error:
        raise MalformedBundle(f"the second line of the bundle is damaged: {error}") from error
    return signer, signature, body


def _check_signature(public_key: bytes, signature: bytes, body: bytes) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, _LABEL + body)
    except InvalidSignature as error:
        raise BadSignature(
            "the signature does not match the bundle: it was damaged or changed on the way; fetch it again"
        ) from error


def _refuse_rollback(sequence: int, digest: bytes, seen: Seen) -> None:
    if sequence < seen.sequence:
        raise RolledBackBundle(
            f"the bundle has sequence {sequence}, older than {seen.sequence}, which was accepted before: "
            "a stale copy was served; fetch a new one"
        )
    if sequence == seen.sequence and digest != seen.digest:
        raise RolledBackBundle(
            f"two different bundles have sequence {sequence}: the aggregator must sign a change under a higher one"
        )
