"""The backends that a storage can have, as it says itself and as a status shows it."""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["StorageKind"]

StorageKind: TypeAlias = Literal["sqlite", "redis"]
