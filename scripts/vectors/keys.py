"""Keys and ids of the vectors. They are public: nothing else may use them."""

from __future__ import annotations

__all__ = ["IDENTITY", "METRIC", "NONCE", "NOW", "PRIVATE_KEY"]

METRIC = bytes(range(16))
NONCE = bytes(range(16, 32))
PRIVATE_KEY = bytes(range(32, 64))
IDENTITY = bytes(range(64, 96))
NOW = 1_800_000_000
