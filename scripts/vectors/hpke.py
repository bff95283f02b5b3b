"""tests/vectors/v1/hpke.json: sealed reports that must open, ones that must not, and exact bytes.

The exact bytes come from RFC 9180 written out from X25519, HKDF and AES-GCM, since no library takes the ephemeral key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hubbub.sealing import public_key_of
from hubbub.wire import Plaintext
from scripts.vectors.keys import METRIC, NONCE, PRIVATE_KEY
from scripts.vectors.paths import VECTORS
from scripts.vectors.streams import stream

__all__ = ["hpke", "sealed_with"]

_KEM = b"KEM" + bytes.fromhex("0020")
_HPKE = b"HPKE" + bytes.fromhex("002000010001")
LOW_ORDER = (
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ec" + "ff" * 30 + "7f",
    "ed" + "ff" * 30 + "7f",
    "ee" + "ff" * 30 + "7f",
)
"""Points of order 1, 2, 4 and 8, and other spellings of two: the shared secret is zero."""


def hpke() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((VECTORS / "hpke.json").read_bytes())  # sealed bytes are random: they stay
    first = {name: kept[name] for name in list(kept)[:7]}
    sealed = kept["sealed"][0]
    good = {"private_key": PRIVATE_KEY.hex(), "info": kept["info"], "sealed": sealed}
    other_info = {
        "another metric": _info(bytes(16), 1),
        "another key": _info(METRIC, 2),
        "another label": b"hubbub-02 report\0" + _info(METRIC, 1)[17:],
        "another suite": _info(METRIC, 1).replace(bytes.fromhex("002000010001"), bytes.fromhex("002000010002")),
        "no info": b"",
    }
    bits = [0, 255, 8 * 32, 8 * len(sealed) // 2 - 1]
    return {
        **first,
        "sealed": kept["sealed"],
        "exact": [_exact(key, len_) for key, len_ in ((0, 1), (1, 1), (7, 32), (255, 1_000))],
        "must_not_open": [
            *({"what": what, **good, "info": info.hex()} for what, info in other_info.items()),
            {"what": "another private key", **good, "private_key": METRIC.hex() * 2},
            *({"what": f"bit {bit} changed", **good, "sealed": _flipped(sealed, bit)} for bit in bits),
            {"what": "one byte less", **good, "sealed": sealed[:-2]},
            {"what": "one byte more", **good, "sealed": sealed + "00"},
            {"what": "only an encapsulated key", **good, "sealed": sealed[:64]},
            {"what": "nothing", **good, "sealed": ""},
            *(
                {"what": "an encapsulated key of low order, sealed to the zero secret", **good, "sealed": forged.hex()}
                for forged in (_forged(bytes.fromhex(point), bytes.fromhex(kept["info"])) for point in LOW_ORDER)
            ),
        ],
        "public_keys_of_low_order": list(LOW_ORDER),
    }


def _exact(key: int, size: int) -> dict[str, Any]:
    recipient, ephemeral = stream(f"recipient {key}", 32), stream(f"ephemeral {key}", 32)
    plaintext = Plaintext(20_800 + key, NONCE, stream(f"payload {key}", size)).encode()
    info = _info(METRIC, key)
    return {
        "private_key": recipient.hex(),
        "public_key": public_key_of(recipient).hex(),
        "ephemeral_private_key": ephemeral.hex(),
        "metric": METRIC.hex(),
        "key": key,
        "info": info.hex(),
        "plaintext": plaintext.hex(),
        "sealed": sealed_with(ephemeral, public_key_of(recipient), info, plaintext).hex(),
    }


def _info(metric: bytes, key: int) -> bytes:
    return b"hubbub-01 report\0" + metric + bytes.fromhex("002000010001") + bytes([key])


def _flipped(sealed: str, bit: int) -> str:
    changed = bytearray.fromhex(sealed)
    changed[bit // 8] ^= 1 << bit % 8
    return changed.hex()


# -- RFC 9180, base mode, one message -------------------------------------------------------------


def sealed_with(ephemeral: bytes, public_key: bytes, info: bytes, plaintext: bytes, aad: bytes = b"") -> bytes:
    """enc | ciphertext, with this ephemeral private key."""
    secret = X25519PrivateKey.from_private_bytes(ephemeral)
    shared = secret.exchange(X25519PublicKey.from_public_bytes(public_key))
    return _sealed(secret.public_key().public_bytes_raw(), shared, public_key, info, plaintext, aad)


def _forged(point: bytes, info: bytes) -> bytes:
    """What opens where the shared secret may be zero: the public key of the recipient is enough to make it."""
    plaintext = Plaintext(20_800, NONCE, b"\x03").encode()
    return _sealed(point, bytes(32), public_key_of(PRIVATE_KEY), info, plaintext, b"")


def _sealed(enc: bytes, shared: bytes, public_key: bytes, info: bytes, plaintext: bytes, aad: bytes) -> bytes:
    shared = _expand(_KEM, _extract(_KEM, b"", b"eae_prk", shared), b"shared_secret", enc + public_key, 32)
    context = b"\0" + _extract(_HPKE, b"", b"psk_id_hash", b"") + _extract(_HPKE, b"", b"info_hash", info)
    schedule = _extract(_HPKE, shared, b"secret", b"")
    key, nonce = _expand(_HPKE, schedule, b"key", context, 16), _expand(_HPKE, schedule, b"base_nonce", context, 12)
    return enc + AESGCM(key).encrypt(nonce, plaintext, aad)


def _extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, hashlib.sha256)


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, size: int) -> bytes:
    """One block of HKDF is enough."""
    labelled = size.to_bytes(2) + b"HPKE-v1" + suite + label + info
    return hmac.digest(key, labelled + b"\1", hashlib.sha256)[:size]
