"""Documents that are almost right: one or a few places of a good one replaced, removed, repeated or swapped.

Random bytes hardly ever get past a JSON parser; what is behind it is met by documents like these.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

__all__ = ["mutated_json", "mutated_text"]

_ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 255, 256, 2**31, 2**32, 2**53, 2**53 + 1, 2**64, -(2**63), 0.5, 1e308),
    *("", "0", "-1", "1e999", "1e-999", "NaN", "Infinity", "-0", "9" * 5_000, "0x10", "1/3", "1_000", "٣", "\0", "é"),
    *("a" * 300, "boolean", "mean", "krr", "laplace", "rr", "matrix", "duchi", "first", "sum", "other", "2027-02-30"),
    *([], {}, [[]], {"": None}, [0] * 300, {"name": "krr", "parameters": {}}, [None], ["0", "0"], ["1", "0"]),
]


def mutated_json(document: Any, rng: random.Random) -> bytes:
    """The document after one to three changes."""
    changed = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(changed)
        if not places:
            break
        holder, key = rng.choice(places)
        match rng.randrange(5):
            case 0:
                del holder[key]
            case 1:
                other, its = rng.choice(places)
                holder[key] = copy.deepcopy(other[its])
            case 2 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            case 3 if isinstance(holder, dict):
                holder[rng.choice(("", "name", "id", "extra", "mechanism"))] = holder[key]
            case _:
                holder[key] = copy.deepcopy(rng.choice(_ODD))
    return json.dumps(changed).encode()


def mutated_text(text: str, rng: random.Random) -> str:
    """The text after one to three changes of a line, a word or a character."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        match rng.randrange(4):
            case 0:
                del lines[at]
            case 1:
                lines.insert(rng.randrange(len(lines) + 1), lines[at])
            case 2:
                name, equals, _ = lines[at].partition("=")
                lines[at] = name + (equals or "=") + " " + json.dumps(rng.choice(_ODD))
            case _:
                cut = rng.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:cut] + rng.choice("\"'[]{}=,.#\\0\n9é\x00") + lines[at][cut + rng.randrange(2) :]
        text = "\n".join(lines)
    return text


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a document."""
    keys: list[Any] = []
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = list(range(len(document)))
    found: list[tuple[Any, Any]] = [(document, key) for key in keys]
    for key in keys:
        found += _places(document[key])
    return found
