"""Write the test vectors tests/vectors/v1/{wire,hpke,bundle,randomizer}.json, which every implementation must match.

Version 1 must never change: run this to add a case, and review the diff before committing it. The sealing and signing
keys here are for these files only. Sealed bytes are random; those already in hpke.json are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import BundledCodebook, SealingKey, sign
from hubbub.canonical import canonical_bytes
from hubbub.codebook import Codebook
from hubbub.mechanisms import Bounds, Categories, Domain, Mechanism, mechanism
from hubbub.randomness import Randomness
from hubbub.sealing import Sealer, public_key_of
from hubbub.trust_anchor import anchor_of
from hubbub.wire import BatchHeader, Plaintext, ReportHeader, encode_report, encode_upload

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "v1"
METRIC = bytes(range(16))
NONCE = bytes(range(16, 32))
PRIVATE_KEY = bytes(range(32, 64))
IDENTITY = bytes(range(64, 96))
NOW = 1_800_000_000


class Recorded(Randomness):
    """Bits from a given byte string: each draw of n bits takes the next ceil(n / 8) bytes, big-endian, and keeps the
    upper n bits."""

    def __init__(self, stream: bytes) -> None:
        self._stream, self.used = stream, 0

    def bits(self, count: int) -> int:
        size = (count + 7) // 8
        taken = self._stream[self.used : self.used + size]
        if len(taken) < size:
            raise EOFError(f"the byte stream ends after {len(self._stream)} bytes")
        self.used += size
        return int.from_bytes(taken) >> (8 * size - count)


def stream(label: str, size: int) -> bytes:
    """Bytes without a pattern, which anyone can compute: SHA-256 of label:0, label:1, ... concatenated."""
    blocks = (hashlib.sha256(f"{label}:{block}".encode()).digest() for block in range(size // 32 + 1))
    return b"".join(blocks)[:size]


def wire() -> dict[str, Any]:
    cases = [(0, 0, b"\x01"), (20_800, 1, b"\x00\xff"), (2**32 - 1, 255, bytes(range(9)))]
    reports: list[dict[str, Any]] = []
    for period, key, payload in cases:
        header, sealed = ReportHeader(METRIC, period, key), stream(f"sealed {period}", 48 + 20 + len(payload))
        reports.append(
            {
                "metric": METRIC.hex(),
                "period": period,
                "key": key,
                "nonce": NONCE.hex(),
                "payload": payload.hex(),
                "plaintext": Plaintext(period, NONCE, payload).encode().hex(),
                "sealed": sealed.hex(),
                "report": encode_report(header, sealed).hex(),
            }
        )
    batched = [stream(f"batch {index}", 69) for index in range(3)]
    nothing: list[bytes] = []
    batch = BatchHeader(METRIC, 20_800, 1, count=3, size=69)
    part = BatchHeader(METRIC, 20_800, 1, count=3, size=69, in_other_batches=2**32 + 6)
    discard = BatchHeader(METRIC, 20_801, 2, kind="discard")
    return {
        "reports": reports,
        "uploads": [
            {
                "reports": [report["report"] for report in reports[:count]],
                "upload": encode_upload(bytes.fromhex(report["report"]) for report in reports[:count]).hex(),
            }
            for count in (1, 3)
        ],
        "batches": [
            {
                "kind": header.kind,
                "metric": METRIC.hex(),
                "period": header.period,
                "key": header.key,
                "count": header.count,
                "size": header.size,
                "in_other_batches": header.in_other_batches,
                "sealed": [part.hex() for part in parts],
                "batch": (header.encode() + b"".join(parts)).hex(),
            }
            for header, parts in ((batch, batched), (part, batched), (discard, nothing))
        ],
        "malformed_uploads": ["", "00", "0000", "000501", "000101" + "0000", "000101" + "00"],
        "malformed_reports": ["", "01", reports[0]["report"][:44], "02" + reports[0]["report"][2:]],
        "malformed_batches": [
            "",
            batch.encode().hex()[:-2],
            "02" + batch.encode().hex()[2:],
            "0103" + batch.encode().hex()[4:],
            BatchHeader(METRIC, 1, 1, count=0, size=69).encode().hex(),
            BatchHeader(METRIC, 1, 1, count=3, size=0).encode().hex(),
            BatchHeader(METRIC, 1, 1, count=1, size=69, kind="discard").encode().hex(),
            BatchHeader(METRIC, 1, 1, kind="discard", in_other_batches=1).encode().hex(),
            BatchHeader(METRIC, 1, 1, in_other_batches=3).encode().hex(),
        ],
    }


def hpke() -> dict[str, Any]:
    path = VECTORS / "hpke.json"
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_bytes())
        return kept
    header = ReportHeader(METRIC, 20_800, 1)
    plaintext = Plaintext(20_800, NONCE, b"\x03").encode()
    info = b"hubbub-01 report\0" + METRIC + bytes.fromhex("002000010001") + bytes([1])
    return {
        "suite": "DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM",
        "private_key": PRIVATE_KEY.hex(),
        "public_key": public_key_of(PRIVATE_KEY).hex(),
        "metric": METRIC.hex(),
        "key": 1,
        "info": info.hex(),
        "plaintext": plaintext.hex(),
        "sealed": [Sealer(public_key_of(PRIVATE_KEY)).seal(header, plaintext).hex() for _ in range(2)],
    }


def bundle() -> dict[str, Any]:
    toml = json.loads((VECTORS / "codebook.json").read_bytes())[0]["toml"]
    codebook = Codebook.from_toml(toml).with_min_batch(lambda _: 500)
    identity = Ed25519PrivateKey.from_private_bytes(IDENTITY)
    signed = sign(
        identity,
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
        "trust": anchor_of(identity),
        "bundle": signed.hex(),
        "sequence": NOW,
        "verifies_at": NOW + 86_399,
        "expired_at": NOW + 86_400,
        "body_sha256": hashlib.sha256(signed.split(b"\n", 2)[2]).hexdigest(),
        "metrics": [metric.id.hex() for metric in codebook.metrics],
        "key_of_period": {"20829": None, "20830": 1, "20833": 1, "20834": 2, "20835": None},
    }


def mechanisms() -> Iterator[tuple[Mechanism[Any], dict[str, Any], list[Any]]]:
    """Each mechanism with its domain as JSON and its inputs."""

    def made(name: str, epsilon: str, domain: Domain, **options: Any) -> Mechanism[Any]:
        return mechanism(name).calibrate(Fraction(epsilon), domain, **options)

    yield made("rr", "1", Categories(2)), {"size": 2}, [0, 1]
    yield made("krr", "2", Categories(5)), {"size": 5}, [0, 3, 4]
    yield made("matrix", "1", Categories(2), matrix=[["0.7", "0.4"], ["0.3", "0.6"]]), {"size": 2}, [0, 1]
    bounds = Bounds(Fraction(0), Fraction(5_000))
    numbers = ["0", "812", "2500.5", "5000"]
    yield made("laplace", "1", bounds, steps=16), {"bounds": ["0", "5000"]}, numbers
    bounds = Bounds(Fraction(-81, 2), Fraction(341, 4))
    numbers = ["-40.5", "0", "21.5", "85.25"]
    yield made("duchi", "1.5", bounds), {"bounds": ["-40.5", "85.25"]}, numbers
    for name, epsilon, size in (
        ("hadamard", "0.5", 1000),
        ("linear-hash", "2", 1000),
        ("olh", "2", 1000),
        ("oue", "1", 20),
        ("subset", "1", 20),
        ("subset", "4", 300),  # encoded as a list of places instead of a bit for each value
        ("sue", "1", 20),
    ):
        yield made(name, epsilon, Categories(size)), {"size": size}, [0, 7, size - 1]
    for name, epsilon in (("hybrid", "2"), ("piecewise", "1"), ("table", "1"), ("table", "3")):
        yield made(name, epsilon, bounds), {"bounds": ["-40.5", "85.25"]}, numbers


def randomizer() -> list[dict[str, Any]]:
    vectors = []
    for built, domain, inputs in mechanisms():
        decisions = []
        for value in inputs:
            for run in range(12):
                drawn = stream(f"{built.name} {value} {run}", 4_096)
                rng = Recorded(drawn)
                report = built.randomize(Fraction(value) if isinstance(value, str) else value, rng)
                payload = built.encode(report).hex()
                decisions.append({"value": value, "stream": drawn[: rng.used].hex(), "payload": payload})
        vectors.append(
            {
                "mechanism": built.name,
                "epsilon": str(built.epsilon),
                "domain": domain,
                "parameters": json.loads(json.dumps(built.parameters())),
                "decisions": decisions,
            }
        )
    return vectors


def write(name: str, document: Any) -> None:
    canonical_bytes(document)  # refuses floats and big integers: other languages must read the same numbers
    (VECTORS / name).write_text(json.dumps(document, indent=1) + "\n", encoding="ascii")
    print(f"wrote {name}")


if __name__ == "__main__":
    write("wire.json", wire())
    write("hpke.json", hpke())
    write("bundle.json", bundle())
    write("randomizer.json", randomizer())
