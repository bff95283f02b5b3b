"""tests/vectors/v1/bundle.json: signed bundles with what a device makes of them, one for each reason to refuse."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import LARGEST_BUNDLE, BundledCodebook, SealingKey, Seen, sign, verify
from hubbub.canonical import canonical_bytes
from hubbub.codebook import Codebook
from hubbub.problems import BundleError
from hubbub.sealing import public_key_of
from hubbub.trust import anchor_of, base64_text
from scripts.vectors.codebook import EVERY_TYPE
from scripts.vectors.keys import IDENTITY, METRIC, NOW, PRIVATE_KEY

__all__ = ["bundle", "verdict"]

_AGGREGATOR = Ed25519PrivateKey.from_private_bytes(IDENTITY)
_STRANGER = Ed25519PrivateKey.from_private_bytes(METRIC * 2)
_TRUST = [anchor_of(_AGGREGATOR)]
_Change = Callable[[dict[str, Any]], object]
_PAD = "~"
"""Stands for the letters of a bundle that is too long to be written down."""


def bundle() -> dict[str, Any]:
    codebook = Codebook.from_toml(EVERY_TYPE).with_min_batch(lambda _: 500)
    signed = sign(
        _AGGREGATOR,
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
        "trust": anchor_of(_AGGREGATOR),
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
    for what, error, raw, more in [*_envelopes(), *_spellings(), *_times(), *_bodies(), *_good(), *_longest()]:
        written = {"text": raw.decode("ascii")} if raw.isascii() else {"bytes": raw.hex()}
        case = {
            "what": what,
            **written,
            "trust": [anchor_of(_AGGREGATOR)],
            "clock": NOW + 1,
            "seen": None,
            "periods": [],
            **more,
        }
        expected = verdict(case)
        if expected["error"] != error:
            raise AssertionError(f"{what}: {expected} instead of {error}")
        yield case | expected


_Case = tuple[str, str | None, bytes, dict[str, Any]]


def _body() -> dict[str, Any]:
    """The body of a bundle with little in it: of the codebook only what is read before a metric is looked at."""
    metric = {"id": METRIC.hex(), "name": "b", "report_bytes": 1, "min_batch": 500, "enabled": True}
    collection = {"name": "a", "period": 604_800, "grace": 21_600, "forward_horizon": 1_209_600}
    key = SealingKey(1, public_key_of(PRIVATE_KEY), 2_900, 3_000)
    return {
        "format": "hubbub-bundle 1",
        "collection": collection["name"],
        "sequence": NOW,
        "issued": NOW,
        "expires": NOW + 86_400,
        "max_age": 3_600,
        "codebooks": [{"first_period": 2_900, "codebook": {"collection": collection, "metrics": [metric]}}],
        "keys": [key.document()],
    }


def _signed(body: bytes, by: Ed25519PrivateKey = _AGGREGATOR) -> bytes:
    signature = base64_text(by.sign(b"hubbub-01 bundle\0" + body))
    return b"\n".join([b"hubbub-bundle 1", f"{anchor_of(by)} {signature}".encode(), body])


def _changed(change: _Change) -> bytes:
    body = copy.deepcopy(_body())
    change(body)
    return _signed(canonical_bytes(body))


def _envelopes() -> Iterator[_Case]:
    body = canonical_bytes(_body())
    good = _signed(body)
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
    yield "a stranger's signature", "UntrustedBundle", _signed(body, _STRANGER), {}
    yield (
        "a stranger's signature under the trusted name",
        "BadSignature",
        b"\n".join([first, anchor + b" " + _signed(body, _STRANGER).split(b"\n")[1].split(b" ")[1], body]),
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
    unlabelled = base64_text(_AGGREGATOR.sign(body)).encode()
    yield "a signature over the body alone", "BadSignature", b"\n".join([first, anchor + b" " + unlabelled, body]), {}
    two = {"trust": [anchor_of(_STRANGER), *_TRUST]}
    yield "one of two trust anchors", None, good, two
    yield "the other of two trust anchors", None, _signed(body, _STRANGER), two


def _spellings() -> Iterator[_Case]:
    """Signed bodies that are no canonical JSON."""
    good = canonical_bytes(_body())
    spelled = {
        "no JSON": good[:-1],
        "nothing behind the second line": b"",
        "a line end, signed": good + b"\n",
        "a space between members": good.replace(b",", b", ", 1),
        "members in another order": json.dumps(dict(reversed(_body().items())), separators=(",", ":")).encode(),
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
        yield what, "MalformedBundle", _signed(raw), {}


def _times() -> Iterator[_Case]:
    good = _signed(canonical_bytes(_body()))
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
    nonsense = _changed(lambda body: body.update(collection=""))
    yield "impossible and expired", "MalformedBundle", nonsense, {"clock": NOW + 86_400}
    yield "expired, by a stranger", "UntrustedBundle", _signed(b"{}", _STRANGER), {"clock": NOW + 86_400}


def _put(*path: Any, to: Any) -> _Change:
    def change(body: dict[str, Any]) -> None:
        node: Any = body
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = to

    return change


def _without(*path: Any) -> _Change:
    def change(body: dict[str, Any]) -> None:
        node: Any = body
        for step in path[:-1]:
            node = node[step]
        del node[path[-1]]

    return change


def _bodies() -> Iterator[_Case]:
    """Bodies that say something impossible: one for each rule."""
    book, key = ("codebooks", 0, "codebook"), ("keys", 0)
    metric, collection = (*book, "metrics", 0), (*book, "collection")
    impossible: dict[tuple[Any, ...], list[Any]] = {
        ("format",): ["hubbub-bundle 2", 1],
        ("collection",): ["", "other", 7],
        ("sequence",): [-1, True, "1", None],
        ("issued",): [-1, "now"],
        ("expires",): [NOW, NOW - 1, None],
        ("max_age",): [-1, "3600"],
        ("codebooks",): [[], {}, None, [7]],
        ("codebooks", 0, "first_period"): [-1, 2**32, "0"],
        book: [[], None],
        collection: [None, "a"],
        (*collection, "name"): ["", "other", None],
        (*collection, "period"): [0, 25_200, 129_600, 521 * 604_800, True],
        (*collection, "grace"): [0, "1d"],
        (*collection, "forward_horizon"): [-1, None],
        (*book, "metrics"): [None, {}, [None]],
        (*metric, "id"): ["00" * 15, "0A" * 16, "zz" * 16, 7],
        (*metric, "name"): ["", None],
        (*metric, "report_bytes"): [0, "1", True],
        (*metric, "min_batch"): [None, 1, "500"],
        (*metric, "enabled"): [None, 1, "true"],
        ("keys",): [None, {}, [[]]],
        (*key, "id"): [-1, 256, "1", True],
        (*key, "suite"): ["", None],
        (*key, "public_key"): ["", "AA", base64_text(bytes(33)), base64_text(bytes(32)) + "=", "A" * 42 + "B"],
        (*key, "first_period"): [-1, 3_001, None],
        (*key, "last_period"): [2_899, 2**32, None],
        (*key, "state"): ["", "used", None],
        ("off",): [[], None, ["00" * 15], ["0A" * 16], ["01" * 16, "00" * 16], ["00" * 16] * 2, [7], {}],
    }
    for path, values in impossible.items():
        where = ".".join(map(str, path))
        for value in values:
            yield f"{where} is {json.dumps(value)[:80]}", "MalformedBundle", _changed(_put(*path, to=value)), {}
        if path not in (("off",), ("codebooks", 0, "first_period")):
            yield f"{where} is missing", "MalformedBundle", _changed(_without(*path)), {}
    for what, change in _contradictions().items():
        yield what, "MalformedBundle", _changed(change), {}


def _contradictions() -> dict[str, _Change]:
    def add_metric(**more: Any) -> _Change:
        return lambda body: _metrics(body).append(_metrics(body)[0] | more)

    return {
        "two metrics of one id": add_metric(name="c"),
        "two metrics of one name": add_metric(id="00" * 16),
        "two codebooks of one start": _second_codebook(2_900),
        "codebooks in the wrong order": _second_codebook(2_899),
        "codebooks with periods of two lengths": _second_codebook(2_901, period=86_400),
        "codebooks of two collections": _second_codebook(2_901, name="other"),
        "two keys of one id": _second_key(id=1, first_period=3_001, last_period=3_002),
        "two keys of one id, one of them revoked": _second_key(id=1, state="revoked"),
        "two keys for one period": _second_key(first_period=3_000, last_period=3_002),
        "a pending key for a period that has one": _second_key(state="pending", first_period=2_950, last_period=2_950),
        "a key of another suite for a period that has one": _second_key(suite="p256", public_key="AAAA"),
    }


def _metrics(body: dict[str, Any]) -> list[dict[str, Any]]:
    metrics: list[dict[str, Any]] = body["codebooks"][0]["codebook"]["metrics"]
    return metrics


def _second_codebook(first: int, **more: Any) -> _Change:
    def change(body: dict[str, Any]) -> None:
        book = copy.deepcopy(body["codebooks"][0]["codebook"])
        book["collection"].update(more)
        body["codebooks"].append({"first_period": first, "codebook": book})

    return change


def _second_key(**more: Any) -> _Change:
    return lambda body: body["keys"].append(body["keys"][0] | {"id": 2} | more)


def _good() -> Iterator[_Case]:
    def keys(*given: dict[str, Any]) -> _Change:
        return lambda body: body.update(keys=[_body()["keys"][0] | key for key in given])

    periods = {"periods": ["2899", "2900", "2950", "2951", "3000", "3001", str(2**32 - 1)]}
    other_key = base64_text(public_key_of(IDENTITY))
    id_ = _metrics(_body())[0]["id"]
    good: dict[str, _Change] = {
        "one codebook and one key": lambda _: None,
        "no key": keys(),
        "no metric": _put("codebooks", 0, "codebook", "metrics", to=[]),
        "a revoked key stands first": keys({"id": 3, "public_key": other_key, "state": "revoked"}, {"id": 1}),
        "only a revoked key": keys({"state": "revoked"}),
        "revoked keys that overlap": keys(
            {"id": 4, "state": "revoked"}, {"id": 5, "state": "revoked", "last_period": 2_950}, {"id": 1}
        ),
        "a pending key": keys({"state": "pending"}),
        "keys in another order": keys({"id": 2, "first_period": 2_951}, {"id": 1, "last_period": 2_950}),
        "a gap between keys": keys({"id": 1, "last_period": 2_949}, {"id": 2, "first_period": 2_951}),
        "a key of an unknown suite": keys({"suite": "x-wing", "public_key": base64_text(bytes(1_216))}),
        "a key of an unknown suite, then a known one": keys(
            {"id": 7, "suite": "x-wing", "public_key": "AA", "last_period": 2_950},
            {"id": 8, "first_period": 2_951},
        ),
        "keys of the smallest and largest ids and periods": keys(
            {"id": 0, "first_period": 0, "last_period": 2_899}, {"id": 255, "last_period": 2**32 - 1}
        ),
        "a metric is off": _put("off", to=[id_]),
        "metrics that it does not list are off": _put("off", to=["00" * 16, "ff" * 16]),
        "a metric is not enabled": _put("codebooks", 0, "codebook", "metrics", 0, "enabled", to=False),
        "two codebooks and a gap between keys": lambda body: (
            _second_codebook(2_951, grace=7_200)(body),
            body["codebooks"][1]["codebook"]["metrics"][0].update(id="ab" * 16),
            keys({"id": 1, "last_period": 2_949}, {"id": 2, "first_period": 2_951})(body),
        ),
        "members that nobody knows": lambda body: (
            body.update(zeta=[None, {"a": "\u00e9"}]),
            body["keys"][0].update(colour="red"),
            body["codebooks"][0].update(colour="red"),
        ),
        "the largest numbers": lambda body: body.update(max_age=2**53 - 1, expires=2**53 - 1),
        "the smallest numbers": lambda body: body.update(sequence=0, issued=0, max_age=0),
    }
    for what, change in good.items():
        yield what, None, _changed(change), periods


def _longest() -> Iterator[_Case]:
    for most, error in ((LARGEST_BUNDLE, None), (LARGEST_BUNDLE + 1, "MalformedBundle")):
        letters = most - len(_changed(_put("padding", to="")))
        whole = _changed(_put("padding", to="a" * letters))
        first, _, rest = whole.partition(b"a" * letters)
        yield f"{most} bytes", error, first + _PAD.encode() + rest, {"letters": letters}
