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


def lived(driver: tuple[Page, str], site: Site, seed: int) -> tuple[dict[str, Any], Counter[tuple[str, str]], int]:
    """What a schedule did, the number of different reports for each metric and day, and of copies."""
    page, address = driver
    name = f"schedule{seed}"
    shuffler = site.shuffler(name)
    did = page.evaluate(
        "([seed, address, trust, began, moves]) => hubbubSchedule.live(seed, address, trust, began, moves)",
        [seed, f"{address}/{name}", shuffler.trust, BEGAN, _MOVES],
    )
    sent = shuffler.reports_sent()
    assert len({report.nonce for report in sent}) == len(sent)
    copies = len(shuffler.reports) - len(sent)
    assert len(set(shuffler.reports)) == len(sent), "a report was sealed twice"
    return did, Counter((report.metric, report.period) for report in sent), copies


def _day(period: str) -> int:
    return (date.fromisoformat(period) - date(1970, 1, 1)).days


def check(driver: tuple[Page, str], site: Site, seed: int) -> tuple[int, int, int]:
    did, sent, copies = lived(driver, site, seed)
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
    # A note outlives its tab; what waits in memory may be lost with it. Where the clock was set back, consent may have
    # come later than the day of a note.
    sure = {day for day in days["recorded"] if day >= BEGAN // 86_400}
    assert sure <= reported, f"schedule {seed}"
    assert reported <= days["recorded"] | days["waiting"], f"schedule {seed}"
    return did["crashes"], did["steps"], copies


@pytest.mark.parametrize("schedules", [range(8), pytest.param(range(8, 500), marks=pytest.mark.full)], ids=["8", "500"])
def test_each_metric_is_drawn_once_in_a_period(driver: tuple[Page, str], site: Site, schedules: range) -> None:
    crashes, steps, copies = (
        sum(each) for each in zip(*(check(driver, site, seed) for seed in schedules), strict=True)
    )
    print(f"{len(schedules)} schedules: {crashes} crashes at {steps} steps, {copies} reports were sent again")  # noqa: T201
    assert crashes > len(schedules)
