"""Entity tags: the same question gets the same bytes, and a client that has them already gets none."""

from __future__ import annotations

import pytest

from hubbub_aggregator.api.respond import form
from tests.aggregator.world import DAY, START, Site

ESTIMATE = "/v1/metrics/theme/estimate"
SERIES = "/v1/metrics/theme/series"
COMPARE = "/v1/metrics/theme/compare?a_from=2027-01-15&a_to=2027-01-16&b_from=2027-01-16&b_to=2027-01-17"
PATHS = [ESTIMATE, SERIES, COMPARE, "/v1/metrics", "/v1/releases", "/v1/privacy"]


@pytest.fixture
def two_days(site: Site) -> Site:
    for day in range(2):
        site.clock.now = START + day * DAY + 3600
        site.service.tick()
        site.settle(site.batch("theme", ["light"] * 600, seed=day))
    return site


def test_the_same_question_gets_the_same_bytes_and_tag_also_after_a_restart(two_days: Site) -> None:
    before = [two_days.get(path) for path in PATHS]
    two_days.reopen()
    for path, first in zip(PATHS, before, strict=True):
        again = two_days.get(path)
        assert first.status_code == 200, first.text
        assert (again.content, again.headers["etag"]) == (first.content, first.headers["etag"])


def test_who_has_an_answer_is_told_so_in_no_bytes(two_days: Site) -> None:
    for path in PATHS:
        answer = two_days.get(path)
        known = answer.headers["etag"]
        assert known.startswith('"')  # strong
        for header in (known, f"W/{known}", f'"other", {known}', "*"):
            again = two_days.get(path, headers={"If-None-Match": header})
            assert (again.status_code, again.content) == (304, b"")
            assert all(again.headers[name] == answer.headers[name] for name in ("etag", "vary", "cache-control"))
        for header in ('"other"', known.strip('"'), ""):
            assert two_days.get(path, headers={"If-None-Match": header}).status_code == 200
        assert answer.headers["vary"] == "Accept"
        assert answer.headers["cache-control"] == "private, no-cache"


def test_whatever_changes_the_bytes_changes_the_tag(two_days: Site) -> None:
    """Parameters, form, new releases and the passing of time; two answers with one tag are one answer."""
    options = ["", "confidence=0.9", "simultaneous=true", "top=2", "format=csv"]
    ranges = [*options, "postprocess=clip", "population=superpopulation", "from=2027-01-16", "from=2027-01-15"]
    asked = [
        *(f"{ESTIMATE}?{option}" for option in ranges),
        *(f"{SERIES}?{option}" for option in ranges),
        *(f"{COMPARE}&{option}" for option in (*options, "simultaneous=false")),
        *(f"/v1/releases?{option}" for option in ("", "limit=1", "metric=theme", "format=csv", "limit=1&format=csv")),
        *(f"/v1/privacy?{option}" for option in ("", "periods=1", "format=csv")),
    ]
    seen: dict[str, bytes] = {}
    for _ in range(2):
        for path in asked:
            answer = two_days.get(path)
            assert answer.status_code == 200, (path, answer.text)
            assert seen.setdefault(answer.headers["etag"], answer.content) == answer.content, path
        two_days.settle(two_days.batch("theme", ["dark"] * 650, seed=7))
    first = two_days.get(ESTIMATE)
    two_days.clock.now += 30 * DAY
    for path in (ESTIMATE, SERIES, COMPARE):
        answer = two_days.get(path)
        assert answer.headers["etag"] not in seen
        assert answer.json()["complete"] == (path != SERIES)  # that one now ends with an open period
    assert first.json()["complete"] is False
    assert len(seen) > 40


def test_one_tag_is_never_shared_by_json_and_csv(two_days: Site) -> None:
    plain, table = (two_days.get(ESTIMATE, headers={"Accept": kind}) for kind in ("application/json", "text/csv"))
    assert plain.headers["etag"] != table.headers["etag"]
    assert two_days.get(f"{ESTIMATE}?format=csv").content == table.content


def test_what_is_refused_is_not_kept_by_anyone(site: Site) -> None:
    assert site.get(ESTIMATE).headers["cache-control"] == "no-store"


def test_a_release_record_is_tagged_too(two_days: Site) -> None:
    path = f"/v1/releases/{two_days.json('/v1/releases')['releases'][0]['id']}"
    assert two_days.get(path, headers={"If-None-Match": two_days.get(path).headers["etag"]}).status_code == 304


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "json"),
        ("", "json"),
        ("*/*", "json"),
        ("text/csv", "csv"),
        ("TEXT/CSV; charset=utf-8", "csv"),
        ("text/*", "csv"),
        ("text/csv, application/json", "json"),
        ("application/json;q=0.5, text/csv", "csv"),
        ("text/csv;q=0.1, */*;q=0.5", "json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "json"),
        ("text/csv;q=nonsense", "json"),
        ("text/csv;q=0", "json"),
        ("application/vnd.apache.arrow.stream", "arrow"),
        ("application/vnd.apache.arrow.stream, text/csv;q=0.5", "arrow"),
        ("application/*", "json"),
        ("image/png", "json"),
        (",;,q=;/", "json"),
    ],
)
def test_the_form_is_what_accept_prefers(accept: str | None, expected: str) -> None:
    assert form(None, accept) == expected
    assert form("json", accept) == "json"
    assert form("csv", accept) == "csv"
