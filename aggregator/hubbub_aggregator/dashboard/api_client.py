"""Client of the public API, in this process or over the network. The dashboard knows nothing from anywhere else.

Answers are read back through the API's own models and kept under their ETag: while nothing is released, asking again
costs a 304. Every question carries the caller's credentials, so that only the API decides who may ask.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from hubbub.bundle import Bundle, verify
from hubbub.codebook import Codebook
from hubbub.errors import HubbubError
from hubbub_aggregator.models.base import ResponseModel

__all__ = ["Api", "Kept", "Problem", "Question", "Reply", "Send", "distribution_path", "in_process", "metric_path"]

Found = TypeVar("Found")
Message = dict[str, Any]
_MOST_KEPT = 2_048
_MOST_BYTES = 8 * 2**20
"""Most bytes of kept answers, as they came. Once read, they take several times as much memory."""


@dataclass(frozen=True, slots=True)
class Question:
    """A GET request to the API."""

    path: str
    query: str
    headers: Mapping[str, str]

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a question, with header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Send = Callable[[Question], Awaitable[Reply]]


class Problem(HubbubError):
    """A refusal of the API, in its own words."""

    def __init__(self, status: int, name: str, title: str, detail: str) -> None:
        super().__init__(f"{title} {detail}")
        self.status, self.name, self.title, self.detail = status, name, title, detail

    @classmethod
    def of(cls, reply: Reply) -> Problem:
        try:
            found = json.loads(reply.body)
            name = str(found["type"]).rpartition(":")[2]
            return cls(reply.status, name, str(found["title"]), str(found["detail"]))
        except (ValueError, KeyError, TypeError):
            return cls(reply.status, "", f"The answer was {reply.status}.", "It did not say why.")


@dataclass
class Kept:
    """Answers by question; the least recently used go first. All callers share them: none is used without a 304."""

    most: int = _MOST_KEPT
    _known: OrderedDict[tuple[str, str], tuple[str, int, Any]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _bytes: int = 0

    def get(self, key: tuple[str, str]) -> tuple[str, Any] | None:
        with self._lock:
            if key not in self._known:
                return None
            self._known.move_to_end(key)
            tag, _, answer = self._known[key]
            return tag, answer

    def put(self, key: tuple[str, str], tag: str, size: int, answer: Any) -> None:
        with self._lock:
            self._bytes -= self._known.pop(key, ("", 0, None))[1]
            self._known[key] = (tag, size, answer)
            self._bytes += size
            while len(self._known) > 1 and (len(self._known) > self.most or self._bytes > _MOST_BYTES):
                _, (_, dropped, _) = self._known.popitem(last=False)
                self._bytes -= dropped


@dataclass(frozen=True, slots=True)
class Api:
    """One caller's view of the public API."""

    send: Send
    kept: Kept
    authorization: str | None = None

    async def ask(self, model: type[Found], path: str, /, **asked: object) -> Found:
        """The answer at a path as the model that the API documents for it; Problem if it refuses.

        Parameters that are None are left out; `since` is written `from`.
        """

        def read(body: bytes) -> Found:
            assert issubclass(model, ResponseModel)  # noqa: S101  all of the API's models are
            return model.model_validate_json(body)

        return await self.read(model.__name__, read, path, None, **asked)

    async def read(
        self, name: str, read: Callable[[bytes], Found], path: str, size: int | None = None, /, **asked: object
    ) -> Found:
        """The same, read by the function `read`. Its result is kept under `name`, and counts as `size` bytes."""
        known = {("from" if key == "since" else key): value for key, value in asked.items() if value is not None}
        query = urlencode(
            {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in known.items()}
        )
        headers = {"accept": "application/json"}
        if self.authorization is not None:
            headers["authorization"] = self.authorization
        key = (name, f"{path}?{query}")
        before = self.kept.get(key)
        if before is not None:
            headers["if-none-match"] = before[0]
        reply = await self.send(Question(path, query, headers))
        if reply.status == 304 and before is not None:
            answer: Found = before[1]
            return answer
        if reply.status != 200:
            raise Problem.of(reply)
        found = read(reply.body)
        if tag := reply.headers.get("etag"):
            self.kept.put(key, tag, len(reply.body) if size is None else size, found)
        return found

    async def codebook(self) -> Codebook:
        """What devices are told to collect now: the newest codebook of the bundle, which is public, without what the
        bundle switches off."""
        return await self.read("bundle", _read_bundle, "/v1/bundle")


def metric_path(name: str, kind: str) -> str:
    return f"/v1/metrics/{quote(name, safe='')}/{kind}"


def distribution_path(name: str) -> str:
    """The question for quantiles and the mean of a number in bins."""
    return f"/v1/metrics/{quote(name, safe='')}/distribution"


def _read_bundle(raw: bytes) -> Codebook:
    # the service behind this page made the bundle: its signature is checked for damage only
    signer = raw.split(b"\n", 2)[1].split(b" ")[0].decode()
    bundle: Bundle = verify(raw, [signer], 0)
    newest = [page for page in bundle.body.codebooks if page.metrics][-1]  # a page without metrics ends the one before
    codebook, off = Codebook.from_compiled(newest.document), bundle.body.off
    metrics = (replace(metric, enabled=metric.enabled and metric.id not in off) for metric in codebook.metrics)
    return replace(codebook, metrics=tuple(metrics)) if off else codebook


def in_process(app: Callable[..., Awaitable[None]], also: Mapping[str, object] | None = None) -> Send:
    """Ask an ASGI application directly: the same routes, checks and bytes as over the network.

    `also` are members of the scope by which the application knows its own questions.
    """

    async def send(question: Question) -> Reply:
        status, headers, body = 500, {}, bytearray()

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def collect(message: Message) -> None:
            nonlocal status, headers
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))

        await app({**_scope(question), **(also or {})}, receive, collect)
        return Reply(status, headers, bytes(body))

    return send


def _scope(question: Question) -> Message:
    from urllib.parse import unquote

    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(question.path),
        "raw_path": question.path.encode(),
        "query_string": question.query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in question.headers.items()],
        "server": None,
        "client": None,
    }
