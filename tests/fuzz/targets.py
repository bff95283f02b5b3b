"""Fuzz targets: every place where bytes from elsewhere become values, as one function each. Bytes in, nothing out.

A target returns when it took the bytes, and raises a HubbubError when it refused them. Anything else that it raises is
a bug of ours, and so is a failed assertion: what is taken has one spelling, and no answer makes a device give up a
report that was not refused by name. `tests/client/recording/test_malformed_input.py` runs them with hypothesis,
`tests/fuzz/harness.py` with atheris.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from hubbub.bundle import SealingKey, verify
from hubbub.canonical import canonical_bytes, digest, read_json
from hubbub.codebook import Codebook
from hubbub.errors import MalformedBundle
from hubbub.mechanisms import Bins, Bounds, Categories, Mechanism, registered
from hubbub.refusals import PROBLEM_TYPE, REFUSALS, Action
from hubbub.sealing import Opener, Sealer, public_key_of
from hubbub.trust_anchor import anchor_of, base64_text, parse_anchor
from hubbub.wire import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    Plaintext,
    ReportHeader,
    decode_report,
    decode_upload,
    encode_report,
    encode_upload,
)
from hubbub_client._sending.upload import upload
from hubbub_client.testing import MemoryTransport
from tests.support.codebooks import IDENTITY, signed

__all__ = ["SEEDS", "TARGETS"]

NOW = 20_800 * 86_400
TRUST = anchor_of(IDENTITY)
PRIVATE_KEY = bytes([1] * 32)
HEADER = ReportHeader(bytes(range(16)), 20_800, 1)
TOML = (Path(__file__).parents[2] / "examples" / "metrics.toml").read_text()
CODEBOOK = Codebook.from_toml(TOML).with_min_batch(lambda _: 100)

_OPENER = Opener(PRIVATE_KEY)


def report(data: bytes) -> None:
    assert encode_report(*decode_report(data)) == data


def plaintext(data: bytes) -> None:
    assert Plaintext.decode(data).encode() == data


def reports(data: bytes) -> None:
    assert encode_upload(decode_upload(data)) == data


def batch(data: bytes) -> None:
    assert BatchHeader.decode(data).encode() == data[:BATCH_HEADER_BYTES]


def sealed(data: bytes) -> None:
    _OPENER.open(HEADER, data)


def envelope(data: bytes) -> None:
    verify(data, [TRUST], NOW)


def signed_body(data: bytes) -> None:
    """Any bytes with a good signature: what a device meets when the aggregator itself is broken or hostile. Documents
    are signed in their canonical form, as any other is refused before it is read."""
    with suppress(ValueError):
        data = canonical_bytes(read_json(data))
    signature = base64_text(IDENTITY.sign(b"hubbub-01 bundle\0" + data))
    body = verify(b"hubbub-bundle 1\n" + f"{TRUST} {signature}\n".encode() + data, [TRUST], NOW).body
    for codebook in body.codebooks:  # as the SDK does next
        Codebook.received(codebook.document)


def compiled_codebook(data: bytes) -> None:
    assert Codebook.from_compiled(Codebook.from_compiled(data).to_bytes()).to_bytes()


def codebook_with_its_id(data: bytes) -> None:
    """A compiled codebook under the id that fits it: only its content can be a reason to refuse it."""
    try:
        document = read_json(data)
    except ValueError as error:
        raise MalformedBundle(f"not strict JSON: {error}") from error
    if not isinstance(document, dict):
        raise MalformedBundle("not an object")
    content = {name: member for name, member in document.items() if name != "id"}
    received = Codebook.received({**content, "id": digest("hubbub-01 codebook", content)[:16].hex()})
    assert Codebook.received(received.to_bytes()).to_bytes() == received.to_bytes()
    if received.refused:
        raise next(iter(received.refused.values()))


def codebook_toml(data: bytes) -> None:
    Codebook.from_toml(data.decode("utf-8", "replace"))


def anchor(data: bytes) -> None:
    parse_anchor(data.decode("utf-8", "replace"))


def payload(data: bytes) -> None:
    """The first byte says of which mechanism."""
    mechanism = _MECHANISMS[data[0] % len(_MECHANISMS)] if data else _MECHANISMS[0]
    assert mechanism.encode(mechanism.decode(data[1:])) == data[1:]


def upload_answer(data: bytes) -> None:
    """The first two bytes give the status and the content type, the third how many reports were sent."""
    head, body = (data[:3] + bytes(3))[:3], data[3:]
    status = (200, 202, 400, 403, 404, 409, 413, 429, 500, 503)[head[0] % 10]
    kind = (PROBLEM_TYPE, "application/json", "text/html", "")[head[1] % 4]
    sent = [b"report"] * (head[2] % 5 + 1)

    retry_after = body[:4].decode("latin-1")
    transport = MemoryTransport(b"")
    transport.script.extend(
        [lambda _: (status, {"content-type": kind, "retry-after": retry_after}, body)] * 2 * len(sent)
    )
    answer = upload(transport, sent)
    assert len(answer.verdicts) == len(sent)
    assert 0 <= answer.retry_after <= 3600
    assert len(transport.requests) < 2 * len(sent)
    for verdict in answer.verdicts:
        if verdict.action is None:
            assert status in (200, 202)
        elif verdict.action is not Action.RETRY:
            assert REFUSALS[verdict.reason].action in (verdict.action, Action.SPLIT)
            assert status != 202
            assert verdict.reason.encode() in body


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        report,
        plaintext,
        reports,
        batch,
        sealed,
        envelope,
        signed_body,
        compiled_codebook,
        codebook_with_its_id,
        codebook_toml,
        anchor,
        payload,
        upload_answer,
    )
}


def _mechanisms() -> list[Mechanism[Any]]:
    built: list[Mechanism[Any]] = []
    for cls in registered().values():
        if not cls.needs_options:
            domain = next(one for one in (Categories(5), Categories(2), Bins(5)) if cls.fits(one) or cls.kind == "mean")
            built.append(cls.calibrate(1, domain if cls.kind == "frequency" else Bounds(Fraction(0), Fraction(100))))
        else:
            built.append(cls.examples(1)[0])
    return built


_MECHANISMS = _mechanisms()


def _bundle() -> bytes:
    return signed({0: CODEBOOK}, [SealingKey(1, public_key_of(PRIVATE_KEY), 0, 2**31)], now=NOW, lifetime=86_400)


def _seeds() -> dict[str, list[bytes]]:
    """What each target takes: where a fuzzer starts from."""
    inside = Plaintext(20_800, bytes(16), b"\x01")
    hidden = Sealer(public_key_of(PRIVATE_KEY)).seal(HEADER, inside.encode())
    whole = encode_report(HEADER, hidden)
    bundle = _bundle()
    failures = json.dumps({"failures": [{"index": 0, "reason": "period-closed"}]}).encode()
    problem = json.dumps({"type": "urn:hubbub:problem:too-large", "title": "x", "status": 413}).encode()
    return {
        "report": [whole],
        "plaintext": [inside.encode()],
        "reports": [encode_upload([whole]), encode_upload([whole, b"x"])],
        "batch": [BatchHeader(bytes(16), 20_800, 1, 2, len(hidden)).encode() + 2 * hidden],
        "sealed": [hidden],
        "envelope": [bundle],
        "signed_body": [bundle.split(b"\n", 2)[2]],
        "compiled_codebook": [CODEBOOK.to_bytes()],
        "codebook_with_its_id": [CODEBOOK.to_bytes()],
        "codebook_toml": [TOML.encode()],
        "anchor": [TRUST.encode()],
        "payload": [
            bytes([index]) + mechanism.encode(mechanism.outputs()[0]) for index, mechanism in enumerate(_MECHANISMS)
        ],
        "upload_answer": [b"\0\1\2" + failures, b"\6\0\3" + problem, b"\1\2\0" + b"<html>"],
    }


SEEDS = _seeds()
