"""X25519 public keys of low order: the shared secret with them is zero, so that nothing can be sealed to them.

The shuffler checks bundles for them, and loads nothing that could open a report.
"""

from __future__ import annotations

__all__ = ["has_low_order"]

_FIELD = 2**255 - 19
_EIGHTH = 39382357235489614581723060781553021112529911719440698176882885853963445705823
"""One u-coordinate of order 8; its inverse is the other (Bernstein, "Curve25519", 2006, section 3)."""
_LOW_ORDER = {0, 1, _FIELD - 1, _EIGHTH, pow(_EIGHTH, -1, _FIELD)}


def has_low_order(public_key: bytes) -> bool:
    """Whether a shared secret with this X25519 key is zero whatever the other key is: nothing can be sealed to it."""
    u = int.from_bytes(public_key, "little") % 2**255  # RFC 7748, section 5: the last bit is ignored
    return u % _FIELD in _LOW_ORDER
