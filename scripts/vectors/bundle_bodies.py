"""Bodies of bundles for bundle.json: those that say something impossible, one for each rule, and good ones."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import SealingKey
from hubbub.canonical import canonical_bytes
from hubbub.sealing import public_key_of
from hubbub.trust_anchor import anchor_of, base64_text
from scripts.vectors.hpke import LOW_ORDER
from scripts.vectors.keys import IDENTITY, METRIC, NOW, PRIVATE_KEY

__all__ = ["AGGREGATOR", "Case", "bodies", "body_document", "changed", "good_bodies", "put", "signed_body"]

AGGREGATOR = Ed25519PrivateKey.from_private_bytes(IDENTITY)
_Change = Callable[[dict[str, Any]], object]
Case = tuple[str, str | None, bytes, dict[str, Any]]
"""What it is about, the name of the error, the bytes, and what else differs from the usual."""


def body_document() -> dict[str, Any]:
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


def signed_body(body: bytes, by: Ed25519PrivateKey = AGGREGATOR) -> bytes:
    signature = base64_text(by.sign(b"hubbub-01 bundle\0" + body))
    return b"\n".join([b"hubbub-bundle 1", f"{anchor_of(by)} {signature}".encode(), body])


def changed(change: _Change) -> bytes:
    body = copy.deepcopy(body_document())
    change(body)
    return signed_body(canonical_bytes(body))


def put(*path: Any, to: Any) -> _Change:
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


def bodies() -> Iterator[Case]:
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
        (*collection, "grace"): [0, "1d", 314_496_001],
        (*collection, "forward_horizon"): [-1, None, 0, 314_496_001],
        (*book, "metrics"): [None, {}, [None]],
        (*metric, "id"): ["00" * 15, "0A" * 16, "zz" * 16, 7],
        (*metric, "name"): ["", None],
        (*metric, "report_bytes"): [0, "1", True],
        (*metric, "min_batch"): [None, 1, "500"],
        (*metric, "enabled"): [None, 1, "true"],
        ("keys",): [None, {}, [[]]],
        (*key, "id"): [-1, 256, "1", True],
        (*key, "suite"): ["", None],
        (*key, "public_key"): [
            "",
            "AA",
            base64_text(bytes(33)),
            base64_text(bytes(32)) + "=",
            "A" * 42 + "B",
            *(base64_text(bytes.fromhex(one)) for one in LOW_ORDER),
        ],
        (*key, "first_period"): [-1, 3_001, None],
        (*key, "last_period"): [2_899, 2**32, None],
        (*key, "state"): ["", "used", None],
        ("off",): [[], None, ["00" * 15], ["0A" * 16], ["01" * 16, "00" * 16], ["00" * 16] * 2, [7], {}],
    }
    for path, values in impossible.items():
        where = ".".join(map(str, path))
        for value in values:
            yield f"{where} is {json.dumps(value)[:80]}", "MalformedBundle", changed(put(*path, to=value)), {}
        if path not in (("off",), ("codebooks", 0, "first_period")):
            yield f"{where} is missing", "MalformedBundle", changed(_without(*path)), {}
    for what, change in _contradictions().items():
        yield what, "MalformedBundle", changed(change), {}


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


def _stop_page(first: int) -> _Change:
    """As an aggregator ends a page whose total is used up."""

    def change(body: dict[str, Any]) -> None:
        _second_codebook(first)(body)
        body["codebooks"][-1]["codebook"]["metrics"] = []

    return change


def _second_key(**more: Any) -> _Change:
    return lambda body: body["keys"].append(body["keys"][0] | {"id": 2} | more)


def good_bodies() -> Iterator[Case]:
    def keys(*given: dict[str, Any]) -> _Change:
        return lambda body: body.update(keys=[body_document()["keys"][0] | key for key in given])

    periods = {"periods": ["2899", "2900", "2950", "2951", "3000", "3001", str(2**32 - 1)]}
    other_key = base64_text(public_key_of(IDENTITY))
    id_ = _metrics(body_document())[0]["id"]
    good: dict[str, _Change] = {
        "one codebook and one key": lambda _: None,
        "no key": keys(),
        "no metric": put("codebooks", 0, "codebook", "metrics", to=[]),
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
        "a metric is off": put("off", to=[id_]),
        "metrics that it does not list are off": put("off", to=["00" * 16, "ff" * 16]),
        "a metric is not enabled": put("codebooks", 0, "codebook", "metrics", 0, "enabled", to=False),
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
        "a page without metrics ends the one before it": _stop_page(2_951),
        "a page without metrics, and one that collects again": lambda body: (
            _stop_page(2_940)(body),
            _second_codebook(2_951)(body),
        ),
    }
    for what, change in good.items():
        yield what, None, changed(change), periods
