"""Markdown as MyST reads it: tables, anchors, code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["anchored", "code", "definitions", "slug", "table"]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. Cells are Markdown, each put on one line."""
    lines = [_row(columns), _row(["---"] * len(columns)), *map(_row, rows)]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(' '.join(cell.replace('|', chr(92) + '|').split()) for cell in cells)} |"


def definitions(entries: Iterable[tuple[str, str, str]]) -> str:
    """A list of names, each with facts beside it and its meaning below. Unlike a wide table, it fits a phone."""
    return "\n\n".join(
        f"{name}{', ' * bool(facts)}{facts}\n: {' '.join(meaning.split())}" for name, facts, meaning in entries
    )


def code(text: object) -> str:
    """The text as code; empty if the text is empty."""
    return f"`{text}`" if str(text) else ""


def slug(*words: str) -> str:
    """An anchor that is the same in every version: lower case, words joined by hyphens."""
    kept = "".join(c if c.isalnum() else " " for c in " ".join(words).lower())
    return "-".join(kept.split())


def anchored(text: str, *words: str) -> str:
    """The text with an anchor made of these words, for links to it."""
    return f"[{text}]{{#{slug(*words)}}}"
