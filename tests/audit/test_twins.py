"""Twin devices that differ only in what they record: the rule of docs/explanation/what-we-do-not-protect.md, "Taking
part".

Twins share bundles, answers, clock, consent and calls; only what they record differs. Both have the same coins, so any
difference between their requests is a leak, and no alarm is a false one.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.randomness import Randomness
from hubbub.simulation.randomness import InsecureRandomness
from hubbub_audit.replay_history import KeyedCoins, lived
from hubbub_audit.twin_devices_attack import RULE, difference
from hubbub_audit.twin_events import STORIES, History, Record, random_history
from hubbub_client import Client, Outcome
from hubbub_client._development_notices import forget_notices
from hubbub_client.testing import MemoryTransport
from tests.support.patience import wait_for


def test_the_documented_rule_is_the_one_that_is_attacked() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "what-we-do-not-protect.md"
    assert RULE in " ".join(page.read_text("utf-8").split())


@pytest.mark.everyday(5)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_what_once_told_twins_apart_tells_nothing(story: History) -> None:
    assert difference(story) is None


@pytest.mark.everyday(2)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_notices_for_developers_tell_twins_apart_on_stderr_only(
    story: History, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each twin that records also misspells a metric, which is named there."""
    monkeypatch.setattr("hubbub_client._http.transport.is_loopback", lambda _address: True)
    events = [(event, replace(event, metric="crashd") if isinstance(event, Record) else None) for event in story.events]
    mistaken = replace(story, events=tuple(one for both in events for one in both if one is not None))
    forget_notices()
    assert difference(mistaken) is None
    assert "hubbub: no metric is named 'crashd'" in capsys.readouterr().err


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.full
def test_in_every_story_both_twins_are_heard_of(story: History) -> None:
    """Silence would tell nothing either, and prove nothing."""
    for twin in (0, 1):
        seen = lived(story, twin, KeyedCoins(7))
        assert any(request.reports for request in seen)


@pytest.mark.everyday("1", "3")
@pytest.mark.parametrize("seed", range(5))
def test_twins_cannot_be_told_apart_in_some_histories(seed: int) -> None:
    assert difference(random_history(InsecureRandomness(seed))) is None


class _Drawn(Randomness):
    """Choices that hypothesis makes, and takes back to find the shortest history."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def bits(self, count: int) -> int:
        return self._data.draw(st.integers(0, (1 << count) - 1))

    def below(self, bound: int) -> int:
        return self._data.draw(st.integers(0, bound - 1))


@pytest.mark.full
@pytest.mark.timeout(3_600)
@settings(max_examples=3_000)
@given(st.data())
def test_twins_cannot_be_told_apart_in_any_history(data: st.DataObject) -> None:
    history = random_history(_Drawn(data), length=24)
    assert difference(history) is None, history


EVENTS = """
[collection]
name = "events"
period = "1s"
grace = "3s"
device_epsilon = 8
release = { epsilon = 1, delta = 1e-6 }
[metrics.crashed]
type = "boolean"
missing = false
epsilon = 0.01
[metrics.startup_ms]
type = "mean"
bounds = [0, 5000]
epsilon = 0.01
"""


def test_an_app_that_records_only_on_events_is_heard_of_whatever_happens(tmp_path: Path) -> None:
    """Real clock, real threads, nobody flushes. Of each second that all of them lived through there is one report of
    each device, and nothing but `startup_ms` differs."""
    transports = {name: MemoryTransport.serving(EVENTS, time.time) for name in ("crashed", "other", "nothing")}
    clients = {
        name: Client(
            "https://telemetry.example.com",
            trust=transport.trust,
            consent=True,
            state_dir=tmp_path / name,
            transport=transport,
            min_period=None,
        )
        for name, transport in transports.items()
    }
    try:
        outcomes = {clients["crashed"].record("crashed", True), clients["other"].record("startup_ms", 812)}
        assert outcomes == {Outcome.WAITING}  # for the first bundle, which nobody fetches because of them
        heard = {name: _periods(transport, "crashed") for name, transport in transports.items()}

        def enough() -> bool:
            heard.update({name: _periods(transport, "crashed") for name, transport in transports.items()})
            return len(set.intersection(*map(set, heard.values()))) >= 2

        wait_for(enough, step=0.2)
    finally:
        for client in clients.values():
            client.close(0)
    assert all(set(counts.values()) == {1} for counts in heard.values())
    assert {name for name, transport in transports.items() if transport.reports_sent("startup_ms")} <= {"other"}


def _periods(transport: MemoryTransport, metric: str) -> Counter[str]:
    """How many reports of each period arrived, copies counted once."""
    return Counter(report.period for report in transport.reports_sent(metric))


def test_headers_are_in_clear_and_so_must_be_the_same() -> None:
    """What the twins are compared by is what a shuffler reads, and it is not all the same anyway."""
    story = next(story for story in STORIES if story.name == "an edit just before the period ends")
    seen = [report for request in lived(story, 1, KeyedCoins(7)) for report in request.reports]
    assert len({metric for metric, *_ in seen}) >= 3
    assert len({period for _, period, *_ in seen}) >= 3
