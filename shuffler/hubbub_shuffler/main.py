"""The shuffler as a process: settings in, one server and one batcher, an orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

import httpx
import uvicorn
from pydantic import ValidationError

from hubbub.problems import InvalidParameter
from hubbub_shuffler.app import create_app
from hubbub_shuffler.batcher import Batcher
from hubbub_shuffler.bundles import Bundles
from hubbub_shuffler.forward import Forwarder
from hubbub_shuffler.ingest import Ingest
from hubbub_shuffler.settings import Settings, is_loopback
from hubbub_shuffler.storage.sqlite import SqliteStorage

__all__ = ["load", "run"]

_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_SHORTEST_POLL = 0.2


def load(**given: object) -> Settings:
    """Settings from the environment, with what is given here on top; InvalidParameter names what is wrong."""
    try:
        return Settings(**given)  # type: ignore[arg-type]  # checked by pydantic, which is the point
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc'])) or 'settings'}: {fault['msg']}" for fault in error.errors())
        raise InvalidParameter("the shuffler can't start: " + "; ".join(faults)) from None


def run(settings: Settings, ready: Callable[[str], None] = lambda _address: None) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is told the address once uploads are answered."""
    import uvloop

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, ready))


async def _serve(settings: Settings, ready: Callable[[str], None]) -> None:
    settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings.state_dir.chmod(0o700)  # also if it was there before: nobody else may look inside
    storage = SqliteStorage(
        settings.state_dir / "reports.sqlite",
        clock=time.time,
        entropy=os.urandom,
        forget_after=settings.forget_after,
    )
    token = settings.forward_token.get_secret_value() if settings.forward_token else None
    # Nothing from the environment: a stray proxy variable must not send batches elsewhere.
    async with httpx.AsyncClient(
        timeout=_TIMEOUT, trust_env=False, headers={"User-Agent": "hubbub-shuffler"}
    ) as client:
        bundles = Bundles(
            client,
            address=settings.aggregator,
            trust=settings.trust,
            first_use=is_loopback(settings.aggregator),
            state_dir=settings.state_dir,
            clock=time.time,
            every=settings.bundle_refresh,
        )
        ingest = Ingest(
            storage,
            bundles,
            clock=time.time,
            floor=settings.min_batch_floor,
            skew=settings.skew,
            max_body=settings.max_body,
            max_pending=settings.max_pending,
            body_timeout=settings.body_timeout,
        )
        batcher = Batcher(
            storage,
            bundles,
            Forwarder(client, address=settings.aggregator, token=token),
            entropy=os.urandom,
            floor=settings.min_batch_floor,
            max_batch=settings.max_batch,
            lease=settings.lease,
            longest_backoff=settings.longest_backoff,
            poll=max(_SHORTEST_POLL, settings.tick / 2),
        )
        server = _Server(_server_config(settings, create_app(ingest=ingest, bundles=bundles, storage=storage)), ready)
        try:
            await _together(server, bundles.run(), batcher.run(settings.tick))
        finally:
            await storage.aclose()


async def _together(server: _Server, *jobs: Coroutine[None, None, None]) -> None:
    """Serve, with the jobs beside it. A job that fails takes the process down, so that a supervisor sees it."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    for task in tasks:
        task.add_done_callback(lambda _task: setattr(server, "should_exit", True))
    try:
        await server.serve()
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ended:
        if isinstance(end, Exception):
            raise end


def _server_config(settings: Settings, app: Callable[..., object]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="none",
        http="httptools",
        ws="none",
        lifespan="off",
        # Who asked for what is exactly what must not be written down.
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_timeout,
    )


class _Server(uvicorn.Server):
    """uvicorn, told to stop by us: its own handlers end the process before the storage is closed."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        self.force_exit = self.should_exit  # the second signal does not wait for uploads in work
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")


if __name__ == "__main__":
    run(load())
