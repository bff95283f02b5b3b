"""The whole path in one process: real devices, shuffler and aggregator, under a simulated clock.

Only the network and the waiting are left out. Every report is drawn by the SDK's code, sealed, uploaded to the
shuffler's application, stored, permuted and forwarded to the aggregator's, opened, counted, published and queried.
Since the clock is simulated, a period ends as soon as all devices have reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

import httpx2

from hubbub_aggregator.app import create_app
from hubbub_aggregator.main import build as build_aggregator
from hubbub_aggregator.settings import Settings as AggregatorSettings
from hubbub_cli.compile_codebook import compiled, write_compiled
from hubbub_client.testing import Fleet
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_service_common.process.clock_and_entropy import wall
from hubbub_shuffler.in_process import in_process

if TYPE_CHECKING:
    from types import TracebackType

    from hubbub.codebook import Codebook
    from hubbub.randomness import Randomness
    from hubbub_aggregator.service import Aggregator
    from hubbub_shuffler.main import Shuffler

__all__ = ["Pipeline"]

_AGGREGATOR = "http://aggregator.invalid"
"""Only a name: nothing listens there."""
_NOTHING = "urn:hubbub:problem:nothing-released"
_FORWARDS = 8
_VERDICT = 5.0
"""Seconds of the simulated clock after which the shuffler asks for the verdicts on its batches."""


class Pipeline:
    """Both services on embedded storage under `home`, inside a `with` block. Each `period` call is a new period."""

    def __init__(self, home: Path, codebook: Path) -> None:
        self._now = wall()
        self._runner, self._open = asyncio.Runner(), AsyncExitStack()
        self._home, self._codebook = home, codebook
        self._service: Aggregator
        self._parts: Shuffler
        self._client: httpx2.AsyncClient
        self._uploads: httpx2.AsyncClient

    def __enter__(self) -> Self:
        self._runner.__enter__()
        try:
            self._runner.run(self._start())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def codebook(self) -> Codebook:
        """The codebook in force."""
        return self._service.codebooks.newest

    def period(
        self,
        values: Mapping[str, Sequence[object]],
        rng: Randomness,
        confidence: float,
        progress: Callable[[int], None] = lambda _done: None,
    ) -> dict[str, tuple[Any, list[object]]]:
        """Let every device report every metric in the next period.

        Returns for each metric the aggregator's answer, None if nothing was released, and the values of the devices
        whose reports the shuffler took.
        """
        calendar, grace = self.codebook.collection.calendar, self.codebook.collection.grace
        period = calendar.period(calendar.index_at(self._now) + 1)
        self._set_clock(period.start)
        held: dict[str, list[object]] = {}
        for name, one in values.items():
            fleet = Fleet(self, trust=self._service.anchor, rng=rng, clock=self._clock, remember=True)
            done = 0

            def more(count: int) -> None:
                nonlocal done
                progress(count - done)
                done = count

            fleet.report(name, one, period, progress=more)
            held[name] = [fleet.drawn[nonce] for nonce in fleet.drawn if nonce in fleet.acknowledged]
        self._set_clock(period.closes_at(grace))
        self._runner.run(self._publish())
        asked = {
            "from": period.label,
            "to": calendar.period(period.index + 1).label,
            "confidence": confidence,
            "simultaneous": "false",
        }
        return {name: (self._runner.run(self._ask(name, asked)), held[name]) for name in values}

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any, bytes]:
        """Send a device's request, in place of the SDK's transport."""
        sent = self._uploads.request(method, path, headers=dict(headers), content=body)
        answer: httpx2.Response = self._runner.run(sent)
        return answer.status_code, dict(answer.headers), answer.content

    def _clock(self) -> float:
        return self._now

    def _set_clock(self, now: float) -> None:
        """Set the clock, and do what follows: keys for the new periods, and the bundle that carries them."""
        self._now = now
        self._service.tick()
        self._runner.run(self._refresh())

    async def _refresh(self) -> None:
        await self._parts.bundles.refresh()

    async def _start(self) -> None:
        enter = self._open.enter_async_context
        # constructed, not loaded, so that no environment variable can change a simulation
        served = self._home / "codebook.json"
        write_compiled(compiled(self._codebook), served)
        collecting = AggregatorSettings.model_construct(
            codebook=served, state_dir=self._home / "aggregator", single_operator=True
        )
        self._service = build_aggregator(collecting, TrustedClock.set_by(self._clock))
        self._open.callback(self._service.close)
        collected = create_app(self._service)
        inside = httpx2.ASGITransport(collected)
        self._client = await enter(httpx2.AsyncClient(transport=inside, base_url=_AGGREGATOR))
        shuffling = in_process(
            collected,
            state_dir=self._home / "shuffler",
            trust=self._service.anchor,
            clock=self._clock,
            forwards=_FORWARDS,
        )
        self._parts, self._uploads = await enter(shuffling)

    async def _publish(self) -> None:
        """The shuffler closes, permutes and forwards; the aggregator opens and counts; the shuffler forgets."""
        await self._parts.batcher.tick()
        await self._service.accumulator.drain()
        self._now += _VERDICT
        await self._parts.batcher.tick()

    async def _ask(self, name: str, asked: Mapping[str, object]) -> Any:
        answer = await self._client.get(f"/v1/metrics/{name}/estimate?{urlencode(asked)}")
        found = answer.json()
        if found.get("type") == _NOTHING:
            return None
        answer.raise_for_status()
        segment = found["segments"][-1]
        if any(axis["edges"] for axis in segment["axes"]):
            more = urlencode({**asked, "simultaneous": "false"})
            bins = await self._client.get(f"/v1/metrics/{name}/distribution?{more}")
            bins.raise_for_status()
            segment["bins"] = bins.json()["segments"][-1]
        return segment

    def _stop(self) -> None:
        try:
            self._runner.run(self._open.aclose())
        finally:
            self._runner.close()
