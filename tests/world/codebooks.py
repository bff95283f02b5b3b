"""Codebook of a world and its edits: small crowds, so that a few devices meet a minimum, and one miss shows."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hubbub.codebook import Codebook
from tests.support.compiled import compiled
from tests.world.operations import METRICS

__all__ = ["EDITS", "GRACE", "HORIZON", "PERIOD", "START", "book", "metric_names", "write_codebook"]

PERIOD, GRACE, HORIZON = 3_600, 900, 6 * 3_600
START = 2_000_000_000 // 86_400 * 86_400 + 600.0
"""Ten minutes into a period."""

_TEXT = """
[collection]
name = "world"
period = "1h"
grace = "15m"
forward_horizon = "6h"
device_epsilon = 100
release = {{ epsilon = 0.5, delta = 1e-2 }}
honest_fraction = 1

[metrics.key]
type = "category"
values = {key}
epsilon = 0.5
mechanism = "krr"
min_batch = 4
missing = "a"

[metrics.plain]
type = "boolean"
epsilon = 0.5
min_batch = 3

[metrics.target]
type = "category"
values = ["a", "b", "c", "d"]
epsilon = {target}
mechanism = "krr"
missing = "a"

[metrics.small]
type = "boolean"
epsilon = 0.5
min_batch = 50
"""
EDITS = (
    _TEXT.format(key='["a", "b", "c", "d"]', target=1.02),
    _TEXT.format(key='["a", "b", "c", "d", "e"]', target=1.02),
    _TEXT.format(key='["a", "b", "c", "d", "e"]', target=1.05),
    _TEXT.format(key='["a", "b", "c"]', target=1.02),
)
"""The first is in force from the start. In each, `target` needs eleven reports or more by the target of a release."""


@cache
def book(edit: int) -> Codebook:
    """A compiled codebook."""
    return compiled(EDITS[edit % len(EDITS)])


def write_codebook(path: Path, edit: int = 0) -> Path:
    path.write_bytes(book(edit).to_bytes())
    return path


def metric_names() -> tuple[str, ...]:
    return METRICS
