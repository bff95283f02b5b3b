"""Connection limits: connections that take room and make no progress are cut.

uvicorn waits without limit for the head of a request, and takes a head of any length. Here a head has a limit on time
and size, a body on time and rate, and an address on its number of connections. When all connections are taken, those
that have kept us waiting longest make room for a new one: a sender that makes progress is never turned away for
senders that do not. The log says when that begins and when it is over. Connections are checked now and then, so that
this costs a request next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

from hubbub.refusals import Refused
from hubbub_service_common.http.client_network import network_of
from hubbub_service_common.http.cross_origin import CrossOrigin, Headers
from hubbub_service_common.http.problem_documents import ProblemDocument
from hubbub_service_common.http.server import HttpProtocol

__all__ = ["LARGEST_HEAD", "ConnectionLimits", "Cut", "Watched"]

Cut: TypeAlias = Literal[
    "answer-timeout",
    "body-timeout",
    "head-timeout",
    "head-too-large",
    "made-room",
    "no-room",
    "not-http",
    "too-many-ahead",
    "too-many-from-one-address",
]
"""Why a connection was cut."""
_OVERDUE: dict[str, Cut] = {"head": "head-timeout", "body": "body-timeout", "answer": "answer-timeout"}
"""By what the connection kept us waiting for."""

LARGEST_HEAD = 2**16
"""Most bytes of a request's head, including trailers and chunk lengths. Beyond it the connection is cut."""
_LONGEST_QUEUE = 100
"""Most requests sent ahead on one connection, before the first of them is answered."""
_TOO_SLOW = ProblemDocument.of(Refused("overloaded", "the body took too long to arrive", retry_after=2))
_CALM = 0.8
"""Share of all connections below which they count as free again."""
_FIRST_BYTES = 5.0
"""Seconds before the rate of a body is checked."""


class ConnectionLimits:
    """The limits of one server, and its connections. `max_body`: bytes of the largest body that is read to the end."""

    def __init__(
        self,
        *,
        head_timeout: float,
        body_timeout: float,
        body_rate: float,
        max_body: int,
        max_connections: int,
        max_per_address: int | None,
        clock: Callable[[], float],
        log: logging.Logger,
        cross_origin: CrossOrigin | None = None,
    ) -> None:
        self.cut: Counter[str] = Counter(dict.fromkeys(get_args(Cut), 0))
        """Connections cut since the start, by reason. All start at zero, so that the first one shows as a rise."""
        self.head_timeout, self.body_timeout, self.body_rate = head_timeout, body_timeout, body_rate
        self.clock, self._log = clock, log
        self.cross_origin = cross_origin
        self.max_bytes = 2 * max_body + LARGEST_HEAD
        self._max, self._max_per_address = max_connections, max_per_address
        self._open: set[Watched] = set()
        self._per_address: Counter[bytes] = Counter()
        self._full = False
        """Whether all connections were taken, and few have become free since."""

    def protocol(self) -> type[HttpProtocol]:
        """The class of which uvicorn makes one object per connection."""
        limits = self

        class Limited(Watched):
            def __init__(self, *arguments: Any, **named: Any) -> None:
                super().__init__(limits, *arguments, **named)

        return Limited

    @property
    def open(self) -> int:
        """Number of open connections."""
        return len(self._open)

    async def run(self) -> None:
        """Check all connections repeatedly, until cancelled."""
        while True:
            await asyncio.sleep(min(self.head_timeout, self.body_timeout) / 8)
            self.look()

    def look(self) -> None:
        """Cut connections that have kept us waiting for too long."""
        now = self.clock()
        for connection in list(self._open):
            reason = connection.overdue(now)
            if reason:
                self.cut_off(connection, reason)
        if self._full and len(self._open) < self._max * _CALM:
            self._full = False
            self._log.info("connections are well below their limit again: %d of %d", len(self._open), self._max)

    def opened(self, connection: Watched) -> None:
        """Take a new connection: it stays, or is cut at once, or others make room for it."""
        self._open.add(connection)
        network = connection.network
        if network is not None and self._max_per_address is not None:
            self._per_address[network] += 1
            if self._per_address[network] > self._max_per_address:
                self.cut_off(connection, "too-many-from-one-address")
                return
        if len(self._open) > self._max:
            self._make_room(connection)

    def closed(self, connection: Watched) -> None:
        if connection not in self._open:
            return
        self._open.remove(connection)
        network = connection.network
        if network is not None and self._max_per_address is not None:
            self._per_address[network] -= 1
            if not self._per_address[network]:
                del self._per_address[network]

    def _make_room(self, newest: Watched) -> None:
        """Cut the twentieth of all connections that has kept us waiting longest. Sorting all of them for each new one
        would be expensive."""
        if not self._full:
            self._full = True
            self._log.warning(
                "all %d connections are taken: those that have kept the service waiting longest are cut. "
                "If they are honest, raise max_connections, and the limit of open files with it",
                self._max,
            )
        now = self.clock()
        idle = sorted((c for c in self._open if c is not newest and c.waits(now)), key=lambda c: c.since)
        for connection in idle[: self._max // 20 + 1]:
            self.cut_off(connection, "made-room")
        if not idle:
            self.cut_off(newest, "no-room")

    def cut_off(self, connection: Watched, reason: Cut) -> None:
        """Close a connection at once, and drop what was still to be sent to it."""
        self.cut[reason] += 1
        connection.let_go(answer=reason == "body-timeout")
        self.closed(connection)


class Watched(HttpProtocol):
    """uvicorn's connection, with what is needed to see that it keeps us waiting."""

    def __init__(self, limits: ConnectionLimits, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limits = limits
        self.network: bytes | None = None
        self.since = 0.0
        self._seen: tuple[object, str] = (None, "head")
        self._taken, self._between = 0, True
        """Bytes received of the head or of the rest of a request, and whether the connection is between two requests.
        """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client else None
        self.since = self._limits.clock()
        self._limits.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        between = _is_over(before)
        super().data_received(data)
        if self.cycle is not before:
            self._taken, self._between = 0, False
            if len(self.pipeline) > _LONGEST_QUEUE:
                self._limits.cut_off(self, "too-many-ahead")
            return
        if between is not self._between:
            self._taken, self._between = 0, between
        self._taken += len(data)
        if self._taken > (LARGEST_HEAD if between else self._limits.max_bytes):
            self._limits.cut_off(self, "head-too-large")

    def send_400_response(self, msg: str) -> None:
        reason: Cut = "not-http"
        self._limits.cut[reason] += 1
        super().send_400_response(msg)

    def let_go(self, *, answer: bool) -> None:
        """End the connection, with an answer if the sender waits for one."""
        if answer and not self.cycle.response_started:
            self.transport.write(_TOO_SLOW.raw(self.answer_headers()))
            self.transport.close()
        else:
            self.transport.abort()

    def answer_headers(self) -> Headers:
        """For pages of other origins: a body that came too slowly is a refusal that a page should be able to read."""
        cross_origin = self._limits.cross_origin
        return () if cross_origin is None else cross_origin.headers(self.headers or ())

    @property
    def _phase(self) -> str:
        """What the connection keeps us waiting for: the head of the next request, the rest of a body, or that an answer
        is read. "work" if it does not keep us waiting."""
        cycle = self.cycle
        if _is_over(cycle):
            return "head"
        return "body" if cycle.more_body else "answer" if self.flow.write_paused else "work"

    def waits(self, now: float) -> bool:
        """Whether the connection keeps us waiting. `since` is when that was first seen."""
        seen = (self.cycle, self._phase)
        if seen != self._seen:
            self._seen, self.since = seen, now
        return seen[1] != "work"

    def overdue(self, now: float) -> Cut | None:
        """The reason to cut the connection, if there is one."""
        if not self.waits(now):
            return None
        limits, phase = self._limits, self._phase
        limit = limits.head_timeout if phase == "head" else limits.body_timeout
        if phase == "body":
            limit = min(limit, _FIRST_BYTES + self._taken / limits.body_rate)
        return _OVERDUE[phase] if now - self.since > limit else None


def _is_over(cycle: Any) -> bool:
    """Whether a request is answered and has arrived completely: a refused one may still be arriving."""
    return cycle is None or (cycle.response_complete and not cycle.more_body)
