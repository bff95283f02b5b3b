"""A whole shuffler inside another process, for the simulator and the audit, which set its clock.

It is built like the service. Only listeners and the network are left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2

from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_shuffler.main import Shuffler, build, open_reports
from hubbub_shuffler.settings import Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["InProcess", "in_process"]

AGGREGATOR, SHUFFLER = "http://aggregator.invalid", "http://shuffler.invalid"
"""Placeholder names: nothing listens there."""


class InProcess(NamedTuple):
    """A shuffler, and a client that sends what devices send."""

    shuffler: Shuffler
    devices: httpx2.AsyncClient


@asynccontextmanager
async def in_process(
    aggregator: ASGIApp, *, state_dir: Path, trust: str, clock: Callable[[], float], **settings: Any
) -> AsyncIterator[InProcess]:
    """A shuffler in front of this aggregator, whose trust anchor is `trust`, for the length of the `async with`.

    `settings`: the service's settings, already of the right types. Environment variables do not change them.
    """
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    given = Settings.model_construct(state_dir=state_dir, aggregator=AGGREGATOR, trust=(trust,), **settings)
    storage = open_reports(given, clock)
    try:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(aggregator), trust_env=False) as upstream:
            shuffler = build(given, storage, upstream, clock=TrustedClock.set_by(clock))
            inside = httpx2.ASGITransport(shuffler.app)
            async with httpx2.AsyncClient(transport=inside, base_url=SHUFFLER, trust_env=False) as devices:
                yield InProcess(shuffler, devices)
    finally:
        await storage.aclose()
