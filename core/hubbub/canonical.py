"""Canonical JSON: exactly one byte string for each document, so that documents can be hashed, signed and compared.

Keys are sorted by code point, there are no spaces, and everything is ASCII. There are no floats, since two languages
print them differently, no integers beyond 2^53 - 1, since JavaScript cannot tell 2^53 from 2^53 + 1, and no half of a
surrogate pair, which most languages cannot hold. Decimals and big integers are strings. Nothing is nested deeper than
64 levels, since parsers have different limits. Reading is as strict: a key that occurs twice is refused, since two
readers could see two different documents.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

__all__ = ["DEEPEST_NESTING", "LARGEST_INTEGER", "Json", "canonical_bytes", "digest", "read_json"]

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

LARGEST_INTEGER = 2**53 - 1
DEEPEST_NESTING = 64
"""Levels of arrays and objects: `[]` has one, `[[]]` two."""


def canonical_bytes(document: Json) -> bytes:
    """The bytes of a document, or ValueError if it has no canonical form."""
    _refuse_uncanonical(document)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def digest(label: str, document: Json) -> bytes:
    """SHA-256 of a label and a document. The label keeps two kinds of document from sharing a hash."""
    return hashlib.sha256(label.encode() + b"\0" + canonical_bytes(document)).digest()


def read_json(raw: bytes, levels: int = DEEPEST_NESTING) -> Json:
    """The document in these bytes; ValueError for what two readers could read differently, or for more than `levels`
    levels."""
    try:
        document: Json = json.loads(
            raw.decode("ascii"),
            object_pairs_hook=_no_duplicates,
            parse_float=_refuse_number,
            parse_constant=_refuse_number,
        )
        _refuse_uncanonical(document, levels)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return document


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {max(names, key=names.count)!r} is given twice")
    return document


def _refuse_number(text: str) -> None:
    raise ValueError(f"{text} is not a whole number; decimals are written as strings")


def _refuse_uncanonical(document: object, levels: int = DEEPEST_NESTING) -> None:
    """Raise ValueError for a document that has no canonical form, or more than `levels` levels."""
    if levels == 0 and isinstance(document, list | dict):
        raise ValueError("nested too deeply")
    match document:
        case None | bool():
            return
        case str():
            if not document.isascii() and any("\ud800" <= letter <= "\udfff" for letter in document):
                raise ValueError(f"{document!r} contains half a character")
        case int():
            if abs(document) > LARGEST_INTEGER:
                raise ValueError(f"{document} is beyond 2^53 - 1; write it as a string")
        case list():
            for item in document:
                _refuse_uncanonical(item, levels - 1)
        case dict():
            for key, item in document.items():
                if not isinstance(key, str):
                    raise ValueError(f"a key must be a string, got {key!r}")
                _refuse_uncanonical(key)
                _refuse_uncanonical(item, levels - 1)
        case _:
            raise ValueError(f"{document!r} has no canonical form")
