"""`hubbub report`: the dashboard in one file that loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from click.testing import CliRunner

from hubbub_cli.all_commands import hubbub
from tests.aggregator.dashboard.conftest import Visited
from tests.aggregator.dashboard.markup import Page
from tests.aggregator.dashboard.test_pages import faults


@pytest.fixture(scope="module")
def address(populated: Visited) -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(populated.app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_a_report_stands_alone(address: str, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = CliRunner().invoke(hubbub, ["report", "--address", address, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "report.html" in result.stdout
    assert "metric dark_mode" in result.stderr
    page = Page(out.read_text("utf-8"))
    assert [fault for fault in faults(page) if fault != "style element"] == []
    assert page.all("script") == []
    targets = [one.attributes.get(name) for one in page.elements for name in ("src", "href", "action")]
    assert {target for target in targets if target is not None and not target.startswith("#")} == set()
    sections = {one.attributes.get("id") for one in page.all("section", class_="part")}
    metrics = {"metric-dark_mode", "metric-nasty", "metric-startup_ms"}
    assert sections == {"overview", "privacy", "operations", "collected"} | metrics
    (style,) = page.all("style")
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    policy = page.all("meta", http_equiv="Content-Security-Policy")[0].attributes["content"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert len(page.all("svg", class_="plot")) >= 9
    assert not list(tmp_path.glob(".*"))


def test_one_metric_may_be_chosen(address: str, tmp_path: Path) -> None:
    out = tmp_path / "one.html"
    chosen = ["report", "--address", address, "--out", str(out), "--metric", "nasty"]
    assert CliRunner().invoke(hubbub, chosen).exit_code == 0
    assert re.findall(r'<section id="(metric-[^"]*)"', out.read_text("utf-8")) == ["metric-nasty"]
    wrong = CliRunner().invoke(hubbub, [*chosen, "--metric", "nosty"])
    assert wrong.exit_code != 0
    assert "nosty" in str(wrong.exception or wrong.output) + wrong.output


def test_nobody_there_and_no_folder_are_said_in_a_line(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        out = tmp_path / "report.html"
        result = CliRunner().invoke(hubbub, ["report", "--address", address, "--out", str(out)])
    assert result.exit_code != 0
    assert "no aggregator answers at" in result.output
    assert not out.exists()
    nowhere = CliRunner().invoke(hubbub, ["report", "--address", address, "--out", str(tmp_path / "no" / "r.html")])
    assert "there is no folder" in nowhere.output
