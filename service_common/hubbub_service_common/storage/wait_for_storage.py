"""A start that waits for its storage: a Redis that is down, still loading, or a cluster that is not formed yet.

The process stays and tries again. Meanwhile it answers on its listeners: /healthz is 200, /readyz is 503 with the
reason, everything else is `overloaded`, so that senders come back. A signal ends it at once. What no waiting mends,
such as a wrong password or an address that is none, still ends the start.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from fastapi import FastAPI

from hubbub.problems import InvalidParameter
from hubbub.refusals import Refused
from hubbub_service_common.http import server
from hubbub_service_common.http.admin_listener import for_operators
from hubbub_service_common.http.fastapi_app import create_api
from hubbub_service_common.http.health import Health, add_health
from hubbub_service_common.http.problem_documents import ProblemHandlers, send_problem
from hubbub_service_common.process.backoff import backoff
from hubbub_service_common.storage.kinds import StorageAway, StorageError, StorageStuck

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
    """What `open_` makes, as soon as its storage can be reached; None if a signal came first.

    While it waits, `open_` is tried on a thread, and what comes of that is closed again: what a service opens belongs
    to the thread that called us.
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
                until = "it takes writes" if stuck else "it is there"
                log.warning("the service waits for its storage, and tries again until %s: %s%s", until, away, advice)
            waited = True
            attempt = _Attempts(lambda: close(open_()))
            server.run(_wait(attempt, listeners, log))
            if not attempt.over:
                return None
        else:
            if waited:
                log.info("the storage is there: the service goes on with its start")
            return opened


def _away(error: BaseException) -> StorageAway | None:
    """The storage that is not there, if that is what is wrong."""
    found = error if isinstance(error, StorageAway) else error.__cause__
    return found if isinstance(found, StorageAway) else None


class _Attempts:
    """Tries until it works, or fails for another reason, which the next attempt of the caller then meets too."""

    def __init__(self, attempt: Callable[[], None]) -> None:
        self._attempt, self.over = attempt, False

    async def run(self) -> None:
        number = 0
        while not self.over:
            await asyncio.sleep(backoff(number, first=0.2, longest=_LONGEST, entropy=os.urandom))
            number += 1
            self.over = await self._once()

    async def _once(self) -> bool:
        """On a thread that nobody waits for, since a signal ends the process at once."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        failed: list[BaseException] = []

        def go() -> None:
            try:
                self._attempt()
            except Exception as error:  # noqa: BLE001  it is looked at below
                failed.append(error)
            with suppress(RuntimeError):  # a signal came first: there is no loop any more
                loop.call_soon_threadsafe(done.set)

        threading.Thread(target=go, name="hubbub-storage-attempt", daemon=True).start()
        await done.wait()
        return not failed or _away(failed[0]) is None


async def _wait(attempts: _Attempts, listeners: Sequence[Listener], log: logging.Logger) -> None:
    """Answer until the attempts are over or a signal comes. The sockets stay open: what is served are copies."""
    servers = [server.Server(each.config(_app(each, log), shutdown_timeout=1), each.socket.dup()) for each in listeners]
    await server.serve_together(servers, attempts.run(), *(each.limits.run() for each in listeners))


def _app(listener: Listener, log: logging.Logger) -> ASGIApp:
    async def storage() -> str | None:
        return "the service waits for its storage; the log says why"

    api = create_api("hubbub, starting", ProblemHandlers(log), FastAPI)
    add_health(api, Health("It never is, before its storage is there.", {"storage": storage}))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in ("/healthz", "/readyz"):
            await api(scope, receive, send)
        else:
            waits = Refused("overloaded", "the service waits for its storage", retry_after=_RETRY_SECONDS)
            await send_problem(send, waits)

    return app if listener.tokens is None else for_operators(app, listener.tokens)
