"""The public view: what the codebook publishes is open to everyone, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hubbub_aggregator.app import create_app
from hubbub_aggregator.dashboard.response_headers import HEADERS
from hubbub_aggregator.settings import Settings
from tests.aggregator.dashboard.conftest import TOKEN, Visited
from tests.aggregator.dashboard.test_pages import faults
from tests.browser.crowd import Crowd
from tests.browser.sites import DAY, TODAY, start
from tests.support.codebooks import dark_mode, photo_app, startup_ms, theme

BEARER = {"Authorization": f"Bearer {TOKEN}"}
HIDDEN = "/public/startup_ms", "/public/no_such_metric", "/public/startup_ms.svg"
FRAMES = "https://www.example.com, https://blog.example.com:8443"


def codebook(*, public: bool = True) -> str:
    return photo_app(
        dark_mode(1.0, description="Whether the <dark> theme is on", public=public),
        theme(2.0, public=public),
        startup_ms(1.0),
        grace="1d",
        device_epsilon=8.0,
        delta=1e-6,
        honest_fraction=0.9,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:
    """Two metrics of three are public, and everything else needs a token."""
    root = tmp_path_factory.mktemp("public")
    start(root, codebook(), (TODAY - 6) * DAY + 60.0).close()
    service = start(root, codebook(), analyst_token=TOKEN, public_frames=FRAMES)
    crowd = Crowd(service.storage, service.codebooks)
    for period in range(TODAY - 5, TODAY):
        crowd.shares("dark_mode", period, np.array([0.6, 0.4]), 2000)
        crowd.numbers("startup_ms", period, 1200, 300, 2000)
    yield Visited(create_app(service), service)
    service.close()


def test_a_public_metric_needs_no_token_and_shows_the_numbers_of_the_api(site: Visited) -> None:
    page = site.page("/public/dark_mode")
    answer = site.get("/v1/metrics/dark_mode/estimate?from=2027-01-14&to=2027-01-15", headers=BEARER).json()
    shown = next(one for one in answer["segments"][0]["values"] if one["label"] == "true" or one["value"] is True)
    assert f"{100 * shown['shown']['value']:.1f}%" in page.text
    assert "if they collude" in page.text
    assert "Whether the <dark> theme is on" in page.text
    assert faults(page) == []
    assert len(page.all("svg", class_="plot")) == 2


def test_everything_else_still_asks_for_the_token(site: Visited) -> None:
    for path in ("/", "/metric/dark_mode", "/v1/metrics/dark_mode/estimate", "/chart/series/dark_mode.svg", "/privacy"):
        assert site.get(path).status_code == 401, path


def test_what_is_not_public_looks_like_what_does_not_exist(site: Visited) -> None:
    texts = {site.page(path, 404).text for path in HIDDEN}
    assert len(texts) == 1
    for path in HIDDEN:
        assert site.get(path, headers=BEARER).status_code == 404, "a token changes nothing"


def test_nothing_on_the_page_leads_to_a_page_that_needs_the_token(site: Visited) -> None:
    for path in ("/public/dark_mode", "/public/theme"):
        links = {one.attributes.get("href", "") for one in site.page(path).all("a")}
        assert links <= {"#main", "/what-is-collected"}


def test_the_picture_explains_itself_in_both_themes(site: Visited) -> None:
    light, dark = (site.get(f"/public/dark_mode.svg{query}") for query in ("", "?theme=dark"))
    for answer in (light, dark):
        assert answer.headers["content-type"].startswith("image/svg+xml")
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        texts = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", answer.text))
        for words in ("dark_mode", "Whether the &lt;dark&gt; theme is on", "confidence", "14 Jan 2027", "ε 1 whatever"):
            assert words in texts
        assert "<script" not in answer.text
        assert answer.text.count("<svg") == answer.text.count("</svg>")
    assert light.text != dark.text
    assert site.get("/public/dark_mode.svg?theme=pink").status_code == 422


def test_a_public_metric_without_a_release_says_so(site: Visited) -> None:
    assert "Nothing has been released yet" in site.page("/public/theme").text
    assert "Nothing has been released yet" in site.get("/public/theme.svg").text


def test_only_the_pages_that_the_operator_names_may_show_it_in_a_frame(site: Visited) -> None:
    policy = site.get("/public/dark_mode").headers["content-security-policy"]
    ancestors = "frame-ancestors https://www.example.com https://blog.example.com:8443"
    assert policy == HEADERS["Content-Security-Policy"].replace("frame-ancestors 'none'", ancestors)
    for path in ("/what-is-collected", "/"):
        assert "frame-ancestors 'none'" in site.get(path, headers=BEARER).headers["content-security-policy"]


@pytest.mark.parametrize("frames", ["https://x.example; script-src *", "javascript:alert(1)", "https://x.example/page"])
def test_a_frame_that_is_no_origin_is_refused(tmp_path: Path, frames: str) -> None:
    with pytest.raises(ValueError, match="origin"):
        Settings(codebook=tmp_path / "codebook.json", public_frames=frames)  # type: ignore[arg-type]


def test_a_reader_costs_no_drawing_and_a_release_shows_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hubbub_aggregator.dashboard.pages import public

    service = start(tmp_path, codebook())
    crowd, drawn = Crowd(service.storage, service.codebooks), []
    crowd.shares("dark_mode", TODAY, np.array([0.6, 0.4]), 2000)
    site = Visited(create_app(service), service)
    draw = public._drawn

    async def counted(*given: object) -> object:
        drawn.append(given)
        return await draw(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(public, "_drawn", counted)
    first = site.get("/public/dark_mode")
    assert first.headers["cache-control"] == "public, max-age=300"
    for _ in range(3):
        assert site.get("/public/dark_mode?from=2020-01-01").content == first.content
    site.get("/public/dark_mode.svg")
    assert len(drawn) == 1
    crowd.shares("dark_mode", TODAY, np.array([0.1, 0.9]), 3000)
    assert site.get("/public/dark_mode").content != first.content
    assert len(drawn) == 2
    service.close()


def test_a_metric_that_is_no_longer_public_is_gone_at_once(tmp_path: Path) -> None:
    start(tmp_path, codebook(), (TODAY - 6) * DAY + 60.0).close()
    service = start(tmp_path, codebook(public=False))
    site = Visited(create_app(service), service)
    assert site.get("/public/dark_mode").status_code == 404
    service.close()


def test_the_pages_for_analysts_and_for_people_say_that_it_is_public(site: Visited) -> None:
    assert "/public/dark_mode" in site.get("/metric/dark_mode", headers=BEARER).text
    assert "/public/" not in site.get("/metric/startup_ms", headers=BEARER).text
    assert site.get("/what-is-collected").text.count("it is published") == 2
