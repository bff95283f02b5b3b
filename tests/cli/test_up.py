"""`hubbub up`: it tells the truth about what it started."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import click
import pytest
from click.testing import CliRunner, Result

from hubbub_aggregator.app import create_app
from hubbub_aggregator.settings import Settings as AggregatorSettings
from hubbub_cli.commands.plan import plan
from hubbub_cli.commands.up import up, welcome
from hubbub_cli.services.environment import DECIDED, DECIDED_FOR_BOTH, passed_on
from hubbub_cli.services.processes import Services
from hubbub_shuffler.settings import Settings as ShufflerSettings
from tests.aggregator.dashboard.conftest import Visited
from tests.aggregator.world import CODEBOOK
from tests.browser.crowd import Crowd
from tests.browser.sites import TODAY
from tests.browser.sites import start as start_aggregator
from tests.support.compiled import compiled
from tests.support.ports import reserved_port
from tests.support.unwrapped import unwrapped


def start(folder: Path, *flags: str, **ports: int) -> Result:
    (folder / "metrics.toml").write_text(CODEBOOK)
    options = [f"--{name.replace('_', '-')}={port}" for name, port in ports.items()]
    return CliRunner().invoke(
        up, ["--codebook", str(folder / "metrics.toml"), "--state-dir", str(folder / "state"), *options, *flags]
    )


@pytest.mark.parametrize("taken", ["shuffler_port", "aggregator_port"])
def test_whoever_listens_there_already_is_not_taken_for_a_service_of_ours(tmp_path: Path, taken: str) -> None:
    ports = {"shuffler_port": reserved_port(), "aggregator_port": reserved_port()}
    with socket.create_server(("127.0.0.1", ports[taken])):
        done = start(tmp_path, **ports)
    assert done.exit_code == 1
    assert f"port {ports[taken]} is in use" in done.output
    assert f"--{taken.replace('_', '-')}" in done.output
    assert "trust anchor" not in done.output
    assert not (tmp_path / "state").exists()


def test_settings_reach_the_services_and_what_does_not_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUBBUB_SHUFFLER_LOG_FORMAT", "json")
    monkeypatch.setenv("HUBBUB_SHUFFLER_PORT", "1")
    monkeypatch.setenv("HUBBUB_AGGREGATOR_SHUFFLER_TOKEN_FILE", "/nowhere")
    monkeypatch.setenv("hubbub_aggregator_bundle_max_age", "60")
    started: list[dict[str, Mapping[str, str]]] = []

    class Never(Services):
        def __enter__(self) -> Self:
            started.append(self._extra)
            raise click.ClickException("not here")

    monkeypatch.setattr("hubbub_cli.commands.up.Services", Never)
    done = start(tmp_path)
    assert "decides these: HUBBUB_SHUFFLER_PORT, HUBBUB_AGGREGATOR_SHUFFLER_TOKEN_FILE" in unwrapped(done.output)
    page = started[0]["shuffler"]["CORS_ORIGINS"]
    assert started == [
        {"shuffler": {"LOG_FORMAT": "json", "CORS_ORIGINS": page}, "aggregator": {"BUNDLE_MAX_AGE": "60"}}
    ]


def test_a_script_gets_the_addresses_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ready(Services):
        def __enter__(self) -> Self:
            self.frozen, self.anchor = compiled(CODEBOOK), "ed25519:of-this-aggregator"
            return self

        def watch(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("hubbub_cli.commands.up.Services", Ready)
    done = start(tmp_path, "--json", shuffler_port=reserved_port(), aggregator_port=(port := reserved_port()))
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert found["aggregator"] == f"http://127.0.0.1:{port}"
    assert (found["trust"], found["codebook"]) == ("ed25519:of-this-aggregator", compiled(CODEBOOK).id.hex())
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, "stopped")


def test_every_setting_that_is_decided_exists() -> None:
    for service, settings in (("shuffler", ShufflerSettings), ("aggregator", AggregatorSettings)):
        every = {f"{settings.prefix()}{name.upper()}": "1" for name, _ in settings.fields()}
        named = passed_on(service, every).ignored
        assert len(named) == len(DECIDED[service] | DECIDED_FOR_BOTH)


WEAK = CODEBOOK.replace("epsilon = 1.0", "epsilon = 0.01").replace("epsilon = 0.5", "epsilon = 5.0")
"""By its guarantee alone a crowd of two would do."""


def test_one_number_says_how_many_are_enough(tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(WEAK)
    planned = CliRunner().invoke(plan, [str(tmp_path / "metrics.toml"), "--devices", "50", "--json"])
    made = json.loads(planned.stdout)["metrics"]["dark_mode"]
    assert (made["min_batch"], made["released"]) == (100, False)
    assert "with epsilon" not in " ".join(made["advice"])
    services = Services(tmp_path, tmp_path / "metrics.toml", shuffler_port=1, aggregator_port=2)
    assert services.floor == 100
    assert "the 100 that this shuffler waits for" in welcome(compiled(WEAK), services, 1e9, services.aggregator)
    few = {"MIN_BATCH_FLOOR": "7"}
    services = Services(tmp_path, Path("m.toml"), shuffler_port=1, aggregator_port=2, shuffler_settings=few)
    assert services.floor == 7


def test_pages_state_the_floor_of_the_shuffler(tmp_path: Path) -> None:
    service = start_aggregator(tmp_path, WEAK, shuffler_floor=100)
    Crowd(service.storage, service.codebooks).discard("dark_mode", TODAY)
    site = Visited(create_app(service), service)
    shown = [" ".join(site.page(path).text.split()) for path in ("/", "/operations", "/metric/dark_mode")]
    service.close()
    assert all("100 reports" in text for text in shown)
    assert not any(" 2 reports" in text for text in shown)
