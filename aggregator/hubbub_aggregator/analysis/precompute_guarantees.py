"""Guarantees composed ahead of time, so that the first answer after a release need not wait for them.

A range over many periods composes as many guarantees. That takes from half a second to a few seconds per metric, once
for each set of releases. `answer_guarantee` keeps what is composed here; it changes no answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hubbub_aggregator.analysis.answer_guarantee import Released, privacy
from hubbub_aggregator.analysis.read_releases import records

if TYPE_CHECKING:
    from hubbub_aggregator.service import Aggregator

__all__ = ["warm", "warming"]

_LOG = logging.getLogger("hubbub_aggregator")

_PAUSE = 5.0
"""Seconds between checks for new releases."""


async def _nothing() -> None:
    """What is called after a release, unless something else is given."""


@asynccontextmanager
async def warming(service: Aggregator, then: Callable[[], Awaitable[None]] = _nothing) -> AsyncIterator[None]:
    """Compose in the background, at the start and after each release, until the block ends. `then` is called too."""
    ending = threading.Event()
    task = asyncio.create_task(_keep_warm(service, ending, then))
    try:
        yield
    finally:
        ending.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _keep_warm(service: Aggregator, ending: threading.Event, then: Callable[[], Awaitable[None]]) -> None:
    known: dict[bytes, tuple[int, int, int]] = {}
    while True:
        try:
            spans = await asyncio.to_thread(service.storage.spans)
            changed = {metric for metric, span in spans.items() if span != known.get(metric)}
            if changed:
                await then()  # first, because people look at the newest numbers, and few at their composition
            await asyncio.to_thread(warm, service, changed, ending)
            known = spans
        except Exception as error:  # noqa: BLE001  the next caller composes it, or is told what is wrong
            _LOG.info("composing guarantees ahead of time failed and is tried again: %s", type(error).__name__)
        await asyncio.sleep(_PAUSE)


def warm(service: Aggregator, ids: set[bytes], ending: threading.Event | None = None) -> None:
    """Compose what an answer over all periods of these metrics needs."""
    for versions in service.codebooks.named().values():
        releases = []
        for metric in versions if ids.intersection(metric.id for metric in versions) else ():
            if ending is not None and ending.is_set():
                return
            label = metric.calendar.period
            own = [
                Released(metric.mechanism, one.period, label(one.period).label, json.loads(one.record))
                for one in records(service.storage, metric.id)
            ]
            if own:
                privacy(own, single_operator=False)
            releases += own
        if releases:
            privacy(releases, single_operator=False)
