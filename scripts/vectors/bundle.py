"""tests/vectors/v1/bundle.json: signed bundles with what a device makes of them, one for each reason to refuse."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import LARGEST_BUNDLE, BundledCodebook, SealingKey, Seen, sign, verify
from hubbub.canonical import canonical_bytes
from hubbub.codebook import Codebook
from hubbub.errors import BundleError
from hubbub.sealing import public_key_of
from hubbub.trust_anchor import anchor_of, base64_text
from scripts.vectors.bundle_bodies import (
    AGGREGATOR,
    Case,
    bodies,
    body_document,
    changed,
    good_bodies,
    put,
    signed_body,
)
from scripts.vectors.codebook import EVERY_TYPE
from scripts.vectors.keys import IDENTITY, METRIC, NOW, PRIVATE_KEY

__all__ = ["bundle", "verdict"]

_STRANGER = Ed25519PrivateKey.from_private_bytes(METRIC * 2)
_TRUST = [anchor_of(AGGREGATOR)]
_PAD = "~"
"""Stands for the letters of a bundle that is too long to be written down."""


def bundle() -> dict[str, Any]:
    codebook = Codebook.from_toml(EVERY_TYPE).with_min_batch(lambda _: 500)
    signed = sign(
        AGGREGATOR,
        collection=codebook.collection.name,
        codebooks=[BundledCodebook(20_830, codebook.compiled())],
        keys=[
            SealingKey(1, public_key_of(PRIVATE_KEY), 20_830, 20_833),
            SealingKey(2, public_key_of(IDENTITY), 20_834, 20_834, "pending"),
            SealingKey(3, public_key_of(METRIC * 2), 20_830, 20_834, "revoked"),
        ],
        now=NOW,
        lifetime=86_400,
        max_age=3_600,
        last=None,
    )
    return {
        "identity_private_key": IDENTITY.hex(),
        "trust": anchor_of(AGGREGATOR),
        "bundle": signed.hex(),
        "sequence": NOW,
        "verifies_at": NOW + 86_399,
        "expired_at": NOW + 86_400,
        "body_sha256": hashlib.sha256(signed.split(b"\n", 2)[2]).hexdigest(),
        "metrics": [metric.id.hex() for metric in codebook.metrics],
        "key_of_period": {"20829": None, "20830": 1, "20833": 1, "20834": 2, "20835": None},
        "cases": list(_cases()),
    }


def verdict(case: dict[str, Any]) -> dict[str, Any]:
    """What a device makes of one case: the name of the error, or what the bundle says."""
    raw = bytes.fromhex(case["bytes"]) if "bytes" in case else case["text"].encode("ascii")
    if "letters" in case:
        raw = raw.replace(_PAD.encode(), b"a" * case["letters"])
    seen = Seen(case["seen"]["sequence"], bytes.fromhex(case["seen"]["body_sha256"])) if case["seen"] else None
    try:
        accepted = verify(raw, case["trust"], case["clock"], seen)
    except BundleError as error:
        return {"error": type(error).__name__}
    body, periods = accepted.body, case["periods"]
    keys = {period: body.key_for(int(period)) for period in periods}
    return {
        "error": None,
        "sequence": body.sequence,
        "body_sha256": accepted.digest.hex(),
        "key_of_period": {period: key.id if key else None for period, key in keys.items()},
        "metrics_of_period": {
            period: {metric.id.hex(): metric.enabled for metric in book.metrics} if book else None
            for period, book in ((period, body.in_force(int(period))) for period in periods)
        },
    }


# -- cases ----------------------------------------------------------------------------------------


def _cases() -> Iterator[dict[str, Any]]:
    for what, error, raw, more in [*_envelopes(), *_spellings(), *_times(), *bodies(), *good_bodies(), *_longest()]:
        written = {"text": raw.decode("ascii")} if raw.isascii() else {"bytes": raw.hex()}
        case = {
            "what": what,
            **written,
            "trust": [anchor_of(AGGREGATOR)],
            "clock": NOW + 1,
            "seen": None,
            "periods": [],
            **more,
        }
        expected = verdict(case)
        if expected["error"] != error:
            raise AssertionError(f"{what}: {expected} instead of {error}")
        yield case | expected


def _envelopes() -> Iterator[Case]:
    body = canonical_bytes(body_document())
    good = signed_body(body)
    first, second, _ = good.split(b"\n", 2)
    anchor, signature = second.split(b" ")
    spare = {b"A": b"B", b"Q": b"R", b"g": b"h", b"w": b"x"}
    malformed = {
        "nothing": b"",
        "a page of HTML": b"<!doctype html>\n<title>Please log in</title>\n",
        "another version": good.replace(b"hubbub-bundle 1", b"hubbub-bundle 2", 1),
        "a space behind the first line": b"\n".join([first + b" ", second, body]),
        "lines that end as on Windows": b"\r\n".join([first, second, body]),
        "no second line": first,
        "no body": b"\n".join([first, second]),
        "no signature": b"\n".join([first, anchor, body]),
        "two spaces before the signature": b"\n".join([first, anchor + b"  " + signature, body]),
        "a signature with padding": b"\n".join([first, second + b"==", body]),
        "a signature that is too short": b"\n".join([first, second[:-2], body]),
        "spare bits in the signature": b"\n".join([first, second[:-1] + spare[second[-1:]], body]),
        "another kind of key": good.replace(b"ed25519:", b"ed448:", 1),
    }
    anchor_spare = chr(ord(anchor[-1:]) + 1).encode()
    malformed["spare bits in the signer"] = b"\n".join([first, anchor[:-1] + anchor_spare + b" " + signature, body])
    for what, raw in malformed.items():
        yield what, "BadSignature" if what == "no body" else "MalformedBundle", raw, {}
    yield "a stranger's signature", "UntrustedBundle", signed_body(body, _STRANGER), {}
    yield (
        "a stranger's signature under the trusted name",
        "BadSignature",
        b"\n".join([first, anchor + b" " + signed_body(body, _STRANGER).split(b"\n")[1].split(b" ")[1], body]),
        {},
    )
    yield (
        "a stranger's name, and nothing that fits",
        "UntrustedBundle",
        b"\n".join([first, anchor_of(_STRANGER).encode() + b" " + signature, body]),
        {},
    )
    yield "one letter of the body changed", "BadSignature", good.replace(b"collection", b"collectiom", 1), {}
    yield "a line end behind the body", "BadSignature", good + b"\n", {}
    yield "a body that is no JSON, not signed", "BadSignature", b"\n".join([first, second, b"{"]), {}
    unlabelled = base64_text(AGGREGATOR.sign(body)).encode()
    yield "a signature over the body alone", "BadSignature", b"\n".join([first, anchor + b" " + unlabelled, body]), {}
    two = {"trust": [anchor_of(_STRANGER), *_TRUST]}
    yield "one of two trust anchors", None, good, two
    yield "the other of two trust anchors", None, signed_body(body, _STRANGER), two


def _spellings() -> Iterator[Case]:
    """Signed bodies that are no canonical JSON."""
    good = canonical_bytes(body_document())
    spelled = {
        "no JSON": good[:-1],
        "nothing behind the second line": b"",
        "a line end, signed": good + b"\n",
        "a space between members": good.replace(b",", b", ", 1),
        "members in another order": json.dumps(dict(reversed(body_document().items())), separators=(",", ":")).encode(),
        "a member twice": good.replace(b'"max_age":', b'"max_age":3600,"max_age":', 1),
        "a member of the codebook twice": good.replace(b'"grace":', b'"grace":1,"grace":', 1),
        "a number with a point": good.replace(b'"max_age":3600', b'"max_age":3600.0', 1),
        "a number with an exponent": good.replace(b'"max_age":3600', b'"max_age":36e2', 1),
        "minus zero": good.replace(b'"max_age":3600', b'"max_age":-0', 1),
        "a leading zero": good.replace(b'"max_age":3600', b'"max_age":03600', 1),
        "2^53": good.replace(b'"max_age":3600', b'"max_age":9007199254740992', 1),
        "NaN": good.replace(b'"max_age":3600', b'"max_age":NaN', 1),
        "a letter beyond ASCII": good.replace(b'"max_age"', '"max_äge":1,"max_age"'.encode(), 1),
        "an escape that is not needed": good.replace(b'"max_age"', b'"m\\u0061x_age"', 1),
        "an escape in capitals": good.replace(b'"max_age"', b'"max_\\u00E4ge":1,"max_age"', 1),
        "an escaped slash": good.replace(b'"max_age"', b'"max\\/age":1,"max_age"', 1),
        "a list": b"[" + good + b"]",
        "null": b"null",
        "nested too deeply": good[:-1] + b',"z":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    }
    del spelled["nested too deeply"]  # 200 kB: an implementation's own limit, and its own test
    for what, raw in spelled.items():
        yield what, "MalformedBundle", signed_body(raw), {}


def _times() -> Iterator[Case]:
    good = signed_body(canonical_bytes(body_document()))
    digest = hashlib.sha256(good.split(b"\n", 2)[2]).hexdigest()
    other = "00" * 32
    yield "the last second", None, good, {"clock": NOW + 86_399}
    yield "expired", "ExpiredBundle", good, {"clock": NOW + 86_400}
    yield "a clock before the time of issue", None, good, {"clock": NOW - 10_000_000}
    yield "the newest one again", None, good, {"seen": {"sequence": NOW, "body_sha256": digest}}
    yield "newer than the newest", None, good, {"seen": {"sequence": NOW - 1, "body_sha256": other}}
    yield "older", "RolledBackBundle", good, {"seen": {"sequence": NOW + 1, "body_sha256": digest}}
    yield "other bytes of one sequence", "RolledBackBundle", good, {"seen": {"sequence": NOW, "body_sha256": other}}
    late = {"clock": NOW + 86_400, "seen": {"sequence": NOW + 1, "body_sha256": other}}
    yield "expired and older", "ExpiredBundle", good, late
    nonsense = changed(lambda body: body.update(collection=""))
    yield "impossible and expired", "MalformedBundle", nonsense, {"clock": NOW + 86_400}
    yield "expired, by a stranger", "UntrustedBundle", signed_body(b"{}", _STRANGER), {"clock": NOW + 86_400}


def _longest() -> Iterator[Case]:
    for most, error in ((LARGEST_BUNDLE, None), (LARGEST_BUNDLE + 1, "MalformedBundle")):
        letters = most - len(changed(put("padding", to="")))
        whole = changed(put("padding", to="a" * letters))
        first, _, rest = whole.partition(b"a" * letters)
        yield f"{most} bytes", error, first + _PAD.encode() + rest, {"letters": letters}
