"""Schedule of Python's garbage collector."""

from __future__ import annotations

import asyncio
import gc

__all__ = ["sweep", "tune"]

_SWEEP = 60.0


def tune() -> None:
    """Let the collector skip what was loaded at the start, and run less often by itself."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def sweep() -> None:
    """Collect once a minute, which takes milliseconds after `tune`.

    Connections leave reference cycles behind, and some outlive the collector's first looks. By itself it would not look
    at those again for hours, and memory crept up meanwhile (`make soak`).
    """
    while True:
        await asyncio.sleep(_SWEEP)
        gc.collect()
