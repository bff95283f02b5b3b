"""Entity tags: a short name for an answer's bytes, made from what they depend on, before they are made.

The tags are strong: an answer is a pure function of immutable releases, the question, the form it is asked in and
the few facts that time changes, and all of these are in the tag.
"""

from __future__ import annotations

import hashlib
import json
import re

import hubbub

__all__ = ["is_known", "tag"]

_TAG = re.compile(r'(?:W/)?("[^"]*")')


def tag(*basis: object) -> str:
    """The tag of whatever follows from `basis`, by this version of the software."""
    text = json.dumps([hubbub.__version__, *basis], sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def is_known(current: str, if_none_match: str | None) -> bool:
    """Whether the caller has this answer already, by the weak comparison that If-None-Match asks for (RFC 9110)."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or current in _TAG.findall(if_none_match)
