"""A site that uses the browser SDK, with a shuffler in memory behind each path prefix."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hubbub_client.testing import MemoryTransport
from tests.support.node import TYPESCRIPT, node

__all__ = ["BEGAN", "CODEBOOK", "Site", "built"]

BEGAN = 1_767_571_200
"""The start of a UTC day (2026-01-05): the time of schedules begins in it."""

CODEBOOK = """
[collection]
name = "site"
period = "1d"
grace = "14d"
device_epsilon = 4.0
release = { epsilon = 0.5, delta = 1e-8 }
[metrics.clicks]
type = "mean"
bounds = [0, 10]
reduce = "sum"
missing = 0
epsilon = 1.0
[metrics.wide]
type = "boolean"
missing = false
reduce = "max"
epsilon = 0.5
[metrics.theme]
type = "category"
values = ["dark", "light", "system"]
epsilon = 1.0
[metrics.volume]
type = "mean"
bounds = [0, 10]
reduce = "last"
epsilon = 1.0
"""


def built(folder: Path) -> Path:
    """The SDK as it is published, and the parts of the tests, built into a folder."""
    executable = node()
    assert executable is not None
    parts = ["test/page.ts", "test/schedule.ts", "--bundle", "--format=iife", "--target=es2022", f"--outdir={folder}"]
    for command in (["build.mjs", str(folder)], ["node_modules/esbuild/bin/esbuild", *parts]):
        subprocess.run([executable, *command], cwd=TYPESCRIPT, check=True, capture_output=True, timeout=120)
    return folder


_TYPES = {".js": "text/javascript", ".html": "text/html; charset=utf-8"}
_CORS = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", b"ETag, Retry-After")]
_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"content-type, if-none-match"),
    (b"access-control-max-age", b"7200"),
]


@dataclass
class Site:
    """Pages, scripts, and shufflers by the prefix of their path."""

    folder: Path
    pages: dict[str, str] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    """The Content-Security-Policy of pages."""
    shufflers: dict[str, MemoryTransport] = field(default_factory=dict)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Of each request to a shuffler."""
    silent: bool = False
    """While true, requests to shufflers are not answered: the connection just ends."""

    def shuffler(self, name: str, clock: Callable[[], float] = lambda: BEGAN) -> MemoryTransport:
        return self.shufflers.setdefault(name, MemoryTransport.serving(CODEBOOK, clock))

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        path, body, more = scope["path"], b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        status, headers, content = self._answer(scope, path, body)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _answer(self, scope: dict[str, Any], path: str, body: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        if path in self.pages:
            headers = [(b"content-type", _TYPES[".js" if path.endswith(".js") else ".html"].encode())]
            if path in self.policies:
                headers.append((b"content-security-policy", self.policies[path].encode()))
            return 200, headers, self.pages[path].encode()
        name, _, rest = path[1:].partition("/")
        if name in self.shufflers:
            if scope["method"] == "OPTIONS":
                return 204, _CORS + _PREFLIGHT, b""
            found = {key.decode(): value.decode() for key, value in scope["headers"]}
            self.headers.append(found | {"method": scope["method"], "path": path})
            if self.silent:
                return 503, _CORS, b""
            status, answered, content = self.shufflers[name].request(scope["method"], "/" + rest, found, body)
            return status, _CORS + [(k.encode(), v.encode()) for k, v in answered.items()], content
        file = self.folder / path[1:]
        if file.is_file():
            return 200, [(b"content-type", _TYPES[file.suffix].encode())], file.read_bytes()
        return 404, [], b""
