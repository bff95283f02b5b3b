"""Access tokens of the API: every route that is not public refuses a request without its own kind of token."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from hubbub_aggregator.dashboard.templates_and_assets import asset_hash
from hubbub_aggregator.intake.open_reports import Pool
from tests.aggregator.api.test_batches import problem
from tests.aggregator.world import CODEBOOK, Site

ANALYST, ANALYST_NEXT = "a-token-of-an-analyst", "the-next-token-of-an-analyst"
SHUFFLER, SHUFFLER_NEXT = "a-token-of-a-shuffler", "the-next-token-of-a-shuffler"
PUBLIC = {
    "/v1/bundle",
    "/healthz",
    "/readyz",
    "/openapi.json",
    "/docs",
    "/what-is-collected",
    "/static/{version}/{name}",
}
FILLED = {"batch_id": "0" * 32, "release_id": "0" * 32, "name": "dark_mode", "kind": "series", "form": "svg"}
STATIC = {"version": asset_hash(), "name": "dashboard.css"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Site]:
    text = CODEBOOK.partition("[metrics.theme]")[0]
    site = Site.open(
        tmp_path_factory.mktemp("guarded"),
        pool,
        text,
        analyst_token=ANALYST,
        analyst_token_next=ANALYST_NEXT,
        shuffler_token=SHUFFLER,
        shuffler_token_next=SHUFFLER_NEXT,
    )
    yield site
    site.close()


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Every method and path that the app answers to, also those that its OpenAPI document would leave out."""

    def inside(found: list[Any]) -> Iterator[Any]:
        for route in found:
            if (router := getattr(route, "original_router", None)) is not None:
                yield from inside(router.routes)
            else:
                yield route

    for route in inside(list(app.routes)):
        for method in sorted(route.methods):
            yield method, route.path


def guards(site: Site) -> list[tuple[str, str]]:
    # /public/ has a test of its own: who may see it depends on the codebook
    found = [(method, path) for method, path in routes(site.app) if path not in PUBLIC and "/public/" not in path]
    assert len(found) >= 10
    return [(method, path.format(**FILLED)) for method, path in found]


def basic(token: str, user: str = "anyone") -> str:
    return "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()


def of_shuffler(path: str) -> bool:
    return path.startswith("/v1/batches/")


def refuses(answer: httpx2.Response, path: str) -> None:
    """As a problem document, or as a page where a person looks."""
    assert answer.headers["www-authenticate"]
    if path.startswith("/v1/"):
        problem(answer, "unauthorized")
    else:
        assert answer.status_code == 401
        assert answer.headers["content-type"].startswith("text/html")
        assert "dark_mode" not in answer.text


def test_the_public_routes_are_all_that_a_stranger_gets(guarded: Site) -> None:
    there = {path for _, path in routes(guarded.app)}
    assert there > PUBLIC
    assert there >= set(guarded.json("/openapi.json")["paths"])
    for path in PUBLIC:
        assert guarded.get(path.format(**STATIC)).status_code == 200


def test_every_other_route_refuses_missing_wrong_truncated_and_other_roles_tokens(guarded: Site) -> None:
    for method, path in guards(guarded):
        right, other = (SHUFFLER, ANALYST) if of_shuffler(path) else (ANALYST, SHUFFLER)
        presented = [
            None,
            "",
            "Bearer",
            "Bearer ",
            "Bearer not-a-token-at-all",
            f"Bearer {right[:-1]}",
            f"Bearer {right[1:]}",
            f"Bearer {right}x",
            f"Bearer {right.upper()}",
            f"Bearer {right} {right}",
            f"Bearer {other}",
            f"Digest {right}",
            right,
            basic(other),
            basic(right[:-1]),
            basic("", user=right),
            "Basic !!!",
            "Basic " + base64.b64encode(right.encode()).decode(),
        ]
        if of_shuffler(path):
            presented += [basic(right)]  # for browsers, which no shuffler is
        for header in presented:
            headers = {} if header is None else {"Authorization": header}
            answer = guarded.call(method, path, headers=headers)
            refuses(answer, path)


def test_who_shows_either_of_two_tokens_is_let_in(guarded: Site) -> None:
    for method, path in guards(guarded):
        allowed = [SHUFFLER, SHUFFLER_NEXT] if of_shuffler(path) else [ANALYST, ANALYST_NEXT]
        headers = [f"Bearer {token}" for token in allowed] + [f"bearer   {allowed[0]} "]
        if not of_shuffler(path):
            headers += [basic(token) for token in allowed]
        for header in headers:
            assert guarded.call(method, path, headers={"Authorization": header}).status_code != 401


def test_a_stranger_learns_nothing_about_what_there_is(guarded: Site) -> None:
    """Known or not, well asked or not: before the token there is one answer."""
    paths = ["/v1/metrics/dark_mode/estimate", "/v1/metrics/nothing/estimate", "/v1/releases?nonsense=1&limit=x"]
    assert len({guarded.get(path).content for path in paths}) == 1


def test_no_token_is_ever_logged_or_answered(guarded: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answers = [
            guarded.call(method, path, headers={"Authorization": header})
            for method, path in guards(guarded)
            for header in (f"Bearer {ANALYST}", f"Bearer {SHUFFLER}", basic(ANALYST), "Bearer a-wrong-token-1234")
        ]
    said = caplog.text + "".join(f"{answer.headers}{answer.text}" for answer in answers)
    secrets = [ANALYST, SHUFFLER, "a-wrong-token-1234", basic(ANALYST).split()[1]]
    assert not [secret for secret in secrets if secret in said]
    assert not [secret for secret in secrets if secret in repr(guarded.service)]


def test_a_route_without_a_guard_would_be_found() -> None:
    """The walk over routes is what the other tests rest on: it must see what the OpenAPI document hides."""
    app = FastAPI()

    @app.get("/hidden/{name}", include_in_schema=False)
    def hidden(name: str) -> str:
        return name

    assert ("GET", "/hidden/{name}") in set(routes(app))
    assert any(isinstance(route, APIRoute) for route in app.routes)
