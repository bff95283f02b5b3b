"""Tokens in a browser: where one is set, the browser asks for it, and nothing is shown without it."""

from __future__ import annotations

import pytest

from tests.browser.browser_contexts import Visitor
from tests.browser.serve import TOKEN
from tests.support import http

_PATHS = ["/", "/metric/metric_00", "/privacy", "/operations"]


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("token", [None, "wrong"])
def test_nothing_is_shown_without_the_token(sites: dict[str, str], path: str, token: str | None) -> None:
    answer = http.get(sites["guarded"] + path, auth=None if token is None else ("analyst", token))
    assert answer.status_code == 401
    assert "Basic" in answer.headers["www-authenticate"]
    assert "metric_0" not in answer.text
    assert answer.headers["content-type"].startswith("text/html")


def test_people_see_what_is_collected_without_a_token(visitor: Visitor) -> None:
    page = visitor.open("guarded", "/what-is-collected")
    assert page.locator("[data-metric]").count() == 2


def test_a_browser_enters_with_the_token_as_its_password(visitor: Visitor) -> None:
    credentials = {"username": "anything", "password": TOKEN}
    page = visitor.open("guarded", "/", expected=(401,), http_credentials=credentials)
    assert visitor.statuses[page.url] == 200
    assert page.locator("article.card").count() == 2
    for link in ("/operations", "/what-is-collected"):
        page.locator(f"nav a[href='{link}']").first.click()
        page.wait_for_url(f"**{link}")
        assert page.locator("h1").count() == 1


def test_a_script_enters_with_a_bearer_token(visitor: Visitor) -> None:
    page = visitor.open("guarded", "/", extra_http_headers={"Authorization": f"Bearer {TOKEN}"})
    assert visitor.statuses[page.url] == 200
