"""The compose file, started as an engine would: reports come in, numbers come out, and networks are separate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from math import ceil
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from tests.deploy.compose_engine import Composition, beside, read
from tests.deploy.dockerfile import Image, base
from tests.deploy.network_namespaces import ROOT, Lab, lab
from tests.deploy.test_two_hosts import CROWD, DEVICES, TOML
from tests.e2e.test_path import seconds_to_load
from tests.support.compiled import write_compiled
from tests.support.patience import PATIENCE, wait_for
from tests.support.redis_server import executable

pytestmark = [pytest.mark.full, pytest.mark.timeout(1_800)]

APP = 64_105
"""The user of an app on the same machine."""


def redis_image(folder: Path) -> Image:
    """A Redis of this machine in the place where the official image has one."""
    server = Path(executable())
    client = shutil.which("redis-cli") or server.with_name("redis-cli")
    image = base(folder)
    (image.upper / "usr/local/bin").mkdir(parents=True, exist_ok=True)
    for name, path in (("redis-server", server), ("redis-cli", Path(client))):
        shutil.copy(path, image.upper / "usr/local/bin" / name)
    (image.upper / "data").mkdir()
    os.chown(image.upper / "data", 999, 999)
    return image


@pytest.fixture(scope="module")
def place() -> Iterator[Lab]:
    with lab() as here:
        yield here


@pytest.fixture(scope="module")
def composition(image: Image, place: Lab) -> Iterator[Composition]:
    secrets = place.folder / "secrets"
    subprocess.run(["sh", ROOT / "deploy" / "make-secrets.sh", secrets], check=True, capture_output=True)
    toml = TOML.format(grace=min(60, max(30, ceil(12 * seconds_to_load()))))
    codebook = write_compiled(place.folder / "codebook.json", toml)
    images = {"hubbub": image, "redis": redis_image(image.folder.parent / "redis")}
    with ExitStack() as stack:
        started = Composition(place, stack, images, secrets, read({"HUBBUB_CODEBOOK": str(codebook)}))
        started.up()
        yield started


def test_reports_become_numbers_and_answers_say_that_one_party_runs_both(composition: Composition, place: Lab) -> None:
    anchor = composition.exec("aggregator", ["hubbub", "keys", "anchor"])
    assert anchor == (0, (place.folder / "volumes/trust/anchor").read_text())
    state = place.folder / "app"
    state.mkdir(mode=0o777)
    state.chmod(0o777)
    values = [value for turn in range(DEVICES["light"]) for value, count in DEVICES.items() if turn < count]
    told = {
        "address": "http://127.0.0.1:8701",
        "trust": anchor[1].strip(),
        "ca_file": None,
        "state": str(state),
        "now": time.time(),
        "metric": "theme",
        "values": values,
    }
    script = ROOT / "tests" / "deploy" / "devices.py"
    code, said = beside(place.hosts["shuffler"], APP, script, json.dumps(told))
    assert code == 0, said
    truth = Counter(json.loads(said)["acknowledged"])
    assert truth.total() >= CROWD
    token = (place.folder / "secrets/analyst_token").read_text()

    def answer() -> tuple[int, str]:
        return composition.exec("aggregator", ["hubbub", "query", "theme", "--json"], {"HUBBUB_TOKEN": token})

    collection = Codebook.load(place.folder / "codebook.json").collection
    wait_for(lambda: answer()[0] == 0, patience=collection.grace + 10 + PATIENCE, step=1)
    segment = json.loads(answer()[1])["segments"][0]
    found = {row["value"]: row["estimate"] * segment["reports"] for row in segment["values"]}
    assert found == pytest.approx(truth, abs=1e-3)
    page = composition.exec("aggregator", ["python", "-c", STATUS.replace("/v1/status", "/metric/theme"), token])[1]
    assert "<svg" in page  # drawn where nothing can be written or executed but what came with the image
    ask = ["python", "-c", STATUS, token]
    assert json.loads(composition.exec("aggregator", ask)[1])["single_operator"] is True


STATUS = """
import sys, urllib.request
request = urllib.request.Request("http://127.0.0.1:8702/v1/status", headers={"Authorization": f"Bearer {sys.argv[1]}"})
print(urllib.request.urlopen(request).read().decode())
"""
CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
"""


def test_each_service_reaches_its_own_redis_and_not_the_other_ones(composition: Composition, place: Lab) -> None:
    address = {
        line.split()[1]: line.split()[0]
        for host in place.hosts.values()
        for line in host.hosts.read_text().splitlines()
        if line.split()[1].endswith("-redis")
    }
    assert len(address) == 2
    for name, other in (("shuffler", "aggregator"), ("aggregator", "shuffler")):
        assert composition.exec(name, ["python", "-c", CONNECT, f"{name}-redis", "6379"])[0] == 0
        code, said = composition.exec(name, ["python", "-c", CONNECT, address[f"{other}-redis"], "6379"])
        assert code == 1
        assert "Network is unreachable" in said


def test_redis_lets_a_service_do_its_work_and_nothing_that_undoes_it(composition: Composition, place: Lab) -> None:
    for name in ("shuffler", "aggregator"):
        assert "Set append" not in composition.log(name)  # it would warn of anything less durable
        assert "does not let us see" not in composition.log(name)
        url = (place.folder / "secrets" / f"{name}_storage").read_text()
        cli = ["redis-cli", "-u", url.replace(f"@{name}-redis", "@127.0.0.1"), "--no-auth-warning"]
        assert composition.exec(f"{name}-redis", [*cli, "ping"]) == (0, "PONG\n")
        for forbidden in (
            ["FLUSHALL"],
            ["CONFIG", "SET", "appendonly", "no"],
            ["KEYS", "*"],
            ["REPLICAOF", "192.0.2.1", "6379"],
        ):
            assert "NOPERM" in composition.exec(f"{name}-redis", [*cli, *forbidden])[1]
        without = ["redis-cli", "get", "x"]
        assert "NOPERM" in composition.exec(f"{name}-redis", without)[1]


def test_metrics_need_the_token_of_their_service(composition: Composition, place: Lab) -> None:
    for name, port in (("shuffler", 9701), ("aggregator", 9702)):
        token = (place.folder / "secrets" / f"{name}_admin_token").read_text()
        scrape = STATUS.replace("8702/v1/status", f"{port}/metrics")
        assert f"hubbub_{name}_storage_durable 1.0" in composition.exec(name, ["python", "-c", scrape, token])[1]
        assert "401" in composition.exec(name, ["python", "-c", scrape, "wrong"])[1]


@pytest.mark.usefixtures("composition")
def test_no_secret_is_in_the_environment_or_the_command_line_of_a_container(place: Lab) -> None:
    secrets = [path.read_bytes() for path in (place.folder / "secrets").iterdir() if "acl" not in path.name]
    looked = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid not in (10_001, 999):
                continue
            seen = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        looked += 1
        assert not any(secret in seen for secret in secrets)
    assert looked >= 4
