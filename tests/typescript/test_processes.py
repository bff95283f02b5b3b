"""Processes of Node with one state file, killed at any moment: one draw per metric and period, and none is lost."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.browser.sdk_site import BEGAN, Site
from tests.shuffler.process import AppServer
from tests.support.node import NO_NODE, TYPESCRIPT, node

pytestmark = pytest.mark.skipif(node() is None, reason=NO_NODE)

_DAY = 86_400
_AT_ONCE = 3


def started(told: dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(node()), "--disable-warning=ExperimentalWarning", "test/process.ts", json.dumps(told)],
        cwd=TYPESCRIPT,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("days", [1, pytest.param(20, marks=pytest.mark.full)])
def test_each_metric_is_drawn_once_in_a_period_by_all_processes(days: int, tmp_path: Path) -> None:
    rng = random.Random(days)
    site = Site(tmp_path)
    shuffler = site.shuffler("node")
    with AppServer(site) as address:
        told = {"address": f"{address}/node", "trust": shuffler.trust, "folder": str(tmp_path / "state"), "calm": False}
        for day in range(days):
            at = {"now": BEGAN + (day + 0.5) * _DAY}
            processes = [started(told | at) for _ in range(_AT_ONCE)]
            for process in processes:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
            for process in processes:
                time.sleep(rng.uniform(0, 0.1))
                process.kill()
                process.communicate()
            # While days pass, nothing that waits gets too old.
            calm = started(told | at | {"calm": True})
            said = calm.communicate(timeout=120)[0].splitlines()[-1]
            assert calm.returncode == 0
        calm = started(told | {"now": BEGAN + (days + 0.5) * _DAY, "calm": True})
        said = json.loads(calm.communicate(timeout=120)[0].splitlines()[-1])
    assert said["done"]
    sent = shuffler.reports_sent()
    assert len(set(shuffler.reports)) == len(sent), "a report was sealed twice"
    counted = Counter((report.metric, report.period) for report in sent)
    assert set(counted.values()) == {1}
    drawn = {metric["name"]: metric["reports"] for metric in said["ledger"]["metrics"] if metric["reports"]}
    assert drawn == Counter(report.metric for report in sent) == {"clicks": days, "wide": days, "theme": days}
