"""The traces of ledger.json before they are played."""

from __future__ import annotations

from functools import cache

from scripts.vectors.traces.answers import answers
from scripts.vectors.traces.budgets import budgets
from scripts.vectors.traces.bundles import bundles
from scripts.vectors.traces.codebooks import codebooks
from scripts.vectors.traces.lives import lives
from scripts.vectors.traces.script import Script
from scripts.vectors.traces.sending import reducers, times
from scripts.vectors.traces.slips import slips
from scripts.vectors.traces.world import shared

__all__ = ["Script", "shared", "traces"]

_PARTS = (reducers, times, budgets, codebooks, bundles, lives, answers, slips)


@cache
def traces() -> tuple[Script, ...]:
    return tuple(script for part in _PARTS for script in part())
