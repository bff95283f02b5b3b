"""Cross-origin requests (CORS, in the Fetch standard): which web pages of other origins may read our answers.

A browser hides an answer from a page of another origin unless the answer names that origin. It also asks first, by a
preflight (OPTIONS), before it sends a body of a type that no HTML form can send. So every answer gets these headers,
whatever its status: without them a page cannot tell a refusal from a broken network. Cookies and passwords are never
allowed, since no public route takes any.

An origin is compared and sent back, and nothing else: it is neither logged nor stored.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from hubbub.errors import InvalidParameter
from hubbub.loopback_host import is_loopback_host

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["ANY", "CrossOrigin", "Headers", "check_origins"]

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

ANY = "*"
"""Every origin."""
_ALLOW = b"access-control-allow-origin"
_EXPOSE = (b"access-control-expose-headers", b"ETag, Retry-After")
_VARY = (b"vary", b"Origin")
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"content-type, if-none-match"),
    (b"access-control-max-age", b"7200"),
)
"""7,200 seconds is the longest that Chromium remembers a preflight."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")
_NUMERIC = re.compile(r"(.*\.)?[0-9]+\.?")
"""A name that ends in a number is an IPv4 address to a browser."""


class CrossOrigin:
    """The headers of a listener's answers for pages of these origins, and the answer to preflights."""

    def __init__(self, origins: Collection[str]) -> None:
        check_origins(origins)
        self._any = ANY in origins
        self._known = {origin.encode(): ((_ALLOW, origin.encode()), _EXPOSE, _VARY) for origin in origins}
        # the answer depends on the origin even where it allows none: a cache must not give it to a page that is listed
        self._unknown: tuple[tuple[bytes, bytes], ...] = ((_ALLOW, b"*"), _EXPOSE) if self._any else (_VARY,)

    def headers(self, request: Headers) -> tuple[tuple[bytes, bytes], ...]:
        """What the answer to a request with these headers has besides its own."""
        if not self._any:
            for name, value in request:
                if name == b"origin":
                    return self._known.get(value, self._unknown)
        return self._unknown

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, with these headers on every answer. It never sees a preflight.

        So a preflight takes no token of the rate limit: a page that is new to a browser makes one before each first
        upload. It costs no more than the refusal that would take its place.
        """

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            headers = self.headers(scope["headers"])
            if scope["method"] == "OPTIONS":
                allowed = headers if headers == (_VARY,) else (*headers, *_PREFLIGHT)
                await send({"type": "http.response.start", "status": 204, "headers": list(allowed)})
                await send({"type": "http.response.body", "body": b""})
                return

            async def with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    # a copy: the application may send the same message for every request
                    message = {**message, "headers": [*message["headers"], *headers]}
                await send(message)

            await app(scope, receive, with_headers)

        return answer


def check_origins(given: Collection[str]) -> None:
    """InvalidParameter unless all are origins, spelled as browsers send them, or there is nothing but `*`."""
    if ANY in given:
        if len(given) > 1:
            raise InvalidParameter("* is every origin: leave out the others, or leave out *")
        return
    for origin in given:
        _check(origin)


def _check(origin: str) -> None:
    if origin == "null":
        raise InvalidParameter(
            "null is what browsers send for every sandboxed frame and local file, so it names no page: "
            "serve the page from an address of its own"
        )
    spelled = _as_browsers_send(origin)
    if spelled is None:
        raise InvalidParameter(
            f"{_shown(origin)} is not an origin: write scheme://host or scheme://host:port, such as "
            "https://app.example.com, without wildcards or a password, and a name with other letters in its xn-- form"
        )
    if spelled != origin:
        raise InvalidParameter(f"{origin} is not an origin as browsers send it: write {spelled}")
    parts = urlsplit(origin)
    host = parts.hostname or ""
    if parts.scheme == "http" and not (is_loopback_host(host) or host.endswith(".localhost")):
        raise InvalidParameter(
            f"{origin} is not https: anyone on its network can change such a page, and browsers give it no "
            "crypto.subtle, so it can't seal a report. Serve the page over https; http is for loopback only"
        )


def _as_browsers_send(text: str) -> str | None:
    """The origin of this address as browsers serialize it; None if it has none.

    Browsers send lower case, no default port and no path. An origin that is written in another way would never match.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
        if not parts.scheme or not host or "@" in parts.netloc:
            return None
        if parts.netloc.startswith("["):
            host = f"[{ip_address(host)}]"
        elif _NUMERIC.fullmatch(host):
            host = str(ip_address(host))
    except ValueError:
        return None
    if not host.startswith("[") and not _NAME.fullmatch(host):
        return None
    shown = "" if port is None or port == _DEFAULT_PORTS.get(parts.scheme) else f":{port}"
    return f"{parts.scheme}://{host}{shown}"


def _shown(origin: str) -> str:
    """The text for a message; not if it may hold a password."""
    return "what is given here" if "@" in origin else repr(origin)
