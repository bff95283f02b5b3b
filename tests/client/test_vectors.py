"""The language-neutral vectors: a signed bundle, and randomizer decisions from a given byte stream."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hubbub.bundle import verify
from hubbub.codebook import Codebook
from hubbub.errors import BadSignature, ExpiredBundle
from hubbub.mechanisms import Bounds, Domain, mechanism, registered
from hubbub.mechanisms._frequency_oracle import PureOracle
from hubbub.randomness import Randomness
from hubbub_client._randomizing.draw import draw
from scripts.vectors.randomizer import of_size
from tests.client.world import TOML

ROOT = Path(__file__).parent.parent / "vectors" / "v1"
BUNDLE: dict[str, Any] = json.loads((ROOT / "bundle.json").read_bytes())
RANDOMIZER: list[dict[str, Any]] = json.loads((ROOT / "randomizer.json").read_bytes())
RAW = bytes.fromhex(BUNDLE["bundle"])


class Given(Randomness):
    """n bits are the upper n of the next ceil(n / 8) bytes, big-endian."""

    def __init__(self, stream: bytes) -> None:
        self.left = stream

    def bits(self, count: int) -> int:
        size = (count + 7) // 8
        assert len(self.left) >= size, "more was drawn than the vector has"
        taken, self.left = self.left[:size], self.left[size:]
        return int.from_bytes(taken, "big") >> (8 * size - count)


def test_the_bundle_verifies_until_it_expires() -> None:
    bundle = verify(RAW, [BUNDLE["trust"]], BUNDLE["verifies_at"])
    assert bundle.body.sequence == BUNDLE["sequence"]
    assert bundle.digest.hex() == BUNDLE["body_sha256"]
    assert [metric.id.hex() for metric in bundle.body.codebooks[0].metrics] == BUNDLE["metrics"]
    with pytest.raises(ExpiredBundle):
        verify(RAW, [BUNDLE["trust"]], BUNDLE["expired_at"])


def test_the_bundle_names_one_key_per_period() -> None:
    body = verify(RAW, [BUNDLE["trust"]], BUNDLE["verifies_at"]).body
    for period, expected in BUNDLE["key_of_period"].items():
        key = body.key_for(int(period))
        assert (key.id if key else None) == expected


def test_the_bundle_with_one_letter_changed_does_not_verify() -> None:
    changed = RAW.replace(b"photo-app", b"photo-apq", 1)
    assert changed != RAW
    with pytest.raises(BadSignature):
        verify(changed, [BUNDLE["trust"]], BUNDLE["verifies_at"])


def test_a_device_rebuilds_the_codebook_of_the_bundle() -> None:
    body = verify(RAW, [BUNDLE["trust"]], BUNDLE["verifies_at"]).body
    rebuilt = Codebook.from_compiled(body.codebooks[0].document)
    assert [metric.id.hex() for metric in rebuilt.metrics] == BUNDLE["metrics"]


def _built(vector: dict[str, Any]) -> Any:
    described = vector["domain"]
    domain: Domain = (
        of_size(vector["mechanism"], described["size"])
        if "size" in described
        else Bounds(*(Fraction(bound) for bound in described["bounds"]))
    )
    return mechanism(vector["mechanism"]).from_parameters(Fraction(vector["epsilon"]), domain, vector["parameters"])


@pytest.mark.parametrize("vector", RANDOMIZER, ids=[vector["mechanism"] for vector in RANDOMIZER])
def test_the_same_bits_give_the_same_decision_for_ever(vector: dict[str, Any]) -> None:
    built = _built(vector)
    for decision in vector["decisions"]:
        rng = Given(bytes.fromhex(decision["stream"]))
        value = decision["value"]
        report = built.randomize(Fraction(value) if isinstance(value, str) else value, rng)
        assert built.encode(report).hex() == decision["payload"]
        assert rng.left == b""


def test_the_vectors_hold_truth_and_lies_of_every_mechanism() -> None:
    """Else they would not notice a randomizer that never, or always, tells the truth."""
    known = {vector["mechanism"] for vector in RANDOMIZER}
    assert known >= {"laplace", "duchi"} | {name for name, cls in registered().items() if cls.kind == "frequency"}
    for vector in RANDOMIZER:
        built = _built(vector)
        if isinstance(built, PureOracle):  # its reports always differ: does each support the value, or does none?
            reports = [(built.decode(bytes.fromhex(d["payload"])), d["value"]) for d in vector["decisions"]]
            assert {int(built.supports(built.tally([report]))[value]) for report, value in reports} == {0, 1}
        for value in {decision["value"] for decision in vector["decisions"]}:
            told = Counter(d["payload"] for d in vector["decisions"] if d["value"] == value)
            assert len(told) > 1


@pytest.mark.parametrize(("name", "value"), [("theme", "dark"), ("startup_ms", 812)])
def test_a_client_draws_the_decision_then_sixteen_bytes_of_nonce_and_nothing_else(name: str, value: object) -> None:
    """So that no noise is lost, or added, between the mechanism that is proved and the report that is sent."""
    metric = Codebook.from_toml(TOML).metric(name)
    for run in range(50):
        stream = hashlib.shake_256(f"{name} {run}".encode()).digest(4_096)
        rng, expected = Given(stream), Given(stream)
        drawn = draw(metric, value, rng)
        assert drawn.payload == metric.mechanism.encode(
            metric.mechanism.randomize(metric.input_of(metric.recorded(value)), expected)
        )
        assert drawn.nonce == expected.left[:16]
        assert rng.left == expected.left[16:]
