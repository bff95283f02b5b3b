"""The browser SDK in a real Chromium: one draw per metric and period, whatever tab, crash and clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.sdk_site import BEGAN, Site, built
from tests.shuffler.process import AppServer
from tests.support.node import NO_PACKAGES, packages

pytestmark = pytest.mark.skipif(not packages(), reason=NO_PACKAGES)

_MOVES = 25
_TAB = "<!doctype html><title>A tab</title><script src=/page.js></script>"
_DRIVER = "<!doctype html><title>Schedules</title><body><script src=/schedule.js></script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(built(tmp_path_factory.mktemp("sdk")), {"/tab": _TAB, "/": _DRIVER})


@pytest.fixture(scope="module")
def driver(site: Site, browser: Browser) -> Iterator[tuple[Page, str]]:
    with AppServer(site) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        yield page, address
        context.close()


def lived(
    driver: tuple[Page, str], site: Site, name: str, call: str, number: int, *more: int
) -> tuple[dict[str, Any], Counter[tuple[str, str]], int]:
    """What a device did, the number of different reports for each metric and day, and of copies."""
    page, address = driver
    shuffler = site.shuffler(name)
    did = page.evaluate(
        f"(given) => hubbubSchedule.{call}(...given)", [number, f"{address}/{name}", shuffler.trust, BEGAN, *more]
    )
    sent = shuffler.reports_sent()
    assert len({report.nonce for report in sent}) == len(sent)
    copies = len(shuffler.reports) - len(sent)
    assert len(set(shuffler.reports)) == len(sent), "a report was sealed twice"
    return did, Counter((report.metric, report.period) for report in sent), copies


def _day(period: str) -> int:
    return (date.fromisoformat(period) - date(1970, 1, 1)).days


def check(driver: tuple[Page, str], site: Site, seed: int) -> tuple[int, int, int]:
    did, sent, copies = lived(driver, site, f"schedule{seed}", "live", seed, _MOVES)
    assert did["done"], did
    assert set(sent.values()) <= {1}, f"schedule {seed}: a metric was drawn twice in a day"
    drawn = {metric["name"]: metric["reports"] for metric in did["ledger"]["metrics"]}
    for metric in ("clicks", "wide", "theme"):
        count = sum(number for (name, _), number in sent.items() if name == metric)
        assert count == drawn.get(metric, 0), f"schedule {seed}: {metric} was drawn and is lost"
    steady = {period for (name, period) in sent if name == "wide"}
    assert len(steady) >= 1
    # What is always reported has each of the days, the others have those on which something was recorded.
    assert {period for (name, period) in sent if name == "clicks"} == steady
    days = {
        outcome: {day for name, day, what in did["outcomes"] if (name, what) == ("theme", outcome)}
        for outcome in ("recorded", "waiting")
    }
    reported = {_day(period) for (name, period) in sent if name == "theme"}
    # A note outlives its tab. Where the clock was set back, or a tab crashed before it had written down that there is
    # consent, that may be known only from a later day on.
    sure = {day for day in days["recorded"] if day >= BEGAN // 86_400}
    assert sure <= reported, f"schedule {seed}"
    assert reported <= days["recorded"] | days["waiting"], f"schedule {seed}"
    return did["crashes"], did["steps"], copies


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.full)])
def test_a_crash_between_any_two_steps_neither_loses_nor_repeats_a_draw(
    driver: tuple[Page, str], site: Site, every: int
) -> None:
    """Steps: a transaction begins, is about to be committed, or has ended; notes are forgotten; a request or an answer.
    The everyday run crashes after each eleventh."""
    after, copies = 0, 0
    while True:
        did, sent, copied = lived(driver, site, f"each{every}-{after}", "crashAfter", after)
        copies += copied
        assert did["done"], did
        assert set(sent.values()) <= {1}, f"after {after} steps: a metric was drawn twice in a day"
        drawn = Counter({metric["name"]: metric["reports"] for metric in did["ledger"]["metrics"]})
        assert drawn == Counter(name for name, _ in sent), f"after {after} steps"
        # Consent is known from the first commit on, which two steps come before. From then on each day of what is
        # always reported is there, and whatever waited or was recorded when the tab crashed.
        first = BEGAN // 86_400 + (after < 2)
        noted = {day for name, day, what in did["outcomes"] if name == "theme" and what in ("recorded", "waiting")}
        days = {each: {_day(period) for name, period in sent if name == each} for each in ("clicks", "theme")}
        assert days["clicks"] == set(range(first, BEGAN // 86_400 + 2)), f"after {after} steps"
        assert days["theme"] == {day for day in noted if day >= first}, f"after {after} steps"
        if not did["crashes"]:
            break
        after += every
    print(f"{after // every} crashes, {copies} reports were sent again")  # noqa: T201
    assert after >= 100
    assert copies or every > 1


@pytest.mark.parametrize("schedules", [range(8), pytest.param(range(8, 500), marks=pytest.mark.full)], ids=["8", "500"])
def test_each_metric_is_drawn_once_in_a_period(driver: tuple[Page, str], site: Site, schedules: range) -> None:
    crashes, steps, copies = (
        sum(each) for each in zip(*(check(driver, site, seed) for seed in schedules), strict=True)
    )
    print(f"{len(schedules)} schedules: {crashes} crashes at {steps} steps, {copies} reports were sent again")  # noqa: T201
    assert crashes > len(schedules)
