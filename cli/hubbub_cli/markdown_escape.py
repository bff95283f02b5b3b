"""Markdown of text from elsewhere, with nothing in it taken as markup."""

from __future__ import annotations

import html
import re

__all__ = ["plain"]


def plain(written: str) -> str:
    """The text on one line, escaped so that nothing in it is markup, even in a table cell."""
    return re.sub(r"([\\`*_{}\[\]#|~])", r"\\\1", html.escape(" ".join(written.split()), quote=False))
