"""The example game: a newcomer who copies it gets six numbers, and what its pages say to type works."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from examples.game import app, crowd
from hubbub.codebook import Codebook
from hubbub_client.testing import Device, FakeClock, Fleet, MemoryTransport
from tests.docs.blocks import ROOT, SHELL, markdown
from tests.docs.terminal import terminal

GAME = ROOT / "examples" / "game"
TOML = (GAME / "metrics.toml").read_text()
METRICS = {metric.name: metric for metric in Codebook.from_toml(TOML).metrics}
TRIAL: dict[str, object] = {"min_period": None, "max_epsilon": None}
"""What app.py passes for periods of ten seconds."""


def test_it_has_six_metrics_and_one_of_them_is_a_count_with_a_cap() -> None:
    assert len(METRICS) == 6
    levels = METRICS["levels"]
    assert (levels.type, levels.reduce, levels.missing) == ("mean", "sum", 0)
    assert all(metric.missing is not None for metric in METRICS.values()), "taking part would say something"


def test_an_evening_becomes_one_report_for_each_metric(tmp_path: Path) -> None:
    with Device(TOML, tmp_path / "state", **TRIAL) as device:
        device.next_period()  # the codebook has come, and a period has just begun
        telemetry = app.Telemetry(device.client, tmp_path)
        telemetry.started(datetime(2027, 1, 8, 20, tzinfo=UTC))
        app.play(telemetry)
        telemetry.ended()
        shown = str(device.client.preview())
        assert "levels" in shown
        assert "sum of 3 is 3" in shown
        before = len(device.reports_sent())
        device.next_period()
        assert {report.metric for report in device.reports_sent()[before:]} == METRICS.keys()
        assert len(device.reports_sent()) - before == 6


def test_a_crash_and_a_return_are_noticed_at_the_next_start(tmp_path: Path) -> None:
    with Device(TOML, tmp_path / "state", **TRIAL) as device:
        first = datetime(2027, 1, 1, 20, tzinfo=UTC)
        app.Telemetry(device.client, tmp_path).started(first)  # and it never ends
        app.Telemetry(device.client, tmp_path).started(first + timedelta(days=7))
        later = app.Telemetry(device.client, tmp_path)
        later.ended()
        app.Telemetry(device.client, tmp_path).started(first + timedelta(days=8))
    said = {name: [one.value for one in device.recorded if one.metric == name] for name in METRICS}
    assert said["crashed"] == [False, True, False]
    assert said["active_a_week_ago"] == [False, True, False]


def test_the_crowd_reports_every_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Codebook.from_toml(TOML)
    clock = FakeClock(period=str(book.collection.calendar))
    transport = MemoryTransport.serving(book, clock)
    monkeypatch.setattr(crowd, "PLAYERS", 20)
    played = crowd.players(0.5)
    assert played.keys() == METRICS.keys()
    with Fleet(transport, trust=transport.trust, clock=clock) as fleet:
        for metric, values in played.items():
            assert fleet.report(metric, values, book.collection.calendar.at(clock())).acknowledged == 20


@pytest.mark.full
@pytest.mark.timeout(900)
def test_its_page_leads_from_a_copy_to_numbers(tmp_path: Path) -> None:
    """Typed in as it stands: the codebook, both services, the app, the crowd, the questions."""
    page = GAME / "README.md"
    typed = [block for block in markdown(page.read_text(), page) if block.language in SHELL]
    assert len(typed) == 2
    with terminal(tmp_path) as typing:
        for name in ("metrics.toml", "app.py", "crowd.py"):
            (tmp_path / name).write_text(typing._here((GAME / name).read_text()))
        for block in typed:
            typing.follow(block)
        printed = "\n".join(typing.said)
    assert "What is collected: 6" in printed
    assert re.search(r"\b[2468],000 reports", printed)  # of as many periods as had closed when it asked
    crashed = [float(share) / 100 for share in re.findall(r"([\d.]+)% of them crashed", printed)]
    assert len(crashed) == crowd.PERIODS
