"""The series of a metric and the ledger: every period is accounted for, and no spend is left out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Any

import pytest

from hubbub.accounting import compose
from hubbub_aggregator.analysis import series as courses
from hubbub_aggregator.analysis.answer_guarantee import Released, _composed
from hubbub_aggregator.analysis.ledger import ledger
from hubbub_aggregator.analysis.precompute_guarantees import warm, warming
from hubbub_aggregator.intake.open_reports import Pool
from tests.aggregator.api.test_batches import problem
from tests.aggregator.world import CODEBOOK, DAY, START, WAIT, Site

SERIES = "/v1/metrics/theme/series"


def report(site: Site, day: int, light: int = 300, count: int = 600, name: str = "theme") -> None:
    site.clock.now = START + day * DAY + 3600
    site.service.tick()
    values: list[Any] = ["light"] * light + ["dark"] * (count - light)
    if name == "dark_mode":
        values = [True] * count
    assert site.settle(site.batch(name, values, seed=day))["state"] == "accepted"


def test_each_period_has_its_own_estimate_and_all_share_one_composed_guarantee(site: Site) -> None:
    for day, light in enumerate((100, 300, 500)):
        report(site, day, light)
    answer = site.json(SERIES)
    assert [point["period"] for point in answer["points"]] == ["2027-01-15", "2027-01-16", "2027-01-17"]
    for day, point in enumerate(answer["points"]):
        alone = site.json(f"/v1/metrics/theme/estimate?from=2027-01-{15 + day}&to=2027-01-{16 + day}")["segments"][0]
        assert point["values"] == alone["values"]
        assert point["interval"] == alone["interval"]
        assert point["privacy"] == alone["privacy"]["per_period"][0]
    assert answer["privacy"] == site.json("/v1/metrics/theme/estimate")["privacy"]
    assert answer["privacy"]["if_collusion"]["epsilon"] == pytest.approx(6.0)
    assert answer["segments"][0]["manipulation"]["per_thousand_fakes"] > 0
    assert site.json(f"{SERIES}?composed=false") == answer | {"privacy": None}


def test_gaps_are_shown_as_what_they_are(site: Site) -> None:
    report(site, 0)
    report(site, 3)
    site.clock.now = START + 11 * DAY + WAIT
    answer = site.json(f"{SERIES}?from=2027-01-15")
    assert {point["period"]: (point["state"], point["complete"]) for point in answer["points"]} == {
        "2027-01-15": ("released", True),
        "2027-01-16": ("not-released", True),
        "2027-01-17": ("not-released", True),  # its horizon has just passed for sure
        "2027-01-18": ("released", False),
        **{f"2027-01-{day}": ("open", False) for day in range(19, 27)},
    }
    for point in answer["points"]:
        assert bool(point["values"]) == (point["state"] == "released") == (point["privacy"] is not None)
    assert answer["periods"]["released"] == 2


def test_a_period_of_which_a_batch_still_waits_is_open_also_past_its_horizon(site: Site) -> None:
    report(site, 0)
    site.clock.now = START + 10 * DAY - 1
    site.service.tick()
    assert site.put(site.batch("theme", ["light"] * 600)).status_code == 202
    site.clock.now = START + 30 * DAY
    last = site.json(f"{SERIES}?from=2027-01-24&to=2027-01-25")["points"]
    assert [point["state"] for point in last] == ["open"]
    site.work()
    assert site.json(f"{SERIES}?from=2027-01-24&to=2027-01-25")["points"][0]["state"] == "released"


def test_a_discard_is_told_from_silence(site: Site) -> None:
    report(site, 0)
    site.clock.now = START + DAY + 3600
    site.service.tick()
    header = site.header("theme", 0, size=0, kind="discard")
    assert site.put(header.encode()).status_code == 200
    site.clock.now = START + 20 * DAY
    states = [point["state"] for point in site.json(f"{SERIES}?from=2027-01-15&to=2027-01-18")["points"]]
    assert states == ["released", "discarded", "not-released"]


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Site]:
    """A site where nothing was ever released; no test here changes it."""
    site = Site.open(tmp_path_factory.mktemp("silent"), pool)
    yield site
    site.close()


def test_nothing_released_is_a_series_of_gaps_without_an_estimate_to_guard(silent: Site) -> None:
    answer = silent.json(SERIES)
    assert [point["state"] for point in answer["points"]] == ["open"]
    assert answer["privacy"] is None
    assert answer["segments"] == []


def test_the_ids_of_an_edited_metric_stand_side_by_side(site: Site) -> None:
    report(site, 0)
    site.reopen(CODEBOOK.replace("epsilon = 2.0", "epsilon = 1.9"))
    report(site, 1)
    answer = site.json(SERIES)
    assert len({point["metric_id"] for point in answer["points"]}) == 2
    assert [segment["released"] for segment in answer["segments"]] == [1, 1]
    assert answer["privacy"]["if_collusion"]["epsilon"] == pytest.approx(3.9)


def test_top_shows_the_same_values_in_every_period_with_intervals_that_hold_for_all(site: Site) -> None:
    report(site, 0, light=100)
    report(site, 1, light=580)
    points = site.json(f"{SERIES}?top=1")["points"]
    assert [[row["value"] for row in point["values"]] for point in points] == [["light"], ["light"]]
    whole = site.json(f"{SERIES}?simultaneous=true")["points"]
    assert points[0]["values"][0] == whole[0]["values"][0]
    assert "all 4 together" in points[0]["interval"]["selection"]


@pytest.mark.parametrize(
    ("query", "name", "said"),
    [
        ("from=2027-01-16&to=2027-01-15", "invalid-query", "end after"),
        ("from=2028-01-01", "nothing-released", "nothing was collected"),
        ("to=2020-01-01", "nothing-released", "nothing was collected"),
        ("fro=2027-01-15", "invalid-query", "did you mean 'from'?"),
        ("from=2027-01-15&from=2027-01-16", "invalid-query", "give it once"),
        ("top=0", "invalid-query", "top"),
        ("top=1&simultaneous=false", "invalid-query", "leave `simultaneous` out"),
    ],
)
def test_a_bad_question_is_told_what_to_do(silent: Site, query: str, name: str, said: str) -> None:
    answer = silent.get(f"{SERIES}?{query}")
    problem(answer, name)
    assert said in answer.json()["detail"]


def test_too_long_a_series_is_cut_where_the_refusal_says(site: Site) -> None:
    site.clock.now = START + 3_000 * DAY
    problem(refused := site.get(f"{SERIES}?from=2027-01-15"), "invalid-query")
    end = refused.json()["detail"].partition("to=")[2][:10]
    assert len(site.json(f"{SERIES}?from=2027-01-15&to={end}")["points"]) == 1_000
    assert len(site.json(SERIES)["points"]) == 400


# -- the ledger ---------------------------------------------------------------------------------


def releases(site: Site, name: str, sizes: list[int], first: int = 0) -> list[Released]:
    mechanism = site.metric(name).mechanism
    return [
        Released(
            mechanism,
            first + day,
            f"day {first + day}",
            {
                "metric": name,
                "metric_id": site.metric(name).id.hex(),
                "epsilon": 0.4,
                "delta": 1e-7,
                "honest_reports": size,
                "local_epsilon": mechanism.realised_epsilon,
                "valid": size,
                "released": True,
            },
        )
        for day, size in enumerate(sizes)
    ]


@pytest.mark.full  # nine sizes to compose; every day test_compose.py does with two
def test_the_ledger_composes_everything_and_understates_nothing(site: Site) -> None:
    """Nine sizes are counted as eight at most, each as no larger than it was: here the second as the first."""
    sizes = [1_024, 1_039, *(1_040 + 16 * day for day in range(7))]
    known = releases(site, "theme", sizes) + releases(site, "theme", [5_000], first=3)
    mechanism, calendar = site.metric("theme").mechanism, site.metric("theme").calendar
    found = ledger("photo-app", calendar, known, newest=3, single_operator=False)
    assert found.total is not None
    exact = compose([(mechanism, size, 1) for size in sizes], 9e-7)
    assert exact.epsilon < found.total.epsilon < 1.01 * exact.epsilon
    assert found.total.releases == 9  # of two batches of a period a device is in one
    assert math.isclose(found.total.delta, 9e-7)
    assert found.total.if_collusion.epsilon >= 9 * mechanism.realised_epsilon
    assert [entry.name for entry in found.per_period] == ["day 6", "day 7", "day 8"]
    assert all(entry.epsilon == 0.4 for entry in found.per_period)
    assert len(found.over_time) == 8
    assert found.over_time[-1].epsilon == found.total.epsilon
    spent = [entry.epsilon for entry in found.over_time]
    assert spent == sorted(spent)
    assert [entry.name for entry in found.per_metric] == ["theme"]


def test_a_device_period_over_several_metrics_is_composed(site: Site) -> None:
    report(site, 0)
    report(site, 0, name="dark_mode", count=300)
    found = site.json("/v1/privacy")
    (period,) = found["per_period"]
    both = compose(
        [(site.metric("theme").mechanism, 540, 1), (site.metric("dark_mode").mechanism, 270, 1)], period["delta"]
    )
    assert period["epsilon"] == both.epsilon == found["total"]["epsilon"]
    assert period["epsilon"] > max(entry["epsilon"] for entry in found["per_metric"])
    assert period["if_collusion"]["epsilon"] == pytest.approx(3.0)
    assert (period["releases"], period["honest_reports"]) == (2, 270)
    assert {entry["name"] for entry in found["per_metric"]} == {"theme", "dark_mode"}


def test_what_retention_deletes_is_still_counted_and_its_period_says_so(site: Site) -> None:
    for day in range(2):
        report(site, day)
    before = site.json("/v1/privacy")
    assert site.service.storage.expire(site.period) == 1
    assert site.json("/v1/privacy") == before
    assert before["total"]["releases"] == 2
    assert [point["state"] for point in site.json(SERIES)["points"]] == ["deleted", "released"]
    assert site.json("/v1/metrics/theme/estimate")["segments"][0]["reports"] == 600


def test_a_release_by_a_codebook_that_another_process_published_is_counted(site: Site) -> None:
    """It would be understated if left out, and was answered with a 500."""
    report(site, 0)
    known = site.service.codebooks._versions
    site.reopen(CODEBOOK.replace("epsilon = 2.0", "epsilon = 1.9"))
    report(site, 1)
    site.service.codebooks._versions = known
    assert site.json("/v1/privacy")["total"]["releases"] == 2


def test_top_is_chosen_from_what_the_answer_rests_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that comes while a series is read is in none of it: the tag was made without it."""
    report(site, 0, light=400)
    before = site.get(f"{SERIES}?top=1")
    body = site.batch("theme", ["dark"] * 3_000, seed=3)
    made = courses.series

    def late(course: courses.Course, *asked: Any, **more: Any) -> Any:
        site.work()
        assert len(site.service.storage.releases()) == 2
        return made(course, *asked, **more)

    assert site.put(body).status_code == 202
    monkeypatch.setattr(courses, "series", late)
    again = site.get(f"{SERIES}?top=1")
    assert (again.headers["etag"], again.content) == (before.headers["etag"], before.content)


def test_an_empty_ledger_says_so(site: Site) -> None:
    found = site.json("/v1/privacy")
    assert (found["total"], found["per_metric"], found["over_time"]) == (None, [], [])
    empty = site.get("/v1/privacy?format=csv").text
    report(site, 0)
    assert site.get("/v1/privacy?format=csv").text.startswith(empty)  # the same columns


# -- composing ahead ----------------------------------------------------------------------------


def test_the_first_answer_over_a_range_finds_its_guarantee_composed(site: Site) -> None:
    for day in range(2):
        report(site, day)

    async def until_composed() -> None:
        async with warming(site.service):
            while not _composed.cache_info().misses:
                await asyncio.sleep(0.01)  # ends with the run's own time limit if nothing is composed

    _composed.cache_clear()
    asyncio.run(until_composed())
    warm(site.service, set(site.service.storage.spans()))
    before = _composed.cache_info().misses
    assert before == 1
    for path in ("/v1/metrics/theme/estimate", SERIES):
        assert site.json(path)["privacy"]["method"].startswith("composed")
    assert _composed.cache_info().misses == before
