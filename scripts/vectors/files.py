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
    "periods.json": periods,
    "randomizer.json": randomizer,
    "received.json": received,
    "reducers.json": reducers,
    "refusals.json": refusals,
    "wire.json": wire,
}


def text(document: Any) -> str:
    """The file that holds this document."""
    canonical_bytes(document)  # no float and no big integer: other languages must read the same numbers
    return json.dumps(document, indent=1) + "\n"
