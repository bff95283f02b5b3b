"""Shortened names that stay distinct. They are cut in the middle, since names in a list often differ at their ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from unicodedata import east_asian_width

__all__ = ["letters", "shortened", "shortened_all"]

_WIDER = (1.0, 1.25, 1.5)
"""Factors for the room that names get. A larger one is used if names would look the same with less room."""


def letters(name: str) -> int:
    """How many letters of room a name takes. In some scripts letters are twice as wide."""
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in name)


def shortened(name: str, most: int, cut: str = "…") -> str:
    """A name in at most `most` letters: its beginning, the cut mark, its end."""
    if letters(name) <= most:
        return name
    room = max(2, most - letters(cut))
    return _from_start(name, room - room // 2) + cut + _from_start(name[::-1], room // 2)[::-1]


def shortened_all(names: Sequence[str], most: int, cut: str = "…") -> list[str]:
    """The same for a list. No two different names look the same afterwards; those that would get a number."""
    found = list(names)
    for more in _WIDER:
        found = [shortened(name, int(most * more), cut) for name in names]
        if len(set(found)) == len(set(names)):
            return found
    often, taken = Counter(found), {*names, *found}
    told: dict[str, str] = {}
    for name, short in zip(names, found, strict=True):
        if name not in told:
            told[name] = short if often[short] == 1 or short == name else _numbered(short, taken, cut)
            taken.add(told[name])
    return [told[name] for name in names]


def _numbered(short: str, taken: set[str], cut: str) -> str:
    number = 2
    while (told := f"{short}{cut}{number}") in taken:
        number += 1
    return told


def _from_start(name: str, room: int) -> str:
    kept = ""
    for sign in name:
        if letters(kept) + letters(sign) > room:
            break
        kept += sign
    return kept
