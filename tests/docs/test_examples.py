"""Examples: each runs as its first lines say, against a shuffler over real HTTP, and reports what it says.

They are served a codebook with the names of `examples/metrics.toml` whose values are due at once, so that no test
waits for the end of a day.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hubbub.codebook import Codebook
from hubbub.period import DAY, Calendar
from hubbub_cli.services.processes import Services
from hubbub_client import Outcome
from hubbub_client.testing import MemoryTransport
from tests.client.world import served
from tests.support import http
from tests.support.node import NO_PACKAGES, node, packages, project
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.ports import reserved_port

EXAMPLES = ROOT / "examples"
TOML = (EXAMPLES / "metrics.toml").read_text()
AT_ONCE = re.sub(r"missing = .*\n", "", TOML.replace('grace = "1d"', 'grace = "1s"').replace('reduce = "mean"\n', ""))
AT_ONCE = AT_ONCE.replace("bounds = [0, 5000]", 'bounds = [0, 5000]\nreduce = "first"').replace(
    'owner = "', 'min_batch = 100\nowner = "'
)


def in_a_quiet_period(toml: str) -> str:
    """The same with a period that does not end while a test runs: a day, unless it is about to be midnight."""
    now = time.time()
    days = next(days for days in (1, 2, 3, 5, 11, 13) if Calendar(days * DAY).at(now).end - now > 600)
    assert 'period = "1d"' in toml
    return toml.replace('period = "1d"', f'period = "{days}d"')


QUESTIONS = {"dark_mode", "startup_ms", "theme"}


def asked(shown: str) -> set[str]:
    """The metrics in what a page says would be collected."""
    return set(
        re.findall(r"^  (\w+): .*\n    \[", shown.partition("What would be collected with consent")[2], re.MULTILINE)
    )


class Site:
    """A shuffler, and where an example keeps its state."""

    def __init__(self, address: str, transport: MemoryTransport, state: Path, toml: str) -> None:
        self.transport, self.state = transport, state
        shipped = state.with_name("metrics.toml")
        shipped.write_text(toml)
        self.environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith(("HUBBUB", "DISPLAY"))},
            "PHOTOS_SHUFFLER": address,
            "PHOTOS_STATE": str(state),
            "PHOTOS_TELEMETRY": "yes",
            "PHOTOS_CODEBOOK": str(shipped),
        }

    def run(self, *command: str, **more: str) -> str:
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env={**self.environment, **more},
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return ran.stdout

    def arrived(self) -> set[str]:
        return {report.metric for report in self.transport.reports_sent()}

    def wait_for(self, *metrics: str) -> None:
        until = time.monotonic() + PATIENCE
        while not set(metrics) <= self.arrived():
            assert time.monotonic() < until, f"only {self.arrived()} arrived"
            time.sleep(0.1)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    toml = in_a_quiet_period(AT_ONCE)
    transport = MemoryTransport.serving(Codebook.from_toml(toml))
    with served(transport) as address:
        yield Site(address, transport, tmp_path / "state", toml)


@contextmanager
def running(command: list[str], environment: Mapping[str, str], port: int) -> Iterator[httpx2.Client]:
    """A server of an example's, asked by HTTP, and ended as an operator would."""
    python = [] if command[0] == node() else [sys.executable, "-m"]
    server = subprocess.Popen([*python, *command], cwd=ROOT, env=dict(environment))
    try:
        with http.client(base_url=f"http://127.0.0.1:{port}") as asking:
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    asking.get("/privacy")
                    break
                except httpx2.TransportError:
                    assert server.poll() is None, "the server did not start"
                    assert time.monotonic() < until
                    time.sleep(0.05)
            yield asking
        server.send_signal(signal.SIGINT if "uvicorn" in command else signal.SIGTERM)
        assert server.wait(PATIENCE) in (0, -signal.SIGINT)
    finally:
        server.kill()
        server.wait()


def test_fastapi(site: Site) -> None:
    port = reserved_port()
    command = ["uvicorn", "--log-level", "warning", "--port", str(port), "examples.fastapi_app:app"]
    with running(command, site.environment, port) as asking:
        assert asking.put("/theme/dark").json() == {"theme": "dark"}
        site.wait_for("startup_ms", "theme", "dark_mode")
        assert "theme: epsilon 2 charged, 1 report made" in asking.get("/privacy").text
        assert asking.delete("/privacy").json() == {"off": True}
        assert asked(asking.get("/privacy").text) == QUESTIONS
        asking.put("/theme/light")
        assert "Values on this device, to be randomized: 0" in asking.get("/privacy").text
    assert len(site.transport.reports) == 3


@pytest.mark.skipif(not packages(), reason=NO_PACKAGES)
def test_a_service_in_node(site: Site, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "node_service.mjs", project(tmp_path / "installed"))
    port, executable = reserved_port(), node()
    assert executable is not None
    command = [executable, "--disable-warning=ExperimentalWarning", str(tmp_path / "installed" / "node_service.mjs")]
    with running(command, site.environment | {"PHOTOS_PORT": str(port)}, port) as asking:
        for _ in range(20):
            assert asking.put("/theme/dark").json() == {"theme": "dark"}
            if "theme" in asking.get("/privacy").text:
                break
            time.sleep(0.2)
        site.wait_for("startup_ms", "theme", "dark_mode")
        assert "theme: epsilon 2 charged, 1 report made" in asking.get("/privacy").text
        assert asking.get("/nowhere").status_code == 404
        assert asking.delete("/privacy").json() == {"off": True}
        asking.put("/theme/light")
        assert "Values on this device, to be randomized: 0" in asking.get("/privacy").text
    assert len(site.transport.reports) == 3


@pytest.mark.full  # every day the other examples run
@pytest.mark.parametrize("workers", [2])
def test_django_under_a_preloading_gunicorn(site: Site, workers: int) -> None:
    port = reserved_port()
    command = ["gunicorn", "--preload", "--no-control-socket", "--log-level", "warning", "--workers", str(workers)]
    command += ["--bind", f"127.0.0.1:{port}", "examples.django_site.wsgi"]
    with running(command, site.environment, port) as asking:
        for _ in range(4):
            assert asking.get("/theme/dark").text == "dark"
        site.wait_for("theme", "dark_mode")
        assert "dark_mode: epsilon 1 charged, 1 report made" in asking.get("/privacy").text


@pytest.mark.full  # every day the other examples run
def test_a_command_that_runs_for_a_moment(site: Site) -> None:
    command = "examples/command_line.py"
    assert site.run(command, "convert") == "converted\n"
    assert asked(site.run(command, "telemetry", "show")) == QUESTIONS
    assert site.transport.requests == [], "nobody has agreed yet"

    assert site.run(command, "telemetry", "on") == "telemetry is on\n"
    began = time.monotonic()
    for _ in range(20):
        site.run(command, "convert")
        if {"startup_ms", "theme"} <= site.arrived():
            break
    assert {"startup_ms", "theme"} <= site.arrived(), f"nothing after {time.monotonic() - began:.0f} s of commands"
    assert "startup_ms: epsilon 1 charged, 1 report made" in site.run(command, "telemetry", "show")

    assert site.run(command, "telemetry", "off") == "telemetry is off\n"
    requests = len(site.transport.requests)
    site.run(command, "convert")
    assert len(site.transport.requests) == requests


def test_a_desktop_app_without_a_display(site: Site) -> None:
    shown = site.run("examples/desktop.py")
    assert "Reports that wait to be sent: 0" in shown
    assert asked(shown) == QUESTIONS
    assert site.transport.requests == [], "nobody has agreed yet"
    site.state.mkdir(exist_ok=True)
    (site.state / "settings.json").write_text(json.dumps({"telemetry": True}))
    for _ in range(20):
        site.run("examples/desktop.py")
        if {"startup_ms", "theme", "dark_mode"} <= site.arrived():
            break
    assert {"startup_ms", "theme", "dark_mode"} <= site.arrived()
    inspected = json.loads(site.run("-m", "hubbub_client", "inspect", str(site.state / "telemetry"), "--json"))
    assert inspected["ledger"]["spent"] == 4


def test_servers_show_what_would_be_collected_before_anyone_agrees(site: Site) -> None:
    port = reserved_port()
    command = ["uvicorn", "--log-level", "warning", "--port", str(port), "examples.fastapi_app:app"]
    with running(command, site.environment | {"PHOTOS_TELEMETRY": ""}, port) as asking:
        assert asked(asking.get("/privacy").text) == QUESTIONS
    code = "from examples.django_site import wsgi, urls; print(urls.privacy(None).content.decode())"
    assert asked(site.run("-c", code, PHOTOS_TELEMETRY="")) == QUESTIONS
    assert site.transport.requests == []
    assert not site.state.exists()
    folder = ["inspect", str(site.state), "--codebook", "examples/metrics.toml"]
    assert asked(site.run("-m", "hubbub_client", *folder)) == QUESTIONS


def test_environment_switches_win_in_every_example(site: Site) -> None:
    site.state.mkdir()
    (site.state / "telemetry").write_text("yes")
    (site.state / "settings.json").write_text(json.dumps({"telemetry": True}))
    site.run("examples/command_line.py", "convert", DO_NOT_TRACK="1")
    site.run("examples/desktop.py", HUBBUB_DISABLED="1", PHOTOS_STATE=str(site.state / "other"))
    assert site.transport.requests == []


@pytest.mark.full
def test_from_a_codebook_to_the_first_number(tmp_path: Path) -> None:
    """What the page promises for five minutes, as it stands there: `hubbub up`, an app, a crowd, `hubbub query`."""
    codebook = EXAMPLES / "first_number" / "metrics.toml"
    began = time.monotonic()
    with (
        (tmp_path / "log").open("w") as log,
        Services(
            tmp_path, codebook, shuffler_port=reserved_port(), aggregator_port=reserved_port(), log=log
        ) as services,
    ):
        folder = EXAMPLES / "first_number"
        state = str(tmp_path / "app")
        app = subprocess.Popen(
            [sys.executable, folder / "app.py", services.shuffler, state], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        subprocess.run([sys.executable, folder / "crowd.py", services.shuffler], cwd=ROOT, check=True, timeout=60)
        shown, _ = app.communicate(timeout=90)
        assert "Values on this device, to be randomized: 2" in shown
        assert "'acknowledged'" in shown
        answer = first_answer(services, until=began + 300)
    assert answer["reports"] >= 500
    dark = answer["values"][1]
    assert abs(dark["estimate"] - 0.3) < 6 * 0.043  # standard errors: a false alarm once in 5e8 runs
    assert dark["low"] < dark["estimate"] < dark["high"]
    assert time.monotonic() - began < 300


def first_answer(services: Services, until: float) -> dict[str, Any]:
    query = [sys.executable, "-m", "hubbub_cli", "query", "dark_mode", "--json", "--address", services.aggregator]
    while time.monotonic() < until:
        asked = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
        if asked.returncode == 0:
            found: dict[str, Any] = json.loads(asked.stdout)["segments"][-1]
            return found
        time.sleep(1)
    raise AssertionError("no number within five minutes")


# -- the page -----------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "how-to" / "instrument-your-app.md").read_text()
BLOCKS = {
    found[1]: found[2]
    for found in re.finditer(r"```python\n# (\S+\.py)\n(.*?)```", PAGE, re.DOTALL)  # those that say where they are from
}


@pytest.mark.parametrize("name", sorted(name for name in BLOCKS if name.startswith("examples/")))
def test_what_the_page_shows_of_an_example_is_in_it(name: str) -> None:
    assert BLOCKS[name].strip() in (ROOT / name).read_text()


def test_the_page_shows_every_framework() -> None:
    shown = {name.removeprefix("examples/").split("/")[0] for name in BLOCKS}
    assert {"fastapi_app.py", "django_site", "command_line.py", "desktop.py", "first_number"} <= shown


def test_the_codebook_of_the_page_is_the_beginning_of_the_one_in_the_example() -> None:
    shown = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    lines = [line.partition("#")[0].strip() for line in shown[1].splitlines()]
    written = (EXAMPLES / "first_number" / "metrics.toml").read_text()
    assert [line for line in lines if line not in written] == []
    assert Codebook.from_toml(shown[1]).metric("dark_mode").type == "boolean"


TRIAL = re.search(r"```python\n# conftest.py of a trial\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("trial", [False, True], ids=["a day", "ten seconds"])
def test_the_tests_on_the_page_pass(tmp_path: Path, trial: bool) -> None:
    assert TRIAL is not None
    (tmp_path / "conftest.py").write_text(TRIAL[1] if trial else BLOCKS["conftest.py"])
    (tmp_path / "test_app.py").write_text(BLOCKS["test_app.py"])
    short = TOML.replace('period = "1d"', 'period = "10s"').replace('grace = "1d"', 'grace = "20s"')
    (tmp_path / "metrics.toml").write_text(short if trial else TOML)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path), "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "2 passed" in ran.stdout, ran.stdout


def test_every_outcome_and_every_limit_is_explained() -> None:
    for outcome in Outcome:
        assert f"| `{outcome.value}` |" in PAGE
    for argument in ("max_epsilon", "lifetime_epsilon", "min_period"):
        assert f"| `{argument}` |" in PAGE
