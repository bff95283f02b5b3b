"""What a command printed, without its line breaks: where they fall depends on the length of paths."""

from __future__ import annotations

__all__ = ["unwrapped"]


def unwrapped(printed: str) -> str:
    return " ".join(printed.split())
