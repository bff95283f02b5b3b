"""POST /v1/reports: an upload is read, checked, made durable, and only then acknowledged.

A plain ASGI callable in front of the framework, because every device uses this route. All work here is done for each
report, so nothing is done twice and no object is made that is not needed.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from hubbub.errors import MalformedUpload
from hubbub.refusals import REFUSALS, Refused
from hubbub.wire import REPORT_HEADER_BYTES, REPORTS_TYPE, decode_upload, sealed_bytes
from hubbub_service_common.clock.trusted_clock import TOLERANCE
from hubbub_service_common.http.problem_documents import send_problem
from hubbub_service_common.process.logs import where
from hubbub_shuffler.ingest.admission import IN_DOUBT, Admission, Admitted
from hubbub_shuffler.ingest.group_commit import Commits
from hubbub_shuffler.storage import AsyncStorage, Bucket, Reason, StorageError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from hubbub_service_common.clock.trusted_clock import TrustedClock
    from hubbub_shuffler.bundle.relay import Bundles
    from hubbub_shuffler.ingest.rate_limit import Limits, Source

__all__ = ["PASSED_OVER", "PATH", "Ingest"]

PATH = "/v1/reports"
_LOG = logging.getLogger("hubbub_shuffler")
_BUSY_SECONDS = 2
_FULL_SECONDS = 30
_SMALLEST_REPORT = REPORT_HEADER_BYTES + sealed_bytes(1)
_FRAGMENTS = 1_000
"""Most fragments too short to be reports that are judged one by one. A body full of them would hold up all others."""
PASSED_OVER = 4 * 2**20
"""Largest refused body, in bytes, that is read and dropped so that the connection can stay open."""
_TYPE = REPORTS_TYPE.encode()
_TAKEN: dict[str, Any] = {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]}
_NOTHING: dict[str, Any] = {"type": "http.response.body", "body": b""}


class Ingest:
    """The route, as a separate ASGI application."""

    def __init__(
        self,
        storage: AsyncStorage,
        bundles: Bundles,
        *,
        clock: TrustedClock,
        floor: int,
        skew: float,
        max_body: int,
        max_reports: int,
        max_pending: int,
        max_uploads: int,
        limits: Limits | None = None,
    ) -> None:
        self.accepted = 0
        """Reports made durable since the start."""
        self.refused: Counter[str] = Counter(dict.fromkeys(REFUSALS, 0))
        """Uploads and reports refused since the start, by reason. All start at zero, so that the first one shows as a
        rise."""
        self._commits, self._bundles = Commits(storage), bundles
        self._trusted, self._clock = clock, clock.now
        self.high_water = self._commits.high_water
        self.floor, self._skew = floor, skew
        self._max_body, self._max_reports = max_body, max_reports
        self._max_pending, self._max_uploads = max_pending, max_uploads
        self._limits = limits
        self._pending = self._uploads = 0
        """Bytes of bodies in memory, and uploads that wait for the storage."""
        self._admission: Admission | None = None

    @property
    def admission(self) -> Admission | None:
        """Admission under the current bundle; None while there is none."""
        relayed = self._bundles.current
        if relayed is None:
            return None
        if self._admission is None or self._admission.bundle is not relayed.bundle:
            self._admission = Admission(relayed.bundle, floor=self.floor, skew=self._skew)
        self._admission.held_through = self._bundles.held.through
        return self._admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one upload. A body that is cut off commits nothing and gets no answer."""
        try:
            source = self._admit(scope) if self._limits is not None else None
            _check_request(scope, self._max_body)
            if self.high_water.is_full:
                raise _full()
            if self._clock() >= self._bundles.held.until:
                await self._hold_periods()
            admission = self.admission
            if admission is None:
                raise Refused("no-bundle", "the shuffler has no valid bundle yet", retry_after=_BUSY_SECONDS)
            body = await self._read(receive)
            if body is None:
                return
            try:
                failures = await self._take(admission, body, source)
            finally:
                self._pending -= len(body)
        except Refused as refused:
            self.refused[refused.refusal.name] += 1
            await send_problem(send, refused, close=not _goes_on(scope), allow="POST")
            return
        except Exception as error:  # noqa: BLE001  uvicorn would log its text, which may reveal what was sent
            _LOG.error("internal error: %s", where(error))
            self.refused["internal-error"] += 1
            await send_problem(send, Refused("internal-error", "the shuffler failed here; try again later"))
            return
        if not failures:
            await send(_TAKEN)
            await send(_NOTHING)
            return
        self.refused.update(failures.values())
        listed = [{"index": index, "reason": failures[index]} for index in sorted(failures)]
        await _send(send, 200, json.dumps({"failures": listed}).encode(), (b"content-type", b"application/json"))

    async def _hold_periods(self) -> None:
        """Done once for each period that begins: from here on no bundle can change the period."""
        try:
            await self._bundles.hold()
        except StorageError as error:
            raise Refused("overloaded", "reports can't be stored now", retry_after=_BUSY_SECONDS) from error

    def _admit(self, scope: Scope) -> Source | None:
        assert self._limits is not None  # noqa: S101  called only if there are limits
        source = self._limits.source(scope)
        if source is not None and (wait := self._limits.take(source)):
            raise _rate_limited(wait)
        return source

    async def _read(self, receive: Receive) -> bytes | None:
        """The whole body, counted as pending; None when the sender went away first."""
        message = await receive()
        if message["type"] != "http.request":
            return None
        body: bytes = message.get("body", b"")
        if message.get("more_body", False):
            return await self._read_on(body, receive)
        self._hold(len(body), len(body), self._max_pending)
        return body

    async def _read_on(self, first: bytes, receive: Receive) -> bytes | None:
        """The rest of a body that comes in pieces. The limits on connections decide how long that may take."""
        chunks: list[bytes] = []
        chunk, more, held = first, True, 0
        try:
            while True:
                chunks.append(chunk)
                # Only half of the room: bodies that never end must not keep out those that come whole.
                self._hold(len(chunk), held + len(chunk), self._max_pending // 2)
                held += len(chunk)
                if not more:
                    held = 0  # the caller counts it from here on
                    return b"".join(chunks)
                message = await receive()
                if message["type"] != "http.request":
                    return None
                chunk, more = message.get("body", b""), message.get("more_body", False)
        finally:
            self._pending -= held

    def _hold(self, size: int, whole: int, room: int) -> None:
        """Count these bytes, or refuse: this body is too large, or all bodies together are."""
        if whole > self._max_body:
            raise self._too_large()
        if self._pending + size > room:
            raise Refused("overloaded", "too many uploads are in progress", retry_after=_BUSY_SECONDS)
        self._pending += size

    async def _take(self, admission: Admission, body: bytes, source: Source | None) -> dict[int, str]:
        """Make durable what may be. Returns why the others were refused, by their index in the upload."""
        reports = _reports(body)
        count = len(reports)
        if count > 1:
            self._check_count(count, len(body))
            if source is not None and self._limits is not None and (wait := self._limits.charge(source, count - 1)):
                raise _rate_limited(wait)
        now = self._clock()
        judged = [admission.judge(report, now) for report in reports]
        failures: dict[int, str] = {}
        admitted: dict[Admitted, list[bytes]] = {}
        for index, place in enumerate(judged):
            if isinstance(place, str):
                failures[index] = place
            elif place in admitted:
                admitted[place].append(reports[index][REPORT_HEADER_BYTES:])
            else:
                admitted[place] = [reports[index][REPORT_HEADER_BYTES:]]
        if admitted:
            closed = await self._keep(admitted)
            if closed:
                late = {i: closed[place.bucket] for i, place in _places(judged) if place.bucket in closed}
                failures.update(late)
        self.accepted += count - len(failures)
        return self._in_doubt(failures, now) if failures else failures

    def _in_doubt(self, failures: dict[int, str], judged_at: float) -> dict[int, str]:
        """Keep devices from dropping reports as too late while our clock is in doubt, or was when the reports were
        judged: it may have been corrected since.
        """
        late = {index: IN_DOUBT[reason] for index, reason in failures.items() if reason in IN_DOUBT}
        if not late or abs(self._trusted.believed(self._bundles.wait) - judged_at) <= TOLERANCE:
            return failures
        return failures | late

    async def _keep(self, admitted: dict[Admitted, list[bytes]]) -> dict[Bucket, Reason]:
        """Store reports. They are durable when this returns, except in the buckets that it returns as closed."""
        if self._uploads >= self._max_uploads:
            raise Refused("overloaded", "too many uploads wait for the storage", retry_after=_BUSY_SECONDS)
        self._uploads += 1
        try:
            closed = await self._commits.add(admitted)
        finally:
            self._uploads -= 1
        if closed == "storage-full":
            raise _full()
        if closed == "too-large":
            raise Refused("too-large", "the storage never has room for so much at once; send it in parts")
        if closed == "overloaded":
            raise Refused("overloaded", "reports can't be stored now", retry_after=_BUSY_SECONDS)
        return closed

    def _check_count(self, count: int, size: int) -> None:
        if count > self._max_reports:
            raise Refused("too-large", f"an upload has at most {self._max_reports} reports; send it in parts")
        if count > _FRAGMENTS + size // _SMALLEST_REPORT:
            raise Refused("malformed-upload", "the upload holds more fragments than there is room for reports")

    def _too_large(self) -> Refused:
        return Refused("too-large", f"an upload has at most {self._max_body} bytes; send it in parts")


def _reports(body: bytes) -> list[bytes]:
    if len(body) > 2 and int.from_bytes(body[:2]) == len(body) - 2:
        return [body[2:]]  # as most uploads are
    try:
        return decode_upload(body)
    except MalformedUpload as error:
        raise Refused("malformed-upload", str(error)) from error


def _rate_limited(wait: int) -> Refused:
    return Refused("rate-limited", "too much came from this address", retry_after=wait)


def _places(judged: list[Admitted | str]) -> list[tuple[int, Admitted]]:
    return [(index, place) for index, place in enumerate(judged) if not isinstance(place, str)]


def _full() -> Refused:
    return Refused("storage-full", "the shuffler has no room until reports have left", retry_after=_FULL_SECONDS)


def _check_request(scope: Scope, max_body: int) -> None:
    """Refuse what the head of a request alone rules out."""
    if scope["method"] != "POST":
        raise Refused("method-not-allowed", f"{PATH} takes POST")
    content_type, length = b"", b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            length = value
    if content_type != _TYPE and content_type.split(b";")[0].strip().lower() != _TYPE:
        raise Refused("unsupported-media-type", f"send reports as {REPORTS_TYPE}")
    if length.isdigit() and int(length[:20]) > max_body:
        raise Refused("too-large", f"an upload has at most {max_body} bytes; send it in parts")


def _goes_on(scope: Scope) -> bool:
    """Whether the rest of a refused body is read and dropped, so that the connection can stay open.

    If not, the connection ends, and a client that is still sending sees it break instead of our answer.
    """
    for name, value in scope["headers"]:
        if name == b"expect" or (name == b"content-length" and (len(value) > 9 or int(value) > PASSED_OVER)):
            return False
    return True


async def _send(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})
