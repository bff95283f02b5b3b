"""The HTTP server of the browser page, on loopback only.

It is no part of a shuffler: a script runs before values are randomized, so its server could read true ones. Here the
person who starts the command is the visitor. Requests are not logged.
"""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import urlsplit

import click

from hubbub_cli.browser_page.facts import newest_estimates, page_facts
from hubbub_cli.script_tag import ScriptFile
from hubbub_service_common.process.clock_and_entropy import wall

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub_cli.services.processes import Services

__all__ = ["USUAL_PORT", "BrowserPage"]

USUAL_PORT = 8703
_HOSTS = ("127.0.0.1", "localhost")
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_STATIC = {"/": "index.html", "/page.css": "page.css", "/page.js": "page.js"}
_LARGEST_BODY = 4096


class BrowserPage:
    """The server. It has its port from the start, so that the shuffler can be told its origins, and answers from
    `show` on."""

    def __init__(self, port: int | None = None) -> None:
        """On this port, or ClickException if it is taken. None: the usual one, or any that is free."""
        self._server = _listening(port)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._port = self._server.server_address[1]

    @property
    def address(self) -> str:
        return f"http://{_HOSTS[0]}:{self._port}"

    @property
    def origins(self) -> list[str]:
        """What browsers call this page, by each name that the machine has for itself."""
        return [f"http://{host}:{self._port}" for host in _HOSTS]

    def listed(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The setting by which a shuffler with these settings answers this page too."""
        before = settings.get("CORS_ORIGINS", "").replace(",", " ").split()
        return {"CORS_ORIGINS": ", ".join(before if "*" in before else [*before, *self.origins])}

    def show(self, codebook: Codebook, services: Services, crowd: Callable[[list[int]], Any] | None = None) -> None:
        """Answer from now on, about this collection. `crowd` lets simulated devices report for the periods that start
        at these moments."""
        facts = page_facts(codebook, services, crowd=crowd is not None)
        shuffler = urlsplit(services.shuffler)
        self._server.policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; "
            f"frame-ancestors 'none'; connect-src 'self' {shuffler.scheme}://{shuffler.netloc}; "
            "require-trusted-types-for 'script'"
        )
        self._server.hosts = {origin.removeprefix("http://") for origin in self.origins}
        self._server.answers = {
            "/page.json": lambda: facts,
            "/estimates.json": lambda: newest_estimates(codebook, services, wall()),
        }
        self._server.crowd = crowd
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    policy: str
    hosts: set[str]
    answers: Mapping[str, Callable[[], Any]]
    crowd: Callable[[list[int]], Any] | None


def _listening(port: int | None) -> _Server:
    try:
        return _Server((_HOSTS[0], USUAL_PORT if port is None else port), _Handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise click.ClickException(f"the browser page can't listen on loopback: {error.strerror}") from error
        if port is None:
            return _Server((_HOSTS[0], 0), _Handler)
        raise click.ClickException(
            f"port {port} is in use: stop what listens there, or choose another port with --page-port. "
            "Nothing was started"
        ) from None


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "hubbub"
    sys_version = ""
    timeout: ClassVar[float] = 10.0
    _script = ScriptFile()

    def do_GET(self) -> None:  # the name that http.server calls
        path = urlsplit(self.path).path
        if not self._is_for_us():
            return
        if path == f"/{self._script.name}":
            # any page on this machine may load it, also with an integrity hash
            self._answer(200, _TYPES["js"], self._script.content, {"Access-Control-Allow-Origin": "*"})
        elif path == "/favicon.ico":
            self._answer(204, "", b"")
        elif path in _STATIC:
            self._answer(200, _TYPES[_STATIC[path].rpartition(".")[2]], self._file(_STATIC[path]))
        elif path in self.server.answers:
            self._say(self.server.answers[path])
        else:
            self._refuse(404, "not-found", "There is nothing here", f"{path} is not served")

    def do_POST(self) -> None:
        if not self._is_for_us():
            return
        act, size = self.server.crowd, self.headers.get("Content-Length", "")
        if urlsplit(self.path).path != "/crowd" or act is None:
            self._refuse(404, "not-found", "There is nothing here", f"{self.path} is not served")
        elif self.headers.get("Origin", "").removeprefix("http://") not in self.server.hosts:
            self._refuse(403, "forbidden", "Only the page may ask for a crowd", "the request has another origin")
        elif not size.isdecimal() or int(size) > _LARGEST_BODY:
            self._refuse(
                413, "body-too-large", "The body is too large", f"at most {_LARGEST_BODY} bytes, with a length"
            )
        elif (periods := _periods_in(self.rfile.read(int(size)))) is None:
            self._refuse(400, "malformed", "The body can't be read", 'write {"periods": [seconds, ...]}, at most four')
        else:
            self._say(lambda: act(periods))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name that http.server has
        """Nothing about a request is logged."""

    def _is_for_us(self) -> bool:
        """Whether the request names this machine. A name elsewhere that leads here would be another site's trick."""
        if self.headers.get("Host", "") in self.server.hosts:
            return True
        self._refuse(421, "misdirected", "This page is for this machine only", "ask http://127.0.0.1 or localhost")
        return False

    def _file(self, name: str) -> bytes:
        content = (resources.files("hubbub_cli.browser_page") / "static" / name).read_bytes()
        script = f'<script src="/{self._script.name}" integrity="{self._script.integrity}"></script>'
        return content.replace(b"<!-- the SDK -->", script.encode())

    def _say(self, find: Callable[[], Any]) -> None:
        try:
            status, found = 200, find()
        except click.ClickException as error:
            self._refuse(502, "no-answer", "A service did not answer", error.message)
            return
        self._answer(status, "application/json", json.dumps(found).encode())

    def _refuse(self, status: int, name: str, title: str, detail: str) -> None:
        problem = {"type": f"urn:hubbub:page:{name}", "title": title, "status": status, "detail": detail}
        self._answer(status, "application/problem+json", json.dumps(problem).encode())

    def _answer(self, status: int, kind: str, body: bytes, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {
            "Content-Security-Policy": self.server.policy,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            **({"Content-Type": kind} if kind else {}),
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _periods_in(body: bytes) -> list[int] | None:
    """The periods that a body names by their starts; None if it is not one."""
    try:
        found = json.loads(body)["periods"]
    except (ValueError, KeyError, TypeError):
        return None
    good = isinstance(found, list) and 0 < len(found) <= 4 and all(type(one) is int and one >= 0 for one in found)
    return found if good else None
