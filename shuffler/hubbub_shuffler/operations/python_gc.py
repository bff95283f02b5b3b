"""When memory that nobody uses any more is looked for."""

from __future__ import annotations

import asyncio
import gc

__all__ = ["sweep", "tune"]

_SWEEP = 60.0


def tune() -> None:
    """Let the collector pass over what was loaded once and for all, and come less often by itself."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


async def sweep() -> None:
    """Collect once a minute, which takes milliseconds after `tune`.

    Connections leave cycles behind, some of which outlive the collector's first looks; it would not look at those
    again for hours, and memory crept up meanwhile (`make soak`).
    """
    while True:
        await asyncio.sleep(_SWEEP)
        gc.collect()
