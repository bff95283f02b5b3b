"""The files of vectors, and how each is made."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hubbub.canonical import canonical_bytes
from scripts.vectors.answers import answers
from scripts.vectors.bundle import bundle
from scripts.vectors.canonical import canonical
from scripts.vectors.claims import claims
from scripts.vectors.codebook import codebooks
from scripts.vectors.draws import draws
from scripts.vectors.hpke import hpke
from scripts.vectors.ledger import ledger
from scripts.vectors.periods import periods
from scripts.vectors.randomizer import randomizer
from scripts.vectors.received import received
from scripts.vectors.reducers import reducers
from scripts.vectors.refusals import refusals
from scripts.vectors.wire import wire

__all__ = ["FILES", "text"]

FILES: Mapping[str, Callable[[], Any]] = {
    "answers.json": answers,
    "bundle.json": bundle,
    "canonical.json": canonical,
    "claims.json": claims,
    "codebook.json": codebooks,
    "draws.json": draws,
    "hpke.json": hpke,
    "ledger.json": ledger,
    "periods.json": periods,
    "randomizer.json": randomizer,
    "received.json": received,
    "reducers.json": reducers,
    "refusals.json": refusals,
    "wire.json": wire,
}


_OLDEST = {"bundle.json": 9, "codebook.json": 4, "hpke.json": 8, "randomizer.json": 16, "wire.json": 6}
"""How many members or items of a file have a line for each value, as they always had."""
_WIDE = 160
"""Characters that the others may have on one line."""


def text(name: str, document: Any) -> str:
    """The file of this name that holds a document."""
    canonical_bytes(document)  # no float and no big integer: other languages must read the same numbers
    return _laid_out(document, "", _OLDEST.get(name, 0), _WIDE) + "\n"


def _laid_out(node: Any, margin: str, oldest: int, wide: int) -> str:
    """JSON with a line for each thing that is short."""
    line = json.dumps(node)
    if not isinstance(node, dict | list) or not node or len(line) <= wide:
        return line
    inner = margin + " "
    names = [f"{json.dumps(name)}: " for name in node] if isinstance(node, dict) else [""] * len(node)
    items = [
        name + _laid_out(item, inner, 0, 0 if place < oldest else wide)
        for place, (name, item) in enumerate(zip(names, node.values() if isinstance(node, dict) else node, strict=True))
    ]
    first, last = "{}" if isinstance(node, dict) else "[]"
    return f"{first}\n{inner}" + f",\n{inner}".join(items) + f"\n{margin}{last}"
