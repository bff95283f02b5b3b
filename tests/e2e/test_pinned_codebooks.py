"""Codebooks that are pinned by their ids: the order on the page Upgrade works as it is written there."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from hubbub.bundle import verify
from hubbub.period import Calendar
from hubbub_cli.api_client import Refusal, ask
from hubbub_client import Client, Outcome
from hubbub_client.testing import Fleet
from tests.aggregator.process import Served
from tests.docs.blocks import ROOT, Block, commands, markdown
from tests.docs.terminal import starts_a_service
from tests.e2e.test_path import seconds_to_load
from tests.shuffler.process import ShufflerProcess
from tests.shuffler.world import TOKEN
from tests.support.compiled import compiled, write_compiled
from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port

PAGE = ROOT / "docs" / "how-to" / "upgrade.md"
_ID = re.compile(r"\b[0-9a-f]{32}\b")
CROWD = 200
QUICK = {"TICK": "0.3", "MIN_BATCH_FLOOR": "2", "BUNDLE_REFRESH": "0.5", "PORT": "0"}


def section(title: str) -> str:
    """The text of the page under one heading."""
    return PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


# -- the order on the page ----------------------------------------------------------------------


@dataclass
class Reader:
    """Someone who types in what the page says, with ids of their own where the page has its ids."""

    folder: Path
    stack: ExitStack
    port: str = field(default_factory=lambda: str(reserved_port()))
    """The shuffler's: apps know it."""
    ids: dict[str, str] = field(default_factory=dict)
    """The page's ids, in its order, and what was printed in their place."""
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    aggregator: str = ""
    """Its address, once it runs."""
    shuffler: str = ""
    said: str = ""
    """What the commands of the last block printed."""

    def here(self, text: str) -> str:
        return _ID.sub(lambda found: self.ids[found[0]], text)

    def types(self, block: Block) -> None:
        assert block.language == "sh"
        self.said = ""
        for line in commands(block.text):
            command = self.here(line)
            if starts_a_service(command):
                self.aggregator = self.start(command.split(), "aggregator", {"PORT": "0", "BUNDLE_MAX_AGE": "1"})
                continue
            done = subprocess.run(
                ["bash", "-euc", command],
                cwd=self.folder,
                env=self._environment({"HUBBUB_AGGREGATOR_BUNDLE_MAX_AGE": "1"}),
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
            )
            assert done.returncode == 0, (command, done.stderr)
            self.said += done.stdout

    def start(self, command: list[str], service: str, settings: Mapping[str, str]) -> str:
        """Start a service, which ends with the test; its address."""
        prefix, log = f"HUBBUB_{service.upper()}_", self.folder / f"{service}.log"
        before = log.stat().st_size if log.exists() else 0
        given = {prefix + name: value for name, value in settings.items()}
        with log.open("ab") as file:
            process = subprocess.Popen(command, cwd=self.folder, env=self._environment(given), stdout=file, stderr=file)
        self.stack.callback(process.wait, PATIENCE)
        self.stack.callback(process.terminate)
        self.running[service] = process

        def ready() -> re.Match[str] | None:
            assert process.poll() is None, log.read_text()
            return re.search(r"(?i)ready at ([^\s,]+)", log.read_bytes()[before:].decode())

        wait_for(ready)
        found = ready()
        assert found is not None
        return found[1]

    def start_shuffler(self, block: Block) -> None:
        """A shuffler with the line of settings on the page, in place of the one that runs."""
        assert block.language == "ini"
        name, _, value = self.here(block.text).strip().partition("=")
        if "shuffler" in self.running:
            self.running["shuffler"].terminate()
            assert self.running["shuffler"].wait(PATIENCE) == 0
        settings = {
            **QUICK,
            "PORT": self.port,
            "AGGREGATOR": self.aggregator,
            "STATE_DIR": str(self.folder / "shuffler"),
        }
        settings[name.removeprefix("HUBBUB_SHUFFLER_")] = value
        self.shuffler = self.start(["hubbub", "shuffler"], "shuffler", settings)
        wait_for(lambda: is_ready(self.shuffler))

    def app(self, pin: object) -> Client:
        """The app, on a device that has it already."""
        client = Client(
            self.shuffler,
            trust=None,
            consent=True,
            state_dir=self.folder / "app",
            pin=pin,  # type: ignore[arg-type]  # as the page has it
            max_epsilon=None,
            min_period=None,
            background=False,
        )
        self.stack.callback(client.close)
        return client

    @staticmethod
    def _environment(given: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("HUBBUB_", "DO_NOT_TRACK"))}
        return own | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **given}


def is_ready(address: str) -> bool:
    try:
        return bool(ask(address, "/readyz")["ok"])
    except Exception:  # noqa: BLE001  it says why it is not ready, and is asked again
        return False


def reports_under(reader: Reader, client: Client, calendar: Calendar) -> str:
    """Let the app and a crowd report for the period that runs; the period's label."""
    assert client.flush(timeout=PATIENCE)
    wait_for(lambda: time.time() % calendar.seconds < calendar.seconds / 2)  # there is time left in the period
    period, before = calendar.at(time.time()), client.stats().get("acknowledged", 0)
    assert client.flush(timeout=PATIENCE)
    assert client.record("dark_mode", True) is Outcome.RECORDED, client.stats()
    assert Fleet(reader.shuffler).report("dark_mode", [True] * CROWD, period).acknowledged == CROWD
    wait_for(lambda: time.time() > period.end)
    wait_for(lambda: client.flush(now=True) and client.stats().get("acknowledged", 0) > before, step=0.2)
    return period.label


@pytest.mark.timeout(600)
def test_an_edit_in_the_order_of_the_page_reaches_everyone_who_pins(tmp_path: Path) -> None:
    written = re.search(r"<<'TOML'\n(.*?)^TOML$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert written is not None
    grace = max(10, ceil(8 * seconds_to_load()))
    in_a_hurry = f'period = "5s"\ngrace = "{grace}s"\nforward_horizon = "1h"'
    (tmp_path / "metrics.toml").write_text(written[1].replace('period = "1d"', in_a_hurry))
    calendar = Calendar.parse("5s")
    text = section("Change the codebook")
    first, pin, compile_, pins, publish, copy = (
        block for block in markdown(text, PAGE) if block.language in ("sh", "ini")
    )
    ids = list(dict.fromkeys(_ID.findall(text)))
    app_pins = [json.loads(found) for found in re.findall(r"pin=(\[[^]]*\]|\"\w+\")", text)]
    assert len(ids) == len(app_pins) == 2

    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        reader.types(first)
        reader.ids[ids[0]] = _ID.findall(_printed(tmp_path, "codebook.json", reader.said))[0]
        reader.start_shuffler(pin)
        client = reader.app(json.loads(reader.here(json.dumps(app_pins[0]))))
        reports_under(reader, client, calendar)
        client.close()

        reader.types(compile_)
        reader.ids[ids[1]] = _ID.findall(_printed(tmp_path, "new.json", reader.said))[0]
        assert "dark_mode: new id" in reader.said
        reader.start_shuffler(pins)
        client = reader.app(json.loads(reader.here(json.dumps(app_pins[1]))))

        reader.types(publish)
        assert f"codebook {reader.ids[ids[1]]} is in force" in reader.said
        wait_for(lambda: len(ask(reader.aggregator, "/v1/status")["codebooks"]) == 2, step=0.2)
        newest = ask(reader.aggregator, "/v1/status")["codebooks"][-1]
        begin = datetime.fromisoformat(newest["first_period"]).timestamp()
        reader.types(copy)
        assert (tmp_path / "codebook.json").read_bytes() == (tmp_path / "new.json").read_bytes()

        wait_for(lambda: time.time() > begin, step=0.2)
        reports_under(reader, client, calendar)
        assert "codebook:not_pinned" not in client.stats()

        def segments() -> list[dict[str, Any]]:
            try:
                found: list[dict[str, Any]] = ask(reader.aggregator, "/v1/metrics/dark_mode/estimate")["segments"]
            except Exception:  # noqa: BLE001  there is no release yet
                return []
            return found

        wait_for(lambda: len(segments()) == 2, patience=grace + PATIENCE, step=0.5)
        assert [one["reports"] for one in segments()] == [CROWD + 1, CROWD + 1]
        served = ask(reader.aggregator, "/v1/status")["codebooks"]
        assert [one["id"] for one in served] == [reader.ids[one] for one in ids]
        assert "not pinned" not in (tmp_path / "shuffler.log").read_text()


def _printed(folder: Path, name: str, said: str) -> str:
    """The line about a file that was compiled. Where a service was started after it, it is in nothing that was read."""
    found = re.search(rf"^{re.escape(name)}: codebook [0-9a-f]{{32}}$", said, re.MULTILINE)
    assert found is not None, said
    assert json.loads((folder / name).read_text())["id"] in found[0]
    return found[0]


# -- wrong pins, and metrics that are switched off ----------------------------------------------

TOML = """
[collection]
name = "pinned"
period = "1h"
device_epsilon = 4
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.dark_mode]
type = "boolean"
epsilon = 1

[metrics.exported]
type = "boolean"
epsilon = 1
"""
WRONG = "0" * 32


@pytest.fixture
def aggregator(tmp_path: Path) -> Iterator[Served]:
    settings = {"state_dir": tmp_path / "aggregator", "port": 0, "processes": 1, "bundle_max_age": 1}
    codebook = write_compiled(tmp_path / "codebook.json", TOML)
    with Served(tmp_path / "aggregator.log", codebook=codebook, shuffler_token=TOKEN, **settings) as served:
        yield served


def shuffler(folder: Path, aggregator: Served, pin: str) -> ShufflerProcess:
    settings = {name.lower(): value for name, value in QUICK.items()}
    return ShufflerProcess(folder / "shuffler", aggregator.address, folder / "shuffler.log", codebooks=pin, **settings)


def test_with_a_wrong_pin_nothing_is_collected_and_the_reason_is_said(
    tmp_path: Path, aggregator: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served = compiled(TOML).id.hex()
    with shuffler(tmp_path, aggregator, WRONG) as pinned:
        wait_for(lambda: f"codebook {served} is not pinned here: review it, then add its id" in pinned.log.read_text())
        assert not is_ready(pinned.address)
        with pytest.raises(Refusal, match="the shuffler has no valid bundle yet"):
            ask(pinned.address, "/v1/bundle")
    (tmp_path / "shuffler.log").unlink()
    with shuffler(tmp_path, aggregator, served) as pinned, caplog.at_level(logging.WARNING, "hubbub_client"):
        wait_for(lambda: is_ready(pinned.address))
        client = Client(
            pinned.address, trust=None, consent=True, state_dir=tmp_path / "app", pin=WRONG, background=False
        )
        client.flush(timeout=PATIENCE)
        assert client.record("dark_mode", True) is Outcome.NOT_PINNED
        client.flush(timeout=PATIENCE, now=True)
        stats = client.stats()
        client.close()
    assert stats["codebook:not_pinned"] == 1
    assert stats.get("acknowledged", 0) == 0
    assert "not_pinned" in caplog.text


def test_an_app_that_ships_the_compiled_file_records_by_its_pin_before_the_first_bundle(tmp_path: Path) -> None:
    codebook = write_compiled(tmp_path / "codebook.json", TOML)
    with Client(
        "https://telemetry.example.com",
        trust="ed25519:A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg",
        consent=True,
        state_dir=tmp_path / "app",
        codebook=codebook,
        pin=compiled(TOML).id.hex(),
        background=False,
    ) as client:
        assert client.record("dark_mode", True) is Outcome.RECORDED


def test_those_who_pin_go_along_when_a_metric_is_switched_off(tmp_path: Path, aggregator: Served) -> None:
    book = compiled(TOML)
    now = book.collection.calendar.at(time.time())
    with shuffler(tmp_path, aggregator, book.id.hex()) as pinned:
        wait_for(lambda: is_ready(pinned.address))
        outdated = Fleet(pinned.address)
        client = Client(
            pinned.address, trust=None, consent=True, state_dir=tmp_path / "app", pin=book.id.hex(), background=False
        )
        assert outdated.report("dark_mode", [True] * 3, now).acknowledged == 3

        assert switch(tmp_path, "off") == "dark_mode is switched off\n"
        wait_for(lambda: off(pinned.address) == {book.metric("dark_mode").id})
        refused = outdated.report("dark_mode", [True] * 3, now)
        assert (refused.acknowledged, refused.refused) == (0, {"metric-disabled": 3})
        assert outdated.report("exported", [True] * 3, now).acknowledged == 3
        client.flush(timeout=PATIENCE)
        assert client.record("dark_mode", True) is Outcome.DISABLED
        assert client.record("exported", True) is Outcome.RECORDED
        assert "codebook:not_pinned" not in client.stats()

        assert switch(tmp_path, "on") == "dark_mode is switched on\n"
        wait_for(lambda: off(pinned.address) == set())
        client.close()
        assert is_ready(pinned.address)
        assert "not pinned" not in pinned.log.read_text()


def switch(folder: Path, word: str) -> str:
    """What `hubbub codebook off dark_mode` says, or `on`."""
    command = [sys.executable, "-m", "hubbub_cli", "codebook", word, "dark_mode"]
    done = subprocess.run(
        [*command, "--state-dir", folder / "aggregator"], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return done.stdout


def off(address: str) -> set[bytes]:
    """Ids of the metrics that are off by the bundle that a shuffler relays."""
    with urllib.request.urlopen(f"{address}/v1/bundle", timeout=PATIENCE) as answer:  # noqa: S310  loopback
        raw = answer.read()
    signer = raw.split(b"\n")[1].split()[0].decode()
    return set(verify(raw, [signer], time.time()).body.off)
