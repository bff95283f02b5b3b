"""The browser SDK in a real Chromium: one draw per metric and period, whatever tab, crash and clock."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page

from tests.browser.sdk_site import BEGAN, Site, built
from tests.browser.sdk_tab import DAY, killed, persistent
from tests.shuffler.process import AppServer
from tests.support.node import NO_PACKAGES, packages

pytestmark = pytest.mark.skipif(not packages(), reason=NO_PACKAGES)

_MOVES = 25
_FAR = 8 * DAY
"""Further than the clock of any of these lives gets, and before a period closes, also one of days before the first: a
clock may be set back."""
_TAB = "<!doctype html><title>A tab</title><script src=/page.js></script>"
_DRIVER = "<!doctype html><title>Schedules</title><body><script src=/schedule.js></script>"


class Driver:
    """A browser with a page that lives schedules. Both can be killed at any moment: what they kept is still there."""

    def __init__(self, browser: Browser, site: Site, address: str, profile: Path) -> None:
        self._browser, self._profile = browser, profile
        self.site, self.address = site, address
        self._start()

    def _start(self) -> None:
        self.context: BrowserContext = persistent(self._browser, self._profile)
        self._open()

    def _open(self) -> None:
        self.page: Page = self.context.new_page()
        self.page.goto(self.address)

    def kill_page(self) -> None:
        """End the process of the page and of all its tabs, wherever it is."""
        with self.page.expect_event("crash"), suppress(Error):  # it cannot answer
            self.page.goto("chrome://crash", timeout=5_000)
        self._open()

    def kill_browser(self) -> None:
        killed(self.context, self._profile)
        self._start()


@pytest.fixture(scope="module")
def driver(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    site = Site(built(tmp_path_factory.mktemp("sdk")), {"/tab": _TAB, "/": _DRIVER})
    with AppServer(site) as address:
        driver = Driver(browser, site, address, tmp_path_factory.mktemp("profile"))
        yield driver
        driver.context.close()


def lived(
    driver: Driver, name: str, call: str, number: int, *more: float
) -> tuple[dict[str, Any], Counter[tuple[str, str]], int]:
    """What a device did, the number of different reports for each metric and day, and of copies."""
    shuffler = driver.site.shuffler(name)
    did = driver.page.evaluate(
        f"(given) => hubbubSchedule.{call}(...given)",
        [number, f"{driver.address}/{name}", shuffler.trust, BEGAN, *more],
    )
    sent = shuffler.reports_sent()
    assert len({report.nonce for report in sent}) == len(sent)
    copies = len(shuffler.reports) - len(sent)
    assert len(set(shuffler.reports)) == len(sent), "a report was sealed twice"
    return did, Counter((report.metric, report.period) for report in sent), copies


def cut_short(driver: Driver, name: str, seed: int) -> int:
    """Lives of the device that a kill ends: of the page, or of the browser. How many there were."""
    rng = random.Random(seed)
    lives = rng.choice([0, 0, 1, 1, 2])
    for life in range(lives):
        address, trust = f"{driver.address}/{name}", driver.site.shuffler(name).trust
        driver.page.evaluate(
            "(given) => { hubbubSchedule.live(...given); }", [1000 * seed + life, address, trust, BEGAN, _MOVES]
        )
        time.sleep(rng.uniform(0.02, 0.5))
        if rng.random() < 0.1:
            driver.kill_browser()
        else:
            driver.kill_page()
    return lives


def _day(period: str) -> int:
    return (date.fromisoformat(period) - date(1970, 1, 1)).days


def check(driver: Driver, seed: int) -> tuple[int, int, int, int]:
    name = f"schedule{seed}"
    kills = cut_short(driver, name, seed)
    did, sent, copies = lived(driver, name, "live", seed, _MOVES, BEGAN + _FAR if kills else 0)
    assert did["done"], did
    assert set(sent.values()) <= {1}, f"schedule {seed}: a metric was drawn twice in a day"
    drawn = {metric["name"]: metric["reports"] for metric in did["ledger"]["metrics"]}
    for metric in ("clicks", "wide", "theme"):
        count = sum(number for (name, _), number in sent.items() if name == metric)
        assert count == drawn.get(metric, 0), f"schedule {seed}: {metric} was drawn and is lost: {did}"
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
    sure = {day for day in days["recorded"] if day >= BEGAN // DAY}
    assert sure <= reported, f"schedule {seed}"
    # Nobody knows what was recorded in lives that a kill ended.
    assert kills or reported <= days["recorded"] | days["waiting"], f"schedule {seed}"
    return did["crashes"], kills, did["steps"], copies


@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.full)])
def test_a_crash_between_any_two_steps_neither_loses_nor_repeats_a_draw(driver: Driver, every: int) -> None:
    """Steps: a transaction begins, is about to be committed, or has ended; notes are forgotten; a request or an answer.
    The everyday run crashes after each eleventh."""
    after, copies = 0, 0
    while True:
        did, sent, copied = lived(driver, f"each{every}-{after}", "crashAfter", after)
        copies += copied
        assert did["done"], did
        assert set(sent.values()) <= {1}, f"after {after} steps: a metric was drawn twice in a day"
        drawn = Counter({metric["name"]: metric["reports"] for metric in did["ledger"]["metrics"]})
        assert drawn == Counter(name for name, _ in sent), f"after {after} steps"
        # Consent is known from the first commit on, which two steps come before. From then on each day of what is
        # always reported is there, and whatever waited or was recorded when the tab crashed.
        first = BEGAN // DAY + (after < 2)
        noted = {day for name, day, what in did["outcomes"] if name == "theme" and what in ("recorded", "waiting")}
        days = {each: {_day(period) for name, period in sent if name == each} for each in ("clicks", "theme")}
        assert days["clicks"] == set(range(first, BEGAN // DAY + 2)), f"after {after} steps"
        assert days["theme"] == {day for day in noted if day >= first}, f"after {after} steps"
        if not did["crashes"]:
            break
        after += every
    print(f"{after // every} crashes, {copies} reports were sent again")  # noqa: T201
    assert after >= 100
    assert copies or every > 1


@pytest.mark.parametrize("schedules", [range(6), pytest.param(range(6, 500), marks=pytest.mark.full)], ids=["6", "500"])
def test_each_metric_is_drawn_once_in_a_period(driver: Driver, schedules: range) -> None:
    crashes, kills, steps, copies = (
        sum(each) for each in zip(*(check(driver, seed) for seed in schedules), strict=True)
    )
    print(  # noqa: T201
        f"{len(schedules)} schedules: {crashes} crashes at {steps} steps, {kills} kills, "
        f"{copies} reports were sent again"
    )
    assert crashes > len(schedules)
    assert kills > 0
