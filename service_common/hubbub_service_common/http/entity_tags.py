"""Entity tags: short names for an answer's bytes, so that a caller that has them already need not fetch them again.

The tags are strong: two answers with the same tag have the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re

import hubbub

__all__ = ["is_known", "tag_of_basis", "tag_of_bytes"]

_TAG = re.compile(r'(?:W/)?("[^"]*")')
_DIGITS = 32


def tag_of_bytes(raw: bytes) -> str:
    """The tag of these bytes."""
    return f'"{hashlib.sha256(raw).hexdigest()[:_DIGITS]}"'


def tag_of_basis(*basis: object) -> str:
    """The tag of the answer that this version of the software makes from `basis`: known before the bytes are made."""
    text = json.dumps([hubbub.__version__, *basis], sort_keys=True, separators=(",", ":"))
    return tag_of_bytes(text.encode())


def is_known(current: str, if_none_match: str | None) -> bool:
    """Whether the caller already has this answer, by the weak comparison that If-None-Match calls for (RFC 9110)."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or current in _TAG.findall(if_none_match)
