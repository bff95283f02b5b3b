"""Questions and answers: right within their error, with their guarantee, and the same every time."""

from __future__ import annotations

import base64
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubbub.accounting import compose, guarantee
from hubbub.mechanisms import BinaryRandomizedResponse, Categories, Mechanism
from hubbub_aggregator.analysis.answer_guarantee import Released, privacy
from hubbub_aggregator.api.query import router
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.storage import StorageError
from tests.aggregator.api.test_batches import problem
from tests.aggregator.world import CODEBOOK, DAY, START, WAIT, Site

ANALYST = "a-token-of-an-analyst"


def values(site: Site, path: str) -> list[dict[str, Any]]:
    (segment,) = site.json(path)["segments"]
    found: list[dict[str, Any]] = segment["values"]
    return found


@pytest.mark.parametrize(
    ("name", "reported", "truth"),
    [
        ("dark_mode", [True] * 900 + [False] * 2_100, {False: 0.7, True: 0.3}),
        (
            "theme",
            ["light"] * 1_500 + ["dark"] * 900 + ["sepia"] * 600,
            {"light": 0.5, "dark": 0.3, "sepia": 0.2, "other": 0.0},
        ),
        ("startup_ms", [500.0] * 1_500 + [2_500.0] * 1_500, {None: 1_500.0}),
    ],
)
def test_estimates_are_within_their_error_of_the_truth(
    site: Site, name: str, reported: list[Any], truth: dict[Any, float]
) -> None:
    """From a fixed seed; six standard errors would fail once in 500 million runs of fresh ones."""
    site.settle(site.batch(name, reported))
    found = values(site, f"/v1/metrics/{name}/estimate")

    assert [entry["value"] for entry in found] == list(truth)
    for entry in found:
        assert abs(entry["estimate"] - truth[entry["value"]]) < 6 * entry["stderr"]
        assert entry["low"] < entry["estimate"] < entry["high"]
        assert entry["shown"]["low"] < entry["shown"]["high"]
        assert entry["shown"]["low"] <= entry["shown"]["value"] <= entry["shown"]["high"]


def test_the_same_question_gets_the_same_bytes(site: Site) -> None:
    site.settle(site.batch("theme", ["light"] * 700))
    path = "/v1/metrics/theme/estimate?confidence=0.9&simultaneous=true"
    first = site.get(path)
    site.reopen()
    assert first.status_code == 200
    assert site.get(path).content == first.content


def test_options_change_what_they_say_they_change(site: Site) -> None:
    site.settle(site.batch("theme", ["light"] * 700))
    site.settle(site.batch("startup_ms", [100.0] * 200))
    plain = site.json("/v1/metrics/theme/estimate")["segments"][0]
    wide = site.json("/v1/metrics/theme/estimate?confidence=0.999")["segments"][0]
    wider = site.json("/v1/metrics/theme/estimate?population=superpopulation&simultaneous=true")["segments"][0]
    shown = site.json("/v1/metrics/theme/estimate?postprocess=norm_sub")["segments"][0]

    assert wide["values"][0]["high"] - wide["values"][0]["low"] > plain["values"][0]["high"] - plain["values"][0]["low"]
    assert wide["interval"]["confidence"] == 0.999
    assert "superpopulation" in wider["interval"]["kind"]
    assert sum(entry["shown"]["value"] for entry in shown["values"]) == pytest.approx(1)
    assert min(entry["shown"]["value"] for entry in shown["values"]) >= 0
    raw = ("estimate", "stderr", "low", "high", "total")
    assert [[entry[name] for name in raw] for entry in shown["values"]] == [
        [entry[name] for name in raw] for entry in plain["values"]
    ]
    assert shown["postprocess"] == "norm_sub"
    assert values(site, "/v1/metrics/theme/estimate?postprocess=base_cut")[3]["shown"]["value"] == 0
    assert 0 <= values(site, "/v1/metrics/startup_ms/estimate?postprocess=clip")[0]["shown"]["value"] <= 5000
    problem(site.get("/v1/metrics/startup_ms/estimate?postprocess=norm_sub"), "invalid-query")


def test_top_lists_the_largest_with_intervals_that_allow_for_having_been_chosen(site: Site) -> None:
    site.settle(site.batch("theme", ["sepia"] * 500 + ["dark"] * 200))
    whole = site.json("/v1/metrics/theme/estimate")["segments"][0]
    top = site.json("/v1/metrics/theme/estimate?top=2")["segments"][0]
    by_value = {entry["value"]: entry for entry in whole["values"]}
    assert top["values"] == [by_value["sepia"], by_value["dark"]]
    assert (top["value_count"], top["interval"]["simultaneous"]) == (4, True)
    assert "all 4 together" in top["interval"]["selection"]
    assert whole["interval"]["selection"] is None
    assert len(site.json("/v1/metrics/theme/estimate?top=99")["segments"][0]["values"]) == 4


def test_totals_are_estimates_times_reports(site: Site) -> None:
    site.settle(site.batch("dark_mode", [True] * 300))
    (segment,) = site.json("/v1/metrics/dark_mode/estimate")["segments"]
    for entry in segment["values"]:
        for total, share in (("total", "estimate"), ("total_low", "low"), ("total_high", "high")):
            assert entry[total] == pytest.approx(300 * entry[share])


def test_a_long_range_is_summed_as_it_is_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page at a time, never all of them; the sum is that of reading all at once."""
    for size in (600, 610, 620, 630, 640):
        site.settle(site.batch("theme", ["light"] * size, seed=size))
    before = site.get("/v1/metrics/theme/estimate")
    pages: list[int] = []
    page = site.service.storage.page

    def counting(metric: bytes | None, after: tuple[int, bytes] | None, limit: int) -> list[Any]:
        found = page(metric, after, limit)
        pages.append(len(found))
        return found

    monkeypatch.setattr("hubbub_aggregator.analysis.read_releases._AT_ONCE", 100)
    monkeypatch.setattr(site.service.storage, "page", counting)
    assert site.get("/v1/metrics/theme/estimate").content == before.content
    assert before.json()["segments"][0]["reports"] == 3_100
    assert max(pages) <= 2
    assert sum(pages) == 5


def test_a_release_record_says_all_that_the_release_table_asks_for(site: Site) -> None:
    verdict = site.settle(site.batch("dark_mode", [True] * 300))
    record = site.json(f"/v1/releases/{verdict['id']}")
    assert record["scope"] == {"collection": "photo-app", "type": "boolean", "reduce": "first"}
    assert (record["period"]["from"], record["period"]["to"]) == ("2027-01-15", "2027-01-16")
    assert record["adjacency"] == "replacement"
    assert record["honest_fraction"] == "0.9"
    assert (record["reports"], record["valid"], record["honest_reports"]) == (300, 300, 270)
    assert record["mechanism"]["parameters"] == site.metric("dark_mode").mechanism.parameters()
    assert {"unit", "local_epsilon", "epsilon", "delta", "method", "software"} <= {k for k, v in record.items() if v}


def test_a_storage_that_fails_is_no_fault_of_the_analyst(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.settle(site.batch("dark_mode", [True] * 300))

    def failing(*_asked: object) -> list[Any]:
        raise StorageError("the disk is gone")

    monkeypatch.setattr(site.service.storage, "page", failing)
    for path in ("/v1/metrics/dark_mode/estimate", "/v1/releases", "/v1/privacy"):
        answer = site.get(path)
        problem(answer, "overloaded")
        assert answer.headers["retry-after"]
        assert "disk" not in answer.text


def test_a_range_sums_its_periods_and_composes_their_guarantees(site: Site) -> None:
    sizes = [600, 700]
    for day, size in enumerate(sizes):
        site.clock.now = START + day * DAY + 3600
        site.service.tick()
        assert site.settle(site.batch("theme", ["light"] * size))["state"] == "accepted"

    whole = site.json("/v1/metrics/theme/estimate")
    (both,) = whole["segments"]
    assert both["reports"] == 1_300
    assert (both["periods"]["from"], both["periods"]["to"], both["periods"]["released"]) == (
        "2027-01-15",
        "2027-01-17",
        2,
    )
    mechanism = site.metric("theme").mechanism
    together = compose([(mechanism, size * 9 // 10, 1) for size in sizes], 2e-6)
    assert both["privacy"]["epsilon"] == together.epsilon
    assert both["privacy"]["delta"] == pytest.approx(2e-6, rel=1e-12)
    assert both["privacy"]["if_collusion"]["epsilon"] == pytest.approx(4.0)
    assert both["privacy"]["local_epsilon"] >= 2 * mechanism.realised_epsilon
    assert both["privacy"]["honest_reports"] == 540
    assert [period["epsilon"] for period in both["privacy"]["per_period"]] == [
        guarantee(mechanism, size * 9 // 10, 1e-6).epsilon for size in sizes
    ]
    assert whole["privacy"] == both["privacy"]

    one = site.json("/v1/metrics/theme/estimate?from=2027-01-16&to=2027-01-17")["segments"][0]
    assert one["reports"] == 700
    assert len(one["privacy"]["per_period"]) == 1


def release(mechanism: Mechanism[Any], period: int, reports: int, epsilon: float = 0.4, name: str = "m") -> Released:
    record = {
        "metric_id": name,
        "local_epsilon": mechanism.realised_epsilon,
        "epsilon": epsilon,
        "delta": 1e-8,
        "honest_reports": reports,
        "method": "blanket",
    }
    return Released(mechanism, period, str(period), record)


def test_many_periods_are_composed_quickly_and_never_below_the_certified_value(site: Site) -> None:
    mechanism = site.metric("theme").mechanism
    sizes = [1_000 + 37 * number for number in range(30)]
    releases = [release(mechanism, number, size) for number, size in enumerate(sizes)]
    found = privacy(releases, single_operator=False)
    assert found.epsilon < 30 * 0.4
    assert found.method == "composed: loss-distribution"
    # all batches as large as the largest would be the best case
    assert found.epsilon > compose([(mechanism, max(sizes), 30)], 3e-7).epsilon
    assert math.isclose(found.delta, 3e-7)


def test_of_batches_with_one_epsilon_the_smallest_counts_whatever_their_order() -> None:
    """Two parts of a period are both at the local epsilon; composed over periods only the smaller one bounds it."""
    mechanism = BinaryRandomizedResponse.calibrate(5, Categories(2))
    local = mechanism.realised_epsilon
    answers = [
        privacy([release(mechanism, p, size, local) for p in range(6) for size in sizes], single_operator=False)
        for sizes in ([40, 160], [160, 40])
    ]
    assert answers[0] == answers[1]
    assert answers[0].epsilon >= compose([(mechanism, 40, 6)], 6e-8).epsilon
    assert [period.honest_reports for period in answers[0].per_period] == [40] * 6


def test_the_unit_counts_periods_not_releases(site: Site) -> None:
    mechanism = site.metric("theme").mechanism
    releases = [release(mechanism, period, 500, name=name) for period, name in [(1, "old"), (1, "new"), (2, "new")]]
    assert privacy(releases, single_operator=False).unit == "one device's reports to this metric in these 2 periods"
    assert privacy(releases[:2], single_operator=False).unit == "one device's reports to this metric in this period"


def test_a_batch_that_was_cut_counts_as_one_period_at_its_worst(site: Site) -> None:
    site.settle(site.batch("dark_mode", [True] * 200))
    site.settle(site.batch("dark_mode", [True] * 300))
    (segment,) = site.json("/v1/metrics/dark_mode/estimate")["segments"]
    assert segment["reports"] == 500
    assert segment["privacy"]["honest_reports"] == 180
    assert segment["privacy"]["if_collusion"]["epsilon"] == 1.0
    assert segment["privacy"]["epsilon"] == guarantee(site.metric("dark_mode").mechanism, 180, 1e-6).epsilon


def test_an_edited_metric_is_shown_as_two_segments_and_never_merged(site: Site) -> None:
    site.settle(site.batch("theme", ["light"] * 600))
    edited = CODEBOOK.replace("epsilon = 2.0", "epsilon = 1.9")
    site.reopen(edited)
    site.clock.now += DAY
    site.service.tick()
    site.settle(site.batch("theme", ["light"] * 700))

    answer = site.json("/v1/metrics/theme/estimate")
    old, new = answer["segments"]
    assert (old["reports"], new["reports"]) == (600, 700)
    assert old["metric_id"] != new["metric_id"]
    assert (old["periods"]["from"], new["periods"]["from"]) == ("2027-01-15", "2027-01-16")
    assert answer["privacy"]["if_collusion"]["epsilon"] == pytest.approx(3.9)
    listed = {metric["name"]: metric for metric in site.json("/v1/metrics")["metrics"]}
    assert [version["released_periods"] for version in listed["theme"]["versions"]] == [1, 1]
    assert listed["theme"]["in_force"]


def test_an_answer_is_complete_only_when_nothing_more_can_come(site: Site) -> None:
    path = "/v1/metrics/dark_mode/estimate"
    part, rest, last = (site.batch("dark_mode", [True] * 200) for _ in range(3))  # a crowd that was cut
    site.settle(part)
    site.clock.now = START + 3 * DAY
    assert not site.json(path)["complete"]
    site.settle(rest)
    site.clock.now = START + 9 * DAY
    assert not site.json(path)["complete"]  # what comes late is taken until that is sure
    site.clock.now += WAIT - 1
    assert site.put(last).status_code == 202
    site.clock.now += 1
    assert not site.json(path)["complete"]  # one still waits
    site.work()
    found = site.json(path)
    assert (found["complete"], found["segments"][0]["reports"]) == (True, 600)
    problem(site.put(part), "batch-too-late")
    for end in ("2027-01-17", "9000-01-01"):
        assert not site.json(f"{path}?from=2027-01-15&to={end}")["complete"]


def test_where_one_party_runs_both_services_every_answer_says_so(tmp_path: Path, pool: Pool) -> None:
    site = Site.open(tmp_path, pool, single_operator=True)
    site.settle(site.batch("dark_mode", [True] * 200))
    assert "different parties" in site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["privacy"]["note"]
    site.close()


def test_releases_come_in_pages(site: Site) -> None:
    for size in (200, 210, 220):
        site.settle(site.batch("dark_mode", [True] * size))
    site.settle(site.batch("startup_ms", [1.0] * 200))
    seen: list[str] = []
    path = "/v1/releases?limit=3"
    while path:
        page = site.json(path)
        seen += [record["id"] for record in page["releases"]]
        path = f"/v1/releases?limit=3&after={page['next']}" if page["next"] else ""
    assert len(seen) == len(set(seen)) == 4
    assert len(site.json("/v1/releases?metric=dark_mode")["releases"]) == 3


def test_a_long_page_of_records_is_read_a_few_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record comes with its tally, which may have half a megabyte; a page has up to a thousand."""
    for size in (200, 210, 220, 230, 240):
        site.settle(site.batch("dark_mode", [True] * size))
    paths = [f"/v1/releases?{asked}" for asked in ("limit=1000", "limit=3", "limit=4", "limit=5", "metric=dark_mode")]
    before = [site.get(path).content for path in paths]
    most: list[int] = []
    page = site.service.storage.page

    def noting(metric: bytes | None, after: tuple[int, bytes] | None, limit: int) -> list[Any]:
        most.append(limit)
        return page(metric, after, limit)

    monkeypatch.setattr("hubbub_aggregator.analysis.read_releases._RECORDS_AT_ONCE", 2)
    monkeypatch.setattr(site.service.storage, "page", noting)
    assert [site.get(path).content for path in paths] == before
    assert max(most) == 2


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/metrics/dark_mode/estimate", "nothing-released"),
        ("/v1/metrics/dark_mode/estimate?from=2027-01-15&to=2027-01-16", "nothing-released"),
        ("/v1/metrics/dark_mod/estimate", "not-found"),
        ("/v1/metrics/%00%ff/estimate", "not-found"),
        ("/v1/metrics/dark_mode/estimate?confidence=1", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?confidence=nan", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?confidence=x", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?postprocess=magic", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?population=all", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?from=2027-01-15&to=2027-01-15", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?from=yesterday&to=2027-01-15", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?from=2027-01-15T01:00&to=2027-01-16", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?top=0", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?top=x", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?top=3&simultaneous=false", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?simultaneous=perhaps", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?form=2027-01-15", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?confidence=0.9&confidence=0.8", "invalid-query"),
        ("/v1/metrics/dark_mode/estimate?format=xml", "invalid-query"),
        ("/v1/metrics/" + "x" * 1_000 + "/estimate", "invalid-query"),
        ("/v1/metrics/dark_mode/compare", "invalid-query"),
        ("/v1/metrics/dark_mod/series", "not-found"),
        ("/v1/privacy?periods=0", "invalid-query"),
        ("/v1/privacy?nonsense", "invalid-query"),
        ("/v1/metrics?nonsense=1", "invalid-query"),
        ("/v1/releases?limit=0", "invalid-query"),
        ("/v1/releases?after=1", "invalid-query"),
        ("/v1/releases?after=4294967296-" + "0" * 32, "invalid-query"),  # beyond 32 bits: no storage holds it
        ("/v1/releases?after=4294967295-" + "f" * 32, ""),
        ("/v1/releases/00", "not-found"),
        ("/v1/releases/" + "0" * 32, "not-found"),
        ("/v1/releases?metric=none", "not-found"),
        ("/v1/nowhere", "not-found"),
    ],
)
def test_every_error_is_a_problem_document(silent: Site, path: str, name: str) -> None:
    answer = silent.get(path)
    if name:
        problem(answer, name)
    else:
        assert answer.status_code == 200
    problem(silent.call("DELETE", path.partition("?")[0]), "not-found" if "nowhere" in path else "method-not-allowed")


ODD = st.one_of(
    st.text(max_size=20),
    st.datetimes().map(str),
    st.dates().map(str),
    st.sampled_from(["0001-01-01T00:00+14:00", "9999-12-31", "2027-01-15", "2027-01-16", "9000-01-01"]),
)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=ODD,
    end=ODD,
    confidence=st.one_of(st.floats().map(str), st.sampled_from(["0.01", "0.999999999"]), st.text(max_size=5)),
    simultaneous=st.booleans(),
    population=st.sampled_from(["reports", "superpopulation"]),
)
def test_no_query_is_answered_with_a_5xx(asked: Site, start: str, end: str, **options: Any) -> None:
    for name in ("dark_mode", "theme", "startup_ms"):
        for span in ({}, {"from": start}, {"to": end}, {"from": start, "to": end}):
            answer = asked.get(f"/v1/metrics/{name}/estimate", params={**options, **span})
            assert answer.status_code in (200, 404, 422), answer.text


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Site]:
    """A site where nothing was ever released; no test here changes it."""
    site = Site.open(tmp_path_factory.mktemp("silent"), pool)
    yield site
    site.close()


@pytest.fixture
def asked(site: Site) -> Site:
    """A site where every kind of metric has a release."""
    site.settle(site.batch("dark_mode", [True] * 200))
    site.settle(site.batch("theme", ["light"] * 600))
    site.settle(site.batch("startup_ms", [1.0] * 200))
    return site


def test_a_misspelt_metric_gets_a_hint(site: Site) -> None:
    assert "did you mean 'dark_mode'?" in site.get("/v1/metrics/dark_mod/estimate").json()["detail"]


def test_analysts_show_a_token_where_one_is_set_and_devices_never_do(tmp_path: Path, pool: Pool) -> None:
    site = Site.open(tmp_path, pool, analyst_token=ANALYST)
    basic = base64.b64encode(f"anyone:{ANALYST}".encode()).decode()
    for path in ("/v1/metrics", "/v1/releases", "/v1/status", "/v1/metrics/dark_mode/estimate", "/v1/releases/00"):
        problem(site.get(path), "unauthorized")
        problem(site.get(path, headers={"Authorization": "Basic !!!"}), "unauthorized")
        for allowed in (f"Bearer {ANALYST}", f"Basic {basic}"):
            assert site.get(path, headers={"Authorization": allowed}).status_code in (200, 404)
    for path in ("/v1/bundle", "/healthz", "/readyz", "/openapi.json"):
        assert site.get(path).status_code == 200
    site.close()


def test_the_openapi_document_describes_the_answers(site: Site) -> None:
    document = site.json("/openapi.json")
    assert {route.path for route in router.routes if hasattr(route, "path")} <= set(document["paths"])
    schema = document["components"]["schemas"]["Privacy"]["properties"]
    assert {
        "unit",
        "local_epsilon",
        "epsilon",
        "delta",
        "honest_reports",
        "method",
        "per_period",
        "if_collusion",
    } <= set(schema)


def test_status_tells_keys_codebooks_and_counts(site: Site) -> None:
    status = site.json("/v1/status")
    assert [key["state"] for key in status["keys"]] == ["active", "pending", "pending"]
    assert [len(one["id"]) for one in status["codebooks"]] == [32]
    assert status["trust_anchor"] == site.service.anchor
    assert site.get("/readyz").json() == {"ok": True}


def test_importing_the_app_loads_neither_accounting_nor_slow_libraries() -> None:
    code = "import hubbub_aggregator.main, sys, json; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(run.stdout))
    assert not {"scipy", "scipy.stats", "dp_accounting", "hubbub.accounting", "altair", "numpy"} & loaded


def test_metrics_come_in_the_order_in_which_the_codebook_lists_them(tmp_path: Path, pool: Pool) -> None:
    site = Site.open(tmp_path, pool)
    listed = [metric["name"] for metric in site.json("/v1/metrics")["metrics"]]
    assert listed == [metric.name for metric in site.service.codebooks.newest.in_file_order]
    assert listed != sorted(listed)
    site.settle(site.batch("theme", ["light"] * 600))
    site.settle(site.batch("dark_mode", [True] * 200))
    assert [entry["name"] for entry in site.json("/v1/privacy")["per_metric"]] == [
        name for name in listed if name in {"theme", "dark_mode"}
    ]
    site.close()
