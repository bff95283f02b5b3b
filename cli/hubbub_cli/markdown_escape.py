"""Markdown that says what somebody wrote, and nothing more."""

from __future__ import annotations

import html
import re

__all__ = ["plain"]


def plain(written: str) -> str:
    """The text on one line, such that nothing in it is markup, also in a cell of a table."""
    return re.sub(r"([\\`*_{}\[\]#|~])", r"\\\1", html.escape(" ".join(written.split()), quote=False))
