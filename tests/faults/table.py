"""A table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["markdown"]


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Without heads, the rows alone."""
    lines = [heads, ["---"] * len(heads), *rows] if heads else rows
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
