"""The wheel with the extra `server`: both services, the dashboard and the commands, with no tree around."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scripts.sbom import FILE
from tests.packaging.conftest import Built, Environment, Make
from tests.packaging.pythons import find, here, named
from tests.support import http
from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]
CODEBOOK = """
[collection]
name = "packaged"
period = "1d"
device_epsilon = 2.0
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.dark_mode]
type = "boolean"
epsilon = 1.0
"""


@pytest.fixture(scope="module", params=named())
def server(built: Built, environment: Make, request: pytest.FixtureRequest) -> Environment:
    made = environment(str(find(request.param)))
    made.install(f"{built.wheel}[server]")
    return made


@contextmanager
def up(server: Environment, codebook: str) -> Iterator[str]:
    """`hubbub up` in its folder, until it is ended; the aggregator's address."""
    (server.home / "metrics.toml").write_text(codebook)
    shuffler, aggregator = reserved_port(), reserved_port()
    command = [server.hubbub, "up", "--shuffler-port", str(shuffler), "--aggregator-port", str(aggregator)]
    with (server.home / "log").open("w") as log:
        running = subprocess.Popen(command, cwd=server.home, env=server.variables, stdout=log, stderr=log)
        try:
            wait_for(lambda: running.poll() is not None or "Ctrl-C stops both" in (server.home / "log").read_text())
            assert running.poll() is None, (server.home / "log").read_text()
            yield f"http://127.0.0.1:{aggregator}"
            running.terminate()
            assert running.wait(PATIENCE) == 0
        finally:
            running.kill()
            running.wait()


def test_the_pythons_that_the_classifiers_name_include_this_one() -> None:
    assert here() in named()


def test_it_brings_in_what_the_bill_of_materials_lists(server: Environment) -> None:
    listed = {(one["name"], one["version"]) for one in json.loads(FILE.read_text())["components"]}
    installed = set(server.installed().items())
    assert installed <= listed
    assert {name for name, _ in listed} - {name for name, _ in installed} <= {"async-timeout"}  # before Python 3.11.3


def test_services_start_and_serve_the_dashboard_and_a_report(server: Environment) -> None:
    with up(server, CODEBOOK) as address, http.client(base_url=address) as browser:
        page = browser.get("/", headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert "dark_mode" in page.text
        assert all(
            browser.get(path).status_code == 200 for path in ("/healthz", "/readyz", "/v1/status", "/what-is-collected")
        )
        asked = server.run(server.hubbub, "query", "--address", address)
        assert "dark_mode" in asked.stdout
        server.run(server.hubbub, "report", "--address", address, "--out", "report.html")
        assert "dark_mode" in (server.home / "report.html").read_text()


def test_estimates_come_out_of_the_demo(server: Environment) -> None:
    """Real services, devices that seal, data that is in the wheel."""
    shown = server.run(server.hubbub, "demo", "--once", "--json", "--devices", "600", patience=600)
    assert len(json.loads(shown.stdout)["metrics"]) >= 2


def test_commands_work_that_read_data_or_libraries_of_their_own(server: Environment) -> None:
    (server.home / "metrics.toml").write_text(CODEBOOK)
    server.run(server.hubbub, "codebook", "check", "metrics.toml")
    server.run(server.hubbub, "codebook", "compile", "metrics.toml")
    assert len(json.loads((server.home / "codebook.json").read_text())["id"]) == 32
    assert "dark_mode" in server.run(server.hubbub, "checklist", "metrics.toml", "--template").stdout
    server.run(server.hubbub, "plan", "metrics.toml", "--devices", "2000", "--plot", "plan.svg")
    assert (server.home / "plan.svg").stat().st_size > 1000
    tag = server.run(server.hubbub, "client-js", "--write", "public").stdout  # there is no Node in this environment
    assert all(f'src="/{file.name}"' in tag for file in (server.home / "public").iterdir())
    server.run(
        server.hubbub, "audit", "--mechanism", "rr", "--trials", "2000", "--out", "audit.html", code=3, patience=600
    )
    assert (server.home / "audit.html").stat().st_size > 1000
