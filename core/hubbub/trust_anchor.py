"""Trust anchors: the aggregator's identity key as text that fits on one line of configuration.

ed25519:<32 bytes in base64url, without padding>
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["anchor_of", "anchor_text", "base64_text", "parse_anchor", "read_base64"]

_PREFIX = "ed25519:"


def anchor_of(key: Ed25519PrivateKey) -> str:
    """The trust anchor of a signing key."""
    return anchor_text(key.public_key().public_bytes_raw())


def anchor_text(public_key: bytes) -> str:
    """A public key as a trust anchor."""
    return _PREFIX + base64_text(public_key)


def parse_anchor(text: str) -> bytes:
    """The public key in a trust anchor, or InvalidParameter."""
    try:
        if not text.startswith(_PREFIX):
            raise ValueError(f"it does not start with {_PREFIX!r}")
        return read_base64(text.removeprefix(_PREFIX), 32)
    except ValueError as error:
        raise InvalidParameter(
            f"{text!r} is not a trust anchor: {error}; copy the whole line that the aggregator shows, "
            f"{_PREFIX} and 43 characters"
        ) from error


def base64_text(data: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def read_base64(text: str, size: int | None) -> bytes:
    """Exactly `size` bytes (None: one or more), or ValueError.

    Only one spelling of each byte string is accepted. A plain decoder ignores the spare bits of the last letter, so
    a signed document could be changed there without breaking its signature.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("it is not base64url") from error
    if len(data) != (size or max(len(data), 1)) or base64_text(data) != text:
        raise ValueError(f"it is not {size or 'one or more'} bytes in base64url without padding")
    return data
