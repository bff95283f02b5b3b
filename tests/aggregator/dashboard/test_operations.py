"""The operations page: only what a person has to act on is an alarm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hubbub_aggregator.app import create_app
from tests.aggregator.dashboard.conftest import CODEBOOK, Visited
from tests.aggregator.dashboard.markup import Page
from tests.browser.crowd import Crowd
from tests.browser.sites import DAY, NOW, TODAY, start


def _text(visited: Visited) -> str:
    return " ".join(visited.page("/operations").text.split())


def _kinds(page: Page) -> list[str]:
    return [one.attributes.get("class", "") for one in page.all("li")]


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Visited]:
    """One release nine days ago, and since then nothing."""
    start(tmp_path, CODEBOOK, (TODAY - 9) * DAY + 60.0).close()
    service = start(tmp_path, CODEBOOK)
    Crowd(service.storage, service.codebooks).shares("dark_mode", TODAY - 9, np.array([0.6, 0.4]), 2000)
    yield Visited(create_app(service), service)
    service.close()


def test_an_app_that_nobody_uses_is_not_an_alarm(quiet: Visited) -> None:
    text, page = _text(quiet), quiet.page("/operations")
    assert "Running. Nothing needs to be done." in text
    assert "7 periods have closed since 6 Jan 2027" in text
    assert "If nobody used the app, that is all." in text
    assert "notice notice-bad" not in _kinds(page)


def test_a_crowd_that_is_too_small_is_told_from_silence(quiet: Visited) -> None:
    crowd = Crowd(quiet.service.storage, quiet.service.codebooks, seed=2)
    for period in (TODAY - 4, TODAY - 3):
        crowd.discard("dark_mode", period)
    text = _text(quiet)
    assert "too few of dark_mode" in text
    cells = [one.text for one in quiet.page("/operations").all("td") if "data-label" in one.attributes]
    assert cells[:2] == ["2", "12 Jan 2027"]  # one row for both periods, with the newest
    assert "Nothing needs to be done" in text


def test_mistyped_questions_are_not_an_alarm_and_faults_of_the_service_are_said(quiet: Visited) -> None:
    for path in ("/v1/metrics/dark_mod/estimate", "/v1/metrics/dark_mode/estimate?fron=2027-01-01", "/v1/nothing"):
        assert quiet.get(path).status_code in (404, 422)
    text = _text(quiet)
    assert "Running. Nothing needs to be done." in text
    assert "nothing to worry about" in text
    assert "Requests that this service could not answer" not in text
    quiet.service.refused["overloaded"] += 2
    assert "Requests that this service could not answer. 2 since" in _text(quiet)
    assert "Running. Nothing needs to be done." in _text(quiet)


def test_an_internal_error_is_something_to_look_at(quiet: Visited) -> None:
    assert "Internal errors" not in _text(quiet)
    quiet.service.refused["internal-error"] += 2
    text = _text(quiet)
    assert "Running, but one thing needs someone." in text
    assert "Internal errors. 2 times since this process started" in text
    assert "Look at the log" in text
    assert "Requests that this service could not answer" not in text
    assert _kinds(quiet.page("/operations")).count("notice notice-bad") == 1


def test_a_storage_that_fails_is_an_alarm_with_what_to_do(quiet: Visited) -> None:
    quiet.service.storage_errors += 3
    text = _text(quiet)
    assert "Running, but one thing needs someone." in text
    assert "It failed 3 times" in text
    assert _kinds(quiet.page("/operations")).count("notice notice-bad") == 1


def test_what_to_do_stands_beside_each_refusal(quiet: Visited) -> None:
    Crowd(quiet.service.storage, quiet.service.codebooks, seed=3).refusal(
        "dark_mode", TODAY - 9, "batch-too-late", 2000
    )
    assert "make forward_horizon longer" in _text(quiet)


def test_old_keys_are_folded_away_and_the_newest_come_first(populated: Visited) -> None:
    page = populated.page("/operations")
    keys = [row.text for row in page.all("tr") if re.search(r"active|pending", row.text)]
    assert len(keys) == len(populated.get("/v1/status").json()["keys"])
    assert "17 Jan 2027" in keys[0]
    assert "begins in" in keys[0]
    assert f"{len(keys) - 4} older keys" in page.text


def test_the_next_numbers_are_announced(populated: Visited) -> None:
    assert NOW < TODAY * DAY + DAY
    assert "17 Jan 2027, 00:00 UTC" in _text(populated)  # the end of today, and a day of grace
