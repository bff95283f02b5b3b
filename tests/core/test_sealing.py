"""Sealing: only the holder of the key opens a report, and only as what it was sealed for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import example, given
from hypothesis import strategies as st

from hubbub.errors import CannotOpen
from hubbub.sealing import Opener, Sealer, new_private_key, public_key_of
from hubbub.wire import ReportHeader
from tests.support.paths import ROOT

VECTOR: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "v1" / "hpke.json").read_bytes())
PRIVATE_KEY = bytes.fromhex(VECTOR["private_key"])
HEADER = ReportHeader(bytes.fromhex(VECTOR["metric"]), 20_800, VECTOR["key"])
SEALED = bytes.fromhex(VECTOR["sealed"][0])


def test_what_is_sealed_opens_and_is_48_bytes_longer() -> None:
    private_key = new_private_key()
    sealed = Sealer(public_key_of(private_key)).seal(HEADER, b"plaintext")
    assert Opener(private_key).open(HEADER, sealed) == b"plaintext"
    assert len(sealed) == len(b"plaintext") + 48


def test_the_same_plaintext_is_never_sealed_to_the_same_bytes() -> None:
    sealer = Sealer(public_key_of(PRIVATE_KEY))
    assert len({sealer.seal(HEADER, b"plaintext") for _ in range(100)}) == 100


def test_another_key_does_not_open() -> None:
    with pytest.raises(CannotOpen):
        Opener(new_private_key()).open(HEADER, SEALED)


@pytest.mark.parametrize("header", [replace(HEADER, metric=bytes(16)), replace(HEADER, key=HEADER.key + 1)])
def test_a_report_does_not_open_under_another_metric_or_key_id(header: ReportHeader) -> None:
    with pytest.raises(CannotOpen):
        Opener(PRIVATE_KEY).open(header, SEALED)


@given(st.integers(0, 8 * len(SEALED) - 1))
@example(255)
def test_a_changed_bit_anywhere_does_not_open(bit: int) -> None:
    """Bit 255 too, which X25519 ignores (RFC 7748): HPKE hashes the encapsulated key as it was sent."""
    changed = bytearray(SEALED)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CannotOpen):
        Opener(PRIVATE_KEY).open(HEADER, bytes(changed))


@given(st.binary(max_size=200))
def test_any_bytes_open_or_are_refused_with_a_typed_error(data: bytes) -> None:
    with pytest.raises(CannotOpen):
        Opener(PRIVATE_KEY).open(HEADER, data)


@pytest.mark.parametrize("point", [bytes(32), bytes([1]) + bytes(31)])
def test_a_key_share_of_low_order_is_refused_with_a_typed_error(point: bytes) -> None:
    with pytest.raises(CannotOpen):
        Opener(PRIVATE_KEY).open(HEADER, point + SEALED[32:])


@pytest.mark.parametrize("sealed", VECTOR["sealed"])
def test_what_version_1_sealed_opens_for_ever(sealed: str) -> None:
    assert public_key_of(PRIVATE_KEY).hex() == VECTOR["public_key"]
    assert Opener(PRIVATE_KEY).open(HEADER, bytes.fromhex(sealed)).hex() == VECTOR["plaintext"]


@pytest.mark.parametrize("sealed", VECTOR["sealed"])
def test_a_sealed_report_is_plain_hpke_with_the_stated_info(sealed: str) -> None:
    """With the library alone: what another implementation has to do."""
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    key = X25519PrivateKey.from_private_bytes(PRIVATE_KEY)
    assert suite.decrypt(bytes.fromhex(sealed), key, bytes.fromhex(VECTOR["info"])).hex() == VECTOR["plaintext"]
