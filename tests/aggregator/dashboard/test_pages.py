"""Pages of the dashboard: whole, safe, and saying what the API says. tests/browser has what only a browser can tell."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hubbub_aggregator.app import create_app
from hubbub_aggregator.dashboard import formatting, routes
from hubbub_aggregator.dashboard.routes import HEADERS
from hubbub_service_common.clock.trusted_clock import TrustedClock
from tests.aggregator.dashboard.conftest import CODEBOOK, NASTY, Visited
from tests.aggregator.dashboard.markup import Element, Page
from tests.browser.crowd import Crowd
from tests.browser.sites import DAY, TODAY, start

PAGES = {
    "/": "overview",
    "/metric/dark_mode": "metric",
    "/metric/nasty?from=2027-01-12&to=2027-01-15&postprocess=norm_sub": "metric",
    "/metric/startup_ms?from=2027-01-11&to=2027-01-15": "metric",
    "/metric/dark_mode?compare_from=2027-01-11&compare_to=2027-01-12": "metric",
    "/metric/dark_mode?from=2027-01-14&to=2027-01-11": "metric",
    "/privacy": "privacy",
    "/privacy?metric=startup_ms": "privacy",
    "/operations": "operations",
    "/what-is-collected": "collected",
    "/docs": "api",
}


def plain(text: str) -> str:
    text = text.replace("\N{NARROW NO-BREAK SPACE}", "").replace("\N{MINUS SIGN}", "-")
    return re.sub(r"(?<=\d),(?=\d{3})", "", text)


def faults(page: Page) -> list[str]:
    """What a strict policy would stop, or a screen reader stumble over."""
    found = list(page.unclosed)
    for element in page.elements:
        found += [f"{element.tag} {name}" for name in element.attributes if name == "style" or name.startswith("on")]
        for name in ("src", "href", "action"):
            target = element.attributes.get(name, "#")
            found += [f"{name}={target}"] if not re.match(r"[/#]", target) or target.startswith("//") else []
    found += ["inline script" for one in page.all("script") if "src" not in one.attributes]
    found += ["style element" for _ in page.all("style")]
    ids = [one.attributes["id"] for one in page.elements if "id" in one.attributes]
    found += [f"id {one} twice" for one in set(ids) if ids.count(one) > 1]
    found += [f"no target for {one.attributes['href']}" for one in page.all("a") if _dangles(one.attributes, ids)]
    return found


def _dangles(attributes: dict[str, str], ids: list[str]) -> bool:
    target = attributes.get("href", "")
    return target.startswith("#") and target[1:] not in ids


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_whole_and_has_nothing_that_the_policy_forbids(populated: Visited, path: str) -> None:
    page = populated.page(path)
    assert faults(page) == []
    assert page.all("body")[0].attributes["data-page"] == PAGES[path]
    assert len(page.all("h1")) == 1
    assert page.all("nav")[0].attributes["aria-label"] == "Pages"
    linked = {one.attributes["href"] for one in page.all("a") if "nav" in one.inside}
    assert linked >= {"/", "/privacy", "/operations", "/what-is-collected"}
    assert page.all("a")[0].attributes["href"] == "#main"
    assert not re.search(r"\b(None|nan|inf|undefined|Undefined)\b", re.sub(r"None(\.|:| needed| since)", "", page.text))


def test_the_api_page_names_every_route_and_parameter_for_people(populated: Visited) -> None:
    document, page = populated.get("/openapi.json").json(), populated.page("/docs")
    routes = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert routes == {one.text for one in page.all("h3")}
    every = [said for methods in document["paths"].values() for said in methods.values()]
    given = [one for said in every for one in said.get("parameters", ())]
    assert {one["name"] for one in given if one["in"] != "header"} == {one.text for one in page.all("dt")}
    assert "`" not in page.text
    assert "Chance that an interval holds the truth. Default: 0.95." in page.text


@pytest.mark.everyday(3)
@pytest.mark.parametrize("path", PAGES)
def test_every_answer_carries_the_policy_and_no_cookie(populated: Visited, path: str) -> None:
    answer = populated.get(path)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "set-cookie" not in answer.headers
    assert answer.headers["cache-control"] == "private, no-cache"
    again = populated.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", PAGES)
def test_charts_have_a_caption_and_marks_that_can_be_read(populated: Visited, path: str) -> None:
    page = populated.page(path)
    charts = page.all("figure", class_="chart")
    assert len(page.all("figcaption")) == len(charts)
    for plot in page.all("svg", class_="plot"):
        assert re.search(r"\d", plot.attributes["aria-label"])
    titles = [one.text for one in page.all("title") if "svg" in one.inside]
    assert len(titles) == len([one for one in page.elements if one.attributes.get("class") in ("mark", "spot")])
    assert all(re.search(r"\d", title) for title in titles)


def test_words_of_a_codebook_are_shown_and_never_run(populated: Visited) -> None:
    for path in PAGES:
        source = populated.get(path).text
        assert "<script>alert" not in source
        assert "49" not in re.findall(r"</script> (\S+)", Page(source).text)
    page = populated.page("/metric/nasty?from=2027-01-12&to=2027-01-15")
    labels = {one.text for one in page.all("bdi")}
    assert set(NASTY) <= labels
    titles = " ".join(one.text for one in page.all("title") if "svg" in one.inside)
    assert all(value in titles for value in NASTY)  # as they are, digits and quotes included


def test_numbers_are_those_of_the_api(populated: Visited) -> None:
    asked = "from=2027-01-14&to=2027-01-15"
    answer = populated.get(f"/v1/metrics/dark_mode/estimate?{asked}").json()["segments"][0]
    page = populated.page(f"/metric/dark_mode?{asked}")
    for value in answer["values"]:
        row = next(one for one in page.all("tr") if one.text.startswith(value["label"]))
        shown = [float(number) / 100 for number in re.findall(r"(-?\d+\.\d)%", plain(row.text))]
        assert shown[:3] == pytest.approx(list(value["shown"].values()), abs=0.0005 + 1e-9)
    card = next(one for one in populated.page("/").all("article") if one.attributes["data-metric"] == "dark_mode")
    assert f"{100 * answer['values'][1]['shown']['value']:.1f}%" in plain(card.text)
    assert "2000 reports" in plain(card.text)


def test_raw_and_post_processed_numbers_are_told_apart(populated: Visited) -> None:
    raw = populated.page("/metric/nasty").text
    assert "kept to what is possible. The CSV has the raw ones" in " ".join(raw.split())
    done = populated.page("/metric/nasty?postprocess=norm_sub")
    assert "Post-processed by norm_sub" in done.text
    assert {"after norm_sub", "raw"} <= {one.text for one in done.all("th")}


def test_both_guarantees_stand_together_with_what_one_operator_means(populated: Visited) -> None:
    for path in ("/", "/metric/dark_mode", "/privacy"):
        text = " ".join(populated.page(path).text.split())
        assert "if they collude" in text
        assert text.count("One party runs both services here") == 1, "said once on a page, with a link to what it means"
    assert "this holds only if different parties run them" in populated.page("/privacy").text


def test_an_edited_metric_shows_both_questions_apart(populated: Visited) -> None:
    page = populated.page("/metric/startup_ms?from=2027-01-11&to=2027-01-15")
    assert len([one for one in page.all("svg", class_="plot") if one.attributes["data-chart"] == "estimate"]) == 2
    assert "stood for 2 different questions" in page.text


def test_a_discarded_bucket_is_named_with_what_to_change(populated: Visited) -> None:
    text = populated.page("/operations").text
    assert "11 Jan 2027" in text
    assert "hubbub plan metrics.toml" in text
    assert "duplicate" in text


def test_the_ids_that_are_pinned_can_be_copied_from_the_operations_page(populated: Visited) -> None:
    page, status = populated.page("/operations").text, populated.get("/v1/status").json()
    assert status["codebooks"]
    for one in status["codebooks"]:
        assert re.fullmatch("[0-9a-f]{32}", one["id"])
        assert one["id"] in page


def test_a_metric_that_a_command_switched_off_is_shown_as_off_everywhere(tmp_path: Path) -> None:
    service = start(tmp_path, CODEBOOK)
    site = Visited(create_app(service), service)
    before = site.get("/v1/metrics")
    assert "dark_mode" in [one["name"] for one in before.json()["metrics"] if one["versions"][-1]["enabled"]]
    service.codebooks.switch("dark_mode", off=True)
    service.tick()
    listed = site.get("/v1/metrics", headers={"If-None-Match": before.headers["ETag"]}).json()["metrics"]
    pages = {path: " ".join(site.page(path).text.split()) for path in ("/metric/dark_mode", "/what-is-collected", "/")}
    service.close()
    assert [one["name"] for one in listed if not one["versions"][-1]["enabled"]] == ["dark_mode"]
    assert "This metric is switched off" in pages["/metric/dark_mode"]
    assert "dark_mode" not in pages["/what-is-collected"].partition("Switched off at the moment")[0]
    assert 'record("dark_mode"' not in pages["/"]


def test_a_revoked_key_is_not_blamed_on_a_small_crowd(tmp_path: Path) -> None:
    service = start(tmp_path, CODEBOOK)
    Crowd(service.storage, service.codebooks).discard("dark_mode", TODAY, "revoked-key")
    text = Visited(create_app(service), service).page("/operations").text
    service.close()
    assert "revoked-key" in text
    assert "No one can open these" in text
    assert "Too few devices" not in text
    assert "hubbub plan" not in text


def test_a_clock_in_doubt_is_said_first_and_hides_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrustedClock, "warning", lambda _clock: "this clock is 7200 s behind a shuffler's: check it")
    service = start(tmp_path, CODEBOOK, TODAY * DAY - 7200.0)
    Crowd(service.storage, service.codebooks).shares("dark_mode", TODAY, np.array([0.6, 0.4]), 2000)
    site = Visited(create_app(service), service)
    site.app.state.dashboard = routes.Dashboard(site.app, is_patient=True)
    operations, overview = (" ".join(site.page(path).text.split()) for path in ("/operations", "/"))
    ready = site.get("/readyz").json()
    service.close()
    (warning,) = ready["warnings"]
    assert warning["detail"][1:] in operations
    assert operations.index("7200 s behind a shuffler's") < operations.index("batches opened")
    assert "Up to date" not in operations
    assert "2,000 reports 15 Jan 2027, still to come, by this clock" in overview


def test_a_range_that_cannot_be_shown_says_why_and_keeps_the_form(populated: Visited) -> None:
    page = populated.page("/metric/dark_mode?from=2027-01-14&to=2027-01-11")
    assert "must end after it starts" in page.text
    assert page.all("input", name="from")[0].attributes["value"] == "2027-01-14"


def test_ranges_that_cannot_be_compared_say_why(populated: Visited) -> None:
    page = populated.page("/metric/dark_mode?compare_from=2027-01-14&compare_to=2027-01-15")
    assert "can't be compared" in page.text
    assert page.all("svg", class_="plot")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/metric/nothing", 404),
        ("/privacy?metric=nothing", 404),
        ("/chart/series/nothing.svg", 404),
        ("/chart/pie/dark_mode.svg", 404),
        ("/chart/series/dark_mode.gif", 404),
        ("/metric/dark_mode?confidence=2", 422),
        ("/metric/dark_mode?top=<script>", 422),
        ("/metric/dark_mode?fron=2027-01-14", 422),
        ("/metric/dark_mode?postprocess=magic", 422),
    ],
)
def test_what_is_not_there_is_a_page_that_says_so(populated: Visited, path: str, status: int) -> None:
    page = populated.page(path, status)
    assert faults(page) == []
    assert "Back to the overview" in page.text


def test_charts_can_be_taken_away_in_both_themes(populated: Visited) -> None:
    light = populated.get("/chart/series/dark_mode.svg")
    dark = populated.get("/chart/series/dark_mode.svg?theme=dark")
    assert light.headers["content-type"] == "image/svg+xml"
    assert "#0072b2" in light.text
    assert "#0072b2" not in dark.text
    for kind in ("estimate", "epsilon", "posterior"):
        picture = populated.get(f"/chart/{kind}/nasty.png")
        assert picture.content.startswith(b"\x89PNG")
    assert "style" not in re.findall(r" ([a-z:-]+)=", light.text)
    assert populated.get("/chart/ledger/all.svg").status_code == 200
    compared = "compare_from=2027-01-11&compare_to=2027-01-12&from=2027-01-13&to=2027-01-14"
    assert populated.get(f"/chart/compare/dark_mode.svg?{compared}").status_code == 200


def test_static_files_are_kept_for_good_under_the_name_of_their_content(populated: Visited) -> None:
    page = populated.page("/")
    sheet = page.all("link", rel="stylesheet")[0].attributes["href"]
    script = page.all("script")[0].attributes["src"]
    for path, kind in ((sheet, "text/css"), (script, "text/javascript")):
        answer = populated.get(path)
        assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
        assert "immutable" in answer.headers["cache-control"]
        assert "url(" not in answer.text
        assert "http" not in answer.text
    assert populated.get("/static/0000/dashboard.css").status_code == 404
    assert populated.get(sheet.replace("dashboard.css", "../templates/layout.html")).status_code == 404


def test_pages_are_compressed_for_those_who_can_read_it(populated: Visited) -> None:
    assert populated.get("/", headers={"Accept-Encoding": "gzip"}).headers["content-encoding"] == "gzip"
    assert "content-encoding" not in populated.get("/", headers={"Accept-Encoding": "identity"}).headers


def test_the_newest_period_is_the_one_shown_first(populated: Visited) -> None:
    assert populated.page("/metric/dark_mode").all("h2")[0].text == "14 Jan 2027"


def test_a_ledger_that_takes_long_keeps_nobody_waiting(populated: Visited, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_site: object) -> object:
        return await asyncio.Event().wait()

    monkeypatch.setattr(routes, "ask_ledger", never)
    monkeypatch.setattr(routes, "_PATIENCE", 0.01)
    app = create_app(populated.service)
    page = Visited(app, populated.service).page("/privacy")
    assert "The ledger is being computed" in page.text
    assert "Releases" in page.text  # and everything else is there


@pytest.mark.parametrize("metric", ["dark_mode", "nasty", "startup_ms"])
def test_one_number_has_one_interval_on_all_pages(populated: Visited, metric: str) -> None:
    """It is the API's own, and where it holds for all values together, both pages say so."""
    card = next(one for one in populated.page("/").all("article") if one.attributes["data-metric"] == metric)
    page = populated.page(f"/metric/{metric}")
    shown = re.findall(r"(?<![\d-])-?[\d.]+%? to -?[\d.]+%?(?![\d-]| [A-Z])", plain(card.text))
    assert len(shown) == 1
    assert [limits for limits in shown if limits not in plain(page.text)] == []
    together = "for all values together"
    assert (together in card.text) == (together in page.text) == (metric == "nasty")
    link = next(one.attributes["href"] for one in page.all("a") if "/estimate?" in one.attributes.get("href", ""))
    assert "simultaneous" not in link


def _tables(page: Page) -> Iterator[list[list[Element]]]:
    """The cells of each table, row by row."""
    rows: list[list[Element]] = []
    for element in page.elements:
        if element.tag == "table":
            if rows:
                yield rows
            rows = []
        elif element.tag == "tr":
            rows.append([])
        elif element.tag in ("th", "td"):
            rows[-1].append(element)
    if rows:
        yield rows


def test_numbers_stand_below_their_heading(populated: Visited) -> None:
    for path in PAGES:
        for heading, *rows in _tables(populated.page(path)):
            for place, above in enumerate(heading):
                classes = {row[place].attributes.get("class", "") for row in rows}
                assert (above.attributes.get("class") == "number") == ("number" in classes), (path, above.text)


def test_single_periods_are_drawn_over_the_whole_ledger(populated: Visited) -> None:
    titles = [one.text for one in populated.page("/privacy").all("title")]
    for line in ("one period, honest shuffler", "one period, if they collude"):
        assert {"2027-01-11", "2027-01-14"} <= {title[:10] for title in titles if line in title}
    assert 'stroke-dasharray="6,4"' in populated.get("/chart/ledger/all.svg").text


@pytest.mark.full
def test_the_longest_list_has_a_page_that_can_be_read(tmp_path: Path) -> None:
    """65,536 values, in two seconds of a core when nobody has asked before."""
    values = [f"value {number}" for number in range(65_536)]
    text = CODEBOOK.partition("[metrics")[0] + (
        f'[metrics.long]\ntype = "category"\nvalues = {json.dumps(values)}\nepsilon = 4.0\n'
    )
    start(tmp_path, text, (TODAY - 3) * DAY + 60.0).close()
    service = start(tmp_path, text)
    try:
        crowd = Crowd(service.storage, service.codebooks)
        for period in (TODAY - 2, TODAY - 1):
            crowd.shares("long", period, 1 / np.arange(1.0, 65_537.0), 20_000)
        visited = Visited(create_app(service), service)
        for path in ("/", "/metric/long", "/privacy", "/what-is-collected", "/operations"):
            assert len(gzip.compress(visited.get(path).content)) < 300_000
        page = visited.page("/metric/long")
        assert f"The 20 largest of {formatting.count(65_536)} values" in page.text
        assert "value 0" in page.text
    finally:
        service.close()
