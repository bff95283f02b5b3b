"""Sealing of reports, so that only the aggregator can read them and the shuffler cannot: single-shot HPKE, one suite.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM (RFC 9180). `info` binds the metric and the key:

    info = "hubbub-01 report" | 0x00 | metric id | kem, kdf, aead ids u16 each | key id u8

so a report does not open under another metric or key id. `cryptography` returns enc | ciphertext.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hubbub.errors import CannotOpen

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

    from hubbub.wire import ReportHeader

__all__ = ["Opener", "Sealer", "new_private_key", "public_key_of"]

_LABEL = b"hubbub-01 report\0"
_SUITE_IDS = struct.pack(">HHH", 0x0020, 0x0001, 0x0001)


def _suite() -> Suite:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def _info(header: ReportHeader) -> bytes:
    return _LABEL + header.metric + _SUITE_IDS + bytes([header.key])


def new_private_key() -> bytes:
    """A new X25519 private key, 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def public_key_of(private_key: bytes) -> bytes:
    """The public key of a private key."""
    return _load(private_key).public_key().public_bytes_raw()


def _load(private_key: bytes) -> X25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private_key)


class Sealer:
    """Seals reports to one public key."""

    def __init__(self, public_key: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        self._suite = _suite()
        self._key = X25519PublicKey.from_public_bytes(public_key)

    def seal(self, header: ReportHeader, plaintext: bytes) -> bytes:
        """The sealed part of a report, 48 bytes longer than the plaintext."""
        return self._suite.encrypt(plaintext, self._key, _info(header))


class Opener:
    """Opens reports with one private key."""

    def __init__(self, private_key: bytes) -> None:
        from cryptography.exceptions import InvalidTag

        self._suite = _suite()
        self._key = _load(private_key)
        self._faults = (InvalidTag, ValueError)
        self._about: tuple[ReportHeader | None, bytes] = (None, b"")

    def open(self, header: ReportHeader, sealed: bytes) -> bytes:
        """The plaintext, or CannotOpen if it is damaged or sealed for another key, metric or version."""
        about, info = self._about
        if about is not header:  # a whole batch is opened under one header, so `info` is kept
            info = _info(header)
            self._about = (header, info)
        try:
            return self._suite.decrypt(sealed, self._key, info)
        except self._faults as error:
            raise CannotOpen("the report does not open: damaged, or sealed for another key or metric") from error
