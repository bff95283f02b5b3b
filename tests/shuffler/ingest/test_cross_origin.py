"""Pages of other origins: they can read every answer if they are listed, and change nothing for anyone else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hubbub.wire import REPORTS_TYPE
from hubbub_service_common.http.cross_origin import CrossOrigin
from hubbub_shuffler.ingest.rate_limit import KEY_BYTES, Limits
from hubbub_shuffler.settings import Settings
from tests.shuffler.process import ShufflerProcess
from tests.shuffler.raw_connections import (
    HEAD,
    answer_to,
    answers,
    body,
    connect,
    counted,
    cut,
    problem,
    request,
    running,
)
from tests.shuffler.world import NOW, StubAggregator, World, files_of, unique, upload
from tests.support.clock import Clock

PAGE, STRANGER = "https://app-4f1d.example.com", "https://evil-4f1d.example"
FROM = {"Origin": PAGE}
UPLOAD = {"Content-Type": REPORTS_TYPE}
ADDED = {
    "access-control-allow-origin": PAGE,
    "access-control-expose-headers": "ETag, Retry-After",
    "vary": "Origin",
}


def client(app: Any, host: str = "198.51.100.7") -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app, client=(host, 4_711)), base_url="http://shuffler.test"
    )


def listed(world: World) -> httpx2.AsyncClient:
    """A client of the shuffler that has our page on its list."""
    return client(CrossOrigin([PAGE]).around(world.app))


async def every_kind(world: World, page: httpx2.AsyncClient, plain: httpx2.AsyncClient) -> set[int]:
    """Ask the same with CORS and without: the headers are all that is new. The statuses that were met."""
    seen = set()

    async def same(method: str, path: str, content: bytes = b"", **headers: str) -> None:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        with_cors = await page.request(method, path, content=content, headers=sent | FROM)
        without = await plain.request(method, path, content=content, headers=sent | FROM)
        seen.add(without.status_code)
        assert with_cors.status_code == without.status_code
        assert dict(with_cors.headers) == {**without.headers, **ADDED}
        assert with_cors.content == without.content

    kind = {"content_type": REPORTS_TYPE}
    await same("GET", "/v1/bundle")
    if (current := world.bundles.current) is not None:
        await same("GET", "/v1/bundle", if_none_match=current.etag)
    await same("GET", "/v1/status")
    await same("GET", "/healthz")
    await same("GET", "/readyz")
    await same("GET", "/openapi.json")
    await same("GET", "/nowhere")
    await same("PUT", "/v1/bundle")
    await same("GET", "/v1/reports")
    await same("POST", "/v1/reports", b"x")
    await same("POST", "/v1/reports", b"x", **kind)
    await same("POST", "/v1/reports", bytes(5_000), **kind)
    await same("POST", "/v1/reports", upload(unique(2)), **kind)
    await same("POST", "/v1/reports", upload(unique(1), period=1), **kind)
    return seen


async def test_every_kind_of_answer_can_be_read_and_is_otherwise_the_same(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    async with World(tmp_path / "a", max_body=4_096) as world, listed(world) as page, client(world.app) as plain:
        assert await every_kind(world, page, plain) == {200, 202, 304, 400, 404, 405, 413, 415}
    down = StubAggregator()
    down.up = False
    away = World(tmp_path / "b", down, max_body=4_096)
    async with away as world, listed(world) as page, client(world.app) as plain:
        assert 503 in await every_kind(world, page, plain)
    async with World(tmp_path / "c") as world, listed(world) as page:
        world.ingest._read = None  # type: ignore[assignment,method-assign]  # a bug, planted
        answer = await page.post("/v1/reports", content=b"x", headers=UPLOAD | FROM)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (500, PAGE)


async def test_a_preflight_takes_no_token_and_a_page_without_tokens_can_read_so(tmp_path: Path) -> None:
    limits = Limits(rate=0.001, burst=2, hops=0, key=bytes(KEY_BYTES), clock=Clock(NOW))

    async with World(tmp_path, limits=limits) as world, listed(world) as page:
        for path in ["/v1/reports", "/v1/bundle", "/nowhere"] * 5:
            assert (await page.options(path, headers=FROM)).status_code == 204
        for path in ("/v1/bundle", "/v1/status"):
            assert (await page.get(path, headers=FROM)).status_code == 200
        for method, path in (("GET", "/v1/bundle"), ("POST", "/v1/reports")):
            answer = await page.request(method, path, headers=FROM)
            assert (answer.status_code, problem(answer.content)) == (429, "rate-limited")
            assert int(answer.headers["retry-after"]) > 0
            assert ADDED.items() <= dict(answer.headers).items()
        assert (await page.options("/v1/reports", headers=FROM)).status_code == 204


async def test_unless_it_is_told_the_shuffler_answers_no_page(tmp_path: Path) -> None:
    assert Settings.load().cors_origins == ()

    async with World(tmp_path) as world, client(world.app) as page:
        for path in ("/v1/reports", "/v1/bundle"):
            answer = await page.options(path, headers=FROM)
            assert (answer.status_code, problem(answer.content)) == (405, "method-not-allowed")
            assert not [name for name in answer.headers if name.startswith("access-control") or name == "vary"]


@pytest.fixture(scope="module")
def shuffler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShufflerProcess]:
    settings = {"cors_origins": f"{PAGE}, https://other.example", "body_timeout": "1", "log_format": "json"}
    with running(tmp_path_factory.mktemp("pages"), **settings) as process:
        yield process


def test_a_page_that_is_not_listed_is_told_nothing(shuffler: ShufflerProcess) -> None:
    raw = request(body(), f"Origin: {STRANGER}")
    for wire in (raw, raw.replace(b"POST", b"OPTIONS"), raw.replace(b"POST", b"GET")):
        _, headers, _ = answer_to(shuffler.address, wire)
        assert headers["vary"] == "Origin"
        assert not [name for name in headers if name.startswith("access-control")]


def test_a_preflight_on_the_wire_has_no_body_and_the_connection_goes_on(shuffler: ShufflerProcess) -> None:
    with connect(shuffler.address) as connection:
        connection.sendall(f"OPTIONS /v1/reports HTTP/1.1\r\nHost: x\r\nOrigin: {PAGE}\r\n\r\n".encode())
        got = answers(connection)
        status, headers, _ = next(got)
        assert status == 204
        assert headers.pop("date")
        assert headers == {
            **ADDED,
            "access-control-allow-methods": "GET, POST",
            "access-control-allow-headers": "content-type, if-none-match",
            "access-control-max-age": "7200",
        }
        connection.sendall(request(body(), f"Origin: {PAGE}"))
        assert next(got)[0] == 202


def test_an_answer_that_is_written_past_the_application_can_be_read_too(shuffler: ShufflerProcess) -> None:
    before = cut(shuffler, "body-timeout")
    with connect(shuffler.address) as connection:
        connection.sendall(f"{HEAD}Content-Length: 100\r\nOrigin: {PAGE}\r\n\r\nx".encode())
        status, headers, content = next(answers(connection))
    assert (status, problem(content), headers["retry-after"]) == (503, "overloaded", "2")
    assert ADDED.items() <= headers.items()
    assert cut(shuffler, "body-timeout") == before + 1
    status, headers, _ = answer_to(shuffler.address, b"this is not HTTP\r\n\r\n")
    assert (status, headers["vary"]) == (400, "Origin")


def test_no_origin_is_logged_or_kept(shuffler: ShufflerProcess) -> None:
    log = Path(shuffler.log)
    before = log.read_bytes()
    for origin in (PAGE, STRANGER):
        raw = request(body(2), f"Origin: {origin}")
        for wire in (
            raw,
            raw.replace(b"POST", b"OPTIONS"),
            raw.replace(b"POST", b"GET"),
            raw.replace(b"/v1/reports", b"/nowhere"),
            request(b"x", f"Origin: {origin}"),
            f"Origin: {origin}\r\n\r\n".encode(),
        ):
            answer_to(shuffler.address, wire)
    assert log.read_bytes() == before
    held = files_of(log.parent) + json.dumps(counted(shuffler)).encode()
    assert b"dark_mode" in held  # so we look where reports are
    for origin in (PAGE, STRANGER):
        assert origin.partition("//")[2].encode() not in held
