"""Where the vectors are."""

from __future__ import annotations

from pathlib import Path

__all__ = ["VECTORS"]

VECTORS = Path(__file__).parent.parent.parent / "tests" / "vectors" / "v1"
