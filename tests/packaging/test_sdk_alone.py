"""`pip install` of the wheel alone: an app's device works, and a server's libraries are not there."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hubbub
from hubbub.bundle import SealingKey
from hubbub.codebook import Codebook
from hubbub.sealing import new_private_key, public_key_of
from scripts.dist import NAME
from scripts.sbom import FILE, LOCK, read_lock
from tests.packaging.conftest import Built, Environment, Make
from tests.packaging.pythons import find, here, named
from tests.shuffler.process import ShufflerProcess
from tests.shuffler.stub_aggregator import RecordingAggregator
from tests.shuffler.world import TRUST, signed
from tests.support.patience import PATIENCE

SDK = {"hubbub", "hubbub_client", "cryptography", "_openssl", "_cffi_backend", "cffi", "pycparser"}

CODEBOOK = """
[collection]
name = "photo-app"
period = "13d"
device_epsilon = 2.0
release = { epsilon = 1.0, delta = 1e-6 }

[metrics.dark_mode]
type = "boolean"
epsilon = 1.0

[metrics.startup_ms]
type = "mean"
bounds = [0, 5000]
reduce = "first"
epsilon = 1.0
"""
"""Both are due at once, in a period that hardly ever ends while a test runs, and whose grace then is as long."""


@pytest.fixture(scope="module")
def shuffler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShufflerProcess]:
    """`hubbub shuffler` of this tree, and behind it what gives it a bundle: nothing is forwarded so early."""
    home, now = tmp_path_factory.mktemp("shuffler"), time.time()
    book = Codebook.from_toml(CODEBOOK).with_min_batch(lambda _metric: 100)
    period = book.collection.calendar.index_at(now)
    key = SealingKey(1, public_key_of(new_private_key()), period, period + 1, "active")
    with (
        RecordingAggregator(signed(now, book=book, keys=(key,))) as behind,
        ShufflerProcess(home / "state", behind.address, home / "log", trust=TRUST[0]) as process,
    ):
        yield process


def reports(device: Environment, shuffler: ShufflerProcess) -> None:
    """It records, seals and sends to a shuffler, with nothing but what the wheel asks for."""
    code = (Path(__file__).parent / "device.py").read_text()
    said = json.loads(device.run(device.python, "-c", code, shuffler.address, *TRUST).stdout)
    assert Path(said["from"]).is_relative_to(device.path)
    assert said["importable"] == []
    assert "cryptography" in {name.partition(".")[0] for name in said["third"]}
    assert {name.partition(".")[0] for name in said["third"]} <= SDK
    assert said["outcome"] == "recorded"
    assert "dark_mode" in said["preview"]
    assert said["sent"] is True
    assert said["stats"]["acknowledged"] == 2, said["stats"]
    inspected = json.loads(device.run(device.python, "-m", "hubbub_client", "inspect", "state", "--json").stdout)
    assert inspected["ledger"]["spent"] == 2


@pytest.mark.full  # an environment and a service of its own
def test_a_device_with_the_wheel_alone_reports_to_a_real_shuffler(
    built: Built, shuffler: ShufflerProcess, environment: Make
) -> None:
    device = environment()
    device.install(str(built.wheel))
    bill = json.loads(FILE.read_text())["components"]
    assert device.installed() == {one["name"]: one["version"] for one in bill if one["scope"] == "required"}
    reports(device, shuffler)
    the_command_says_what_is_missing(device)

    device.install("click")  # as an app may have it for itself: that is not enough
    the_command_says_what_is_missing(device)


def the_command_says_what_is_missing(device: Environment) -> None:
    shown = device.run(device.hubbub, "--version").stdout
    assert shown == f"hubbub {hubbub.__version__}, Python {platform.python_version()}\n"
    for command in ("up", "--help"):
        refused = device.run(device.hubbub, command, code=1)
        assert refused.stdout == ""
        assert refused.stderr.count("\n") == 1
        assert f"pip install '{NAME}[server]'" in refused.stderr


@pytest.mark.full
@pytest.mark.parametrize("version", [version for version in named() if version != here()])
def test_a_device_with_another_python_reports_too(
    built: Built, shuffler: ShufflerProcess, environment: Make, version: str
) -> None:
    device = environment(str(find(version)))
    device.install(str(built.wheel))
    reports(device, shuffler)


@pytest.mark.full
def test_plain_pip_installs_it_too(built: Built, shuffler: ShufflerProcess, environment: Make, tmp_path: Path) -> None:
    """All else here is installed by uv, which is faster; people use pip."""
    device = environment()
    pins = tmp_path / "pins.txt"
    pins.write_text(
        "\n".join(f"{one.name}=={one.version} ; {one.marker}".rstrip(" ;") for one in read_lock(LOCK.read_text()))
    )
    pip = [sys.executable, "-m", "pip", "--python", device.python, "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(pins), str(built.wheel)], check=True, timeout=PATIENCE)
    assert set(device.installed()) == {"cryptography", "cffi", "pycparser"}
    reports(device, shuffler)
