"""Which pages of other origins may read an answer: those that are listed, whatever the answer says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic_settings import SettingsConfigDict

from hubbub.errors import InvalidParameter
from hubbub_service_common.http.cross_origin import ANY, CrossOrigin, check_origins
from hubbub_service_common.http.listeners import listening
from hubbub_service_common.settings import ServiceSettings

PAGE, OTHER, STRANGER = "https://app.example.com", "capacitor://localhost", "https://evil.example"
OWN = {"content-length": "2", "etag": '"1"'}
_START: dict[str, Any] = {
    "type": "http.response.start",
    "status": 418,
    "headers": [(name.encode(), value.encode()) for name, value in OWN.items()],
}
READABLE = {"access-control-expose-headers": "ETag, Retry-After"}
ASKED_FIRST = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type, if-none-match",
    "access-control-max-age": "7200",
}
VARY = {"vary": "Origin"}


class Teapot:
    """Sends one and the same message for every request, as the upload route does, and counts requests."""

    asked = 0

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.asked += 1
        await send(_START)
        await send({"type": "http.response.body", "body": b"no"})


def ask(app: Any, method: str, headers: Mapping[str, str]) -> httpx2.Response:
    async def go() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://here.test") as client:
            return await client.request(method, "/", headers=headers)

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("origins", "origin", "expected"),
    [
        ([PAGE, OTHER], PAGE, {"access-control-allow-origin": PAGE, **READABLE, **VARY}),
        ([PAGE, OTHER], OTHER, {"access-control-allow-origin": OTHER, **READABLE, **VARY}),
        ([PAGE, OTHER], STRANGER, VARY),
        ([PAGE, OTHER], f"{PAGE}.evil.example", VARY),
        ([PAGE, OTHER], PAGE.upper(), VARY),
        ([PAGE, OTHER], "null", VARY),
        ([PAGE, OTHER], ANY, VARY),
        ([PAGE, OTHER], None, VARY),
        ([ANY], STRANGER, {"access-control-allow-origin": ANY, **READABLE}),
        ([ANY], "null", {"access-control-allow-origin": ANY, **READABLE}),
        ([ANY], None, {"access-control-allow-origin": ANY, **READABLE}),  # a cache may give this answer to a page
    ],
)
def test_a_page_may_read_an_answer_if_its_origin_is_listed(
    origins: list[str], origin: str | None, expected: dict[str, str]
) -> None:
    teapot, sent = Teapot(), {} if origin is None else {"Origin": origin}
    app = CrossOrigin(origins).around(teapot)
    for _ in range(2):  # the second answer has them once, too
        answer = ask(app, "GET", sent)
        assert (answer.status_code, answer.text) == (418, "no")
        assert dict(answer.headers) == {**OWN, **expected}
    preflight = ask(app, "OPTIONS", sent)
    allowed = {**expected, **ASKED_FIRST} if "access-control-allow-origin" in expected else expected
    assert (preflight.status_code, preflight.content, dict(preflight.headers)) == (204, b"", allowed)
    assert teapot.asked == 2


def test_what_is_not_a_request_passes_untouched() -> None:
    seen = []

    async def app(*given: Any) -> None:
        seen.append(given)

    lifespan: Any = ({"type": "lifespan"}, object(), object())
    asyncio.run(CrossOrigin([PAGE]).around(app)(*lifespan))  # type: ignore[arg-type]  # any coroutine will do
    assert seen == [lifespan]


@pytest.mark.parametrize(
    "origins",
    [
        [],
        [ANY],
        [PAGE, STRANGER, OTHER],
        ["https://app.example.com:8443"],
        ["https://192.0.2.1", "https://[2001:db8::1]:8443"],
        ["https://xn--bcher-kva.example"],
        ["http://localhost:3000", "http://app.localhost", "http://127.0.0.1:8080", "http://[::1]"],
        ["chrome-extension://abcdefghijklmnop"],
    ],
)
def test_origins_are_taken_as_browsers_send_them(origins: list[str]) -> None:
    check_origins(origins)


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ("https://app.example.com/", "write https://app.example.com$"),
        ("https://app.example.com/page?x#y", "write https://app.example.com$"),
        ("https://App.Example.com", "write https://app.example.com$"),
        ("HTTPS://app.example.com", "write https://app.example.com$"),
        ("https://app.example.com:443", "write https://app.example.com$"),
        ("http://localhost:80", "write http://localhost$"),
        ("https://app.example.com:08443", "write https://app.example.com:8443$"),
        ("https://[2001:DB8::0001]", r"write https://\[2001:db8::1\]$"),
        ("http://app.example.com", "is not https"),
        ("http://192.0.2.1:3000", "is not https"),
        ("http://localhost.example.com", "is not https"),
        ("null", "sandboxed"),
        ("app.example.com", "is not an origin"),
        ("//app.example.com", "is not an origin"),
        ("https//app.example.com", "is not an origin"),
        ("https://*.example.com", "without wildcards"),
        ("https://b\u00fccher.example", "xn--"),
        ("https://127.1", "is not an origin"),
        ("https://[::1", "is not an origin"),
        ("https://app.example.com:99999", "is not an origin"),
        ("https://app..example.com", "is not an origin"),
        ("https://app.example.com\r\nX: y", "is not an origin"),
        ("file:///index.html", "is not an origin"),
        ("", "is not an origin"),
    ],
)
def test_an_origin_that_no_browser_sends_is_refused_and_the_right_one_is_named(origin: str, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        check_origins([PAGE, origin])


def test_every_origin_stands_alone() -> None:
    with pytest.raises(InvalidParameter, match=r"leave out \*"):
        check_origins([ANY, PAGE])


def test_a_password_in_an_origin_is_not_shown() -> None:
    with pytest.raises(InvalidParameter) as caught:
        check_origins(["https://user:secret@app.example.com"])
    assert "secret" not in str(caught.value)


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="HUBBUB_TESTED_")
    service = "tested"
    host: str = "127.0.0.1"
    port: int = 0
    state_dir: Path = Path()
    body_timeout: float = 30.0


@pytest.mark.parametrize("origins", [[], [PAGE]])
def test_only_the_public_listener_speaks_to_other_origins_and_only_if_it_is_told(origins: list[str]) -> None:
    """Whatever is served there, such as the refusals of a start that waits for its storage."""
    pages = CrossOrigin(origins) if origins else None
    log = logging.getLogger("tested")
    with listening(Settings(admin_port=0), max_body=1, other_files=10, log=log, cross_origin=pages) as (public, admin):
        teapot: Any = Teapot()
        private, served = [each.config(teapot, shutdown_timeout=1).app for each in (admin, public)]
        assert private is teapot
        assert (served is teapot) == (not origins)
        if origins:
            assert ask(served, "GET", {"Origin": PAGE}).headers["access-control-allow-origin"] == PAGE
