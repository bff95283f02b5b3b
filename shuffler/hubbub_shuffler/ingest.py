"""POST /v1/reports: read, checked, durable, and only then acknowledged.

A plain ASGI callable in front of the framework, since this is the one route that every device uses. What arrives
while a commit is under way shares the next one, so that many devices pay for one write to disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hubbub.problems import MalformedUpload
from hubbub.refusals import PROBLEM_TYPE, Refused
from hubbub.wire import REPORT_HEADER_BYTES, REPORTS_TYPE, decode_upload, sealed_bytes
from hubbub_shuffler.admission import Admission, Admitted
from hubbub_shuffler.storage import Arrivals, Bucket, Reason, Storage, StorageError, Terms

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from hubbub_shuffler.bundles import Bundles

__all__ = ["PATH", "Commits", "Ingest", "send_problem"]

PATH = "/v1/reports"
_LOG = logging.getLogger("hubbub_shuffler")
_BUSY_SECONDS = 2
_SMALLEST_REPORT = REPORT_HEADER_BYTES + sealed_bytes(1)
_FRAGMENTS = 1_000
"""Pieces too short to be reports that are looked at one by one; a body of nothing else would keep everyone waiting."""


class Ingest:
    """The route, as an ASGI application of its own."""

    def __init__(
        self,
        storage: Storage,
        bundles: Bundles,
        *,
        clock: Callable[[], float],
        floor: int,
        skew: float,
        max_body: int,
        max_pending: int,
        body_timeout: float,
    ) -> None:
        self.refused: Counter[str] = Counter()
        """Uploads and reports refused since the start, by reason."""
        self._commits, self._bundles, self._clock = Commits(storage), bundles, clock
        self._floor, self._skew = floor, skew
        self._max_body, self._max_pending, self._body_timeout = max_body, max_pending, body_timeout
        self._pending = 0
        self._admission: Admission | None = None

    @property
    def admission(self) -> Admission | None:
        """Who decides by the bundle of the moment; None while there is none."""
        relayed = self._bundles.current
        if relayed is None:
            return None
        if self._admission is None or self._admission.bundle is not relayed.bundle:
            self._admission = Admission(relayed.bundle, floor=self._floor, skew=self._skew, clock=self._clock)
        return self._admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one upload. A body that is cut off commits nothing and is answered by nothing."""
        held = _Held(self)
        try:
            _check_request(scope, self._max_body)
            admission = self.admission
            if admission is None:
                raise Refused("no-bundle", "the shuffler has no valid bundle yet", retry_after=_BUSY_SECONDS)
            body = await self._read(receive, held)
            if body is None:
                return
            failures = await self._take(admission, body)
        except Refused as refused:
            self.refused[refused.refusal.name] += 1
            await send_problem(send, refused)
            return
        finally:
            held.release()
        if not failures:
            await _send(send, 202, b"")
            return
        self.refused.update(failures.values())
        listed = [{"index": index, "reason": failures[index]} for index in sorted(failures)]
        await _send(send, 200, json.dumps({"failures": listed}).encode(), (b"content-type", b"application/json"))

    async def _read(self, receive: Receive, held: _Held) -> bytes | None:
        """The whole body; None when the sender went away first."""
        chunks: list[bytes] = []
        more = True
        try:
            async with asyncio.timeout(self._body_timeout):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    chunks.append(message.get("body", b""))
                    held.take(len(chunks[-1]))
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refused("overloaded", "the body took too long to arrive", retry_after=_BUSY_SECONDS) from None
        return b"".join(chunks)

    async def _take(self, admission: Admission, body: bytes) -> dict[int, str]:
        """Make durable what can be; why the others were refused, by their index in the upload."""
        try:
            reports = decode_upload(body)
        except MalformedUpload as error:
            raise Refused("malformed-upload", str(error)) from error
        if len(reports) > _FRAGMENTS + len(body) // _SMALLEST_REPORT:
            raise Refused("malformed-upload", "the upload holds more fragments than there is room for reports")
        failures: dict[int, str] = {}
        admitted: dict[Admitted, list[int]] = {}
        for index, report in enumerate(reports):
            judged = admission.judge(report)
            if isinstance(judged, str):
                failures[index] = judged
            else:
                admitted.setdefault(judged, []).append(index)
        if admitted:
            closed = await self._commits.add(
                [
                    Arrivals(place.bucket, place.terms, [reports[i][REPORT_HEADER_BYTES:] for i in indexes])
                    for place, indexes in admitted.items()
                ]
            )
            for place, indexes in admitted.items():
                if place.bucket in closed:
                    failures.update(dict.fromkeys(indexes, closed[place.bucket]))
        return failures


class _Held:
    """What one upload takes of the memory that all uploads share."""

    __slots__ = ("_ingest", "_size")

    def __init__(self, ingest: Ingest) -> None:
        self._ingest, self._size = ingest, 0

    def take(self, size: int) -> None:
        """Count it, or refuse: the one body is too large, or all together are."""
        ingest = self._ingest
        self._size += size
        ingest._pending += size
        if self._size > ingest._max_body:
            raise Refused("too-large", f"an upload has at most {ingest._max_body} bytes; send it in parts")
        if ingest._pending > ingest._max_pending:
            raise Refused("overloaded", "too many uploads are in work", retry_after=_BUSY_SECONDS)

    def release(self) -> None:
        self._ingest._pending -= self._size


class Commits:
    """Group commit: all that came while one commit was under way goes into the next, as one."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._next: list[tuple[Sequence[Arrivals], asyncio.Future[dict[Bucket, Reason]]]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, arrivals: Sequence[Arrivals]) -> dict[Bucket, Reason]:
        """Durable when this returns, except for the buckets that it returns: those were closed."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[dict[Bucket, Reason]] = loop.create_future()
        self._next.append((arrivals, done))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await done

    async def _work(self) -> None:
        while self._next:
            await asyncio.sleep(0)  # let in what the event loop has at hand already
            group, self._next = self._next, []
            try:
                closed = await self._storage.add(_merged(arrivals for each, _ in group for arrivals in each))
            except Exception as error:  # noqa: BLE001  whatever it was, each waiting upload must be told to try again
                _LOG.error("reports could not be stored: %s", error if isinstance(error, StorageError) else type(error))
                for _, done in group:
                    _fail(done)
                continue
            for _, done in group:
                if not done.done():
                    done.set_result(closed)


def _fail(done: asyncio.Future[dict[Bucket, Reason]]) -> None:
    if not done.done():
        done.set_exception(Refused("overloaded", "reports can't be stored now", retry_after=_BUSY_SECONDS))


def _merged(group: Iterable[Arrivals]) -> list[Arrivals]:
    """One entry per bucket, so that a group commit leaves one blob in each."""
    terms: dict[Bucket, Terms] = {}
    sealed: dict[Bucket, list[bytes]] = {}
    for arrivals in group:
        terms.setdefault(arrivals.bucket, arrivals.terms)
        sealed.setdefault(arrivals.bucket, []).extend(arrivals.sealed)
    return [Arrivals(bucket, terms[bucket], reports) for bucket, reports in sealed.items()]


def _check_request(scope: Scope, max_body: int) -> None:
    """Refuse by the head alone what needs no body to be refused."""
    if scope["method"] != "POST":
        raise Refused("method-not-allowed", f"{PATH} takes POST")
    headers: Mapping[bytes, bytes] = dict(scope["headers"])
    content_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if content_type != REPORTS_TYPE.encode():
        raise Refused("unsupported-media-type", f"send reports as {REPORTS_TYPE}")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length[:20]) > max_body:
        raise Refused("too-large", f"an upload has at most {max_body} bytes; send it in parts")


async def send_problem(send: Send, refused: Refused) -> None:
    """A refusal as a problem document. The connection closes after one whose body may not have been read."""
    headers = [(b"content-type", PROBLEM_TYPE.encode())]
    if refused.retry_after is not None:
        headers.append((b"retry-after", str(refused.retry_after).encode()))
    if refused.refusal.name == "method-not-allowed":
        headers.append((b"allow", b"POST"))
    if refused.refusal.status != 400:
        headers.append((b"connection", b"close"))
    await _send(send, refused.refusal.status, json.dumps(refused.document()).encode(), *headers)


async def _send(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})
