"""Waiting for the storage at the start: for a Redis that is down or still loading, or a cluster that is not formed yet.

The process stays and tries again. Meanwhile it answers on its listeners: /healthz is 200, /readyz is 503 with the
reason, everything else is `overloaded`, so that senders come back. A signal ends it at once. Errors that waiting does
not mend, such as a wrong password or a malformed address, still end the start.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fastapi import FastAPI

from hubbub.errors import InvalidParameter
from hubbub.refusals import Refused
from hubbub_service_common.http import server
from hubbub_service_common.http.admin_listener import for_operators
from hubbub_service_common.http.fastapi_app import create_api
from hubbub_service_common.http.health import Health, add_health
from hubbub_service_common.http.problem_documents import ProblemHandlers, send_problem
from hubbub_service_common.process.backoff import backoff
from hubbub_service_common.process.clock_and_entropy import entropy
from hubbub_service_common.storage.kinds_and_errors import StorageAway, StorageError, StorageStuck

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from hubbub_service_common.http.listeners import Listener

__all__ = ["open_when_reachable"]

T = TypeVar("T")
_LONGEST = 10.0
"""Most seconds between two attempts."""
_RETRY_SECONDS = 5


def open_when_reachable(
    open_: Callable[[], T], close: Callable[[T], None], listeners: Sequence[Listener], log: logging.Logger
) -> T | None:
    """What `open_` returns, as soon as its storage can be reached; None if a signal came first.

    During the wait, `open_` is tried on another thread and its result closed again: a service's storage must be opened
    on the thread that called this.
    """
    waited = False
    while True:
        try:
            opened = open_()
        except (InvalidParameter, StorageError) as error:
            away = _away(error)
            if away is None:
                raise
            if not waited:
                stuck = isinstance(away, StorageStuck)
                advice = "" if stuck else ". Start it, or correct its address in the setting storage"
                until = "it takes writes" if stuck else "it can be reached"
                log.warning("the service waits for its storage, and tries again until %s: %s%s", until, away, advice)
            waited = True
            attempt = _Attempts(lambda: close(open_()))
            server.run(_wait(attempt, listeners, log))
            if not attempt.over:
                return None
        else:
            if waited:
                log.info("the storage can be reached: the service continues its start")
            return opened


def _away(error: BaseException) -> StorageAway | None:
    """The StorageAway behind an error; None if the error is another one."""
    found = error if isinstance(error, StorageAway) else error.__cause__
    return found if isinstance(found, StorageAway) else None


class _Attempts:
    """Tries until it works, or until it fails for another reason, which the caller's next attempt then meets too."""

    def __init__(self, attempt: Callable[[], None]) -> None:
        self._attempt, self.over = attempt, False

    async def run(self) -> None:
        number = 0
        while not self.over:
            await asyncio.sleep(backoff(number, first=0.2, longest=_LONGEST, entropy=entropy))
            number += 1
            self.over = await self._once()

    async def _once(self) -> bool:
        """Try once, on a thread that is not waited for, since a signal must end the process at once."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        failed: list[BaseException] = []

        def go() -> None:
            try:
                self._attempt()
            except Exception as error:  # noqa: BLE001  examined below
                failed.append(error)
            with suppress(RuntimeError):  # a signal came first: the loop is gone
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=go, name="hubbub-storage-attempt", daemon=True).start()
        await done.wait()
        return not failed or _away(failed[0]) is None


async def _wait(attempts: _Attempts, listeners: Sequence[Listener], log: logging.Logger) -> None:
    """Answer until the attempts are over or a signal comes. Copies of the sockets are served, so they stay open."""
    servers = [server.Server(each.config(_app(each, log), shutdown_timeout=1), each.socket.dup()) for each in listeners]
    await server.serve_together(servers, attempts.run(), *(each.limits.run() for each in listeners))


def _app(listener: Listener, log: logging.Logger) -> ASGIApp:
    async def storage() -> str | None:
        return "the service waits for its storage; the log says why"

    api = create_api("hubbub, starting", ProblemHandlers(log), FastAPI)
    add_health(api, Health("The service is never ready before its storage can be reached.", {"storage": storage}))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in ("/healthz", "/readyz"):
            await api(scope, receive, send)
        else:
            waits = Refused("overloaded", "the service waits for its storage", retry_after=_RETRY_SECONDS)
            await send_problem(send, waits)

    return app if listener.tokens is None else for_operators(app, listener.tokens)
