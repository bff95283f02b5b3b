"""The systemd units: each service has its own user, state and secrets, and few rights beside them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.client.http.bad_servers import Authority
from tests.deploy.network_namespaces import ROOT, lab, why_not
from tests.support.patience import PATIENCE, wait_for

UNITS = ROOT / "deploy" / "systemd"
SERVICES = ("shuffler", "aggregator")
MOST_EXPOSED = 2.0
"""systemd-analyze security: 0 is walled in, 10 is as exposed as can be; an ordinary unit has 9.6."""
TOOL = shutil.which("systemd-analyze")
HUBBUB = Path(sys.executable).parent / "hubbub"


def settings(service: str) -> dict[str, list[str]]:
    """Every line of a unit, by its name; one that may come several times has several values."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / f"hubbub-{service}.service").read_text().splitlines():
        name, sign, value = line.partition("=")
        if sign and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_a_unit_has_a_user_a_state_and_secrets_of_its_own(service: str) -> None:
    unit = settings(service)
    assert unit["User"] == [f"hubbub-{service}"]
    assert unit["StateDirectory"] == [f"hubbub-{service}"]
    assert unit["StateDirectoryMode"] == ["0700"]
    assert f"u hubbub-{service} " in (UNITS / f"hubbub-{service}.sysusers.conf").read_text()
    other = (set(SERVICES) - {service}).pop()
    assert not [line for lines in unit.values() for line in lines if f"/etc/hubbub/{other}" in line]


@pytest.mark.parametrize("service", SERVICES)
def test_every_credential_is_loaded_and_used(service: str) -> None:
    unit = settings(service)
    loaded = {line.partition(":")[0] for line in unit["LoadCredential"]}
    used = set(re.findall(r"%d/([a-z-]+)", " ".join(unit["Environment"])))
    assert loaded == used
    assert all(f":/etc/hubbub/{service}/" in line for line in unit["LoadCredential"])


def test_nothing_that_is_deleted_can_come_back_from_a_dump_or_the_swap() -> None:
    for service in SERVICES:
        unit = settings(service)
        assert unit["LimitCORE"] == ["0"]
        assert unit["MemorySwapMax"] == ["0"]


@pytest.mark.parametrize("service", SERVICES)
def test_systemd_takes_the_unit_and_finds_it_well_walled(service: str, tmp_path: Path) -> None:
    if TOOL is None:
        pytest.skip("no systemd-analyze here: apt-get install systemd; other tests read the units themselves")
    name = f"hubbub-{service}.service"
    text = (UNITS / name).read_text().replace("/opt/hubbub/bin/hubbub", "/bin/true")  # which need not be installed
    (tmp_path / name).write_text(text)
    verified = subprocess.run([TOOL, "verify", tmp_path / name], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    rated = subprocess.run(
        [TOOL, "security", "--offline=yes", "--no-pager", tmp_path / name],
        capture_output=True,
        text=True,
        env={**os.environ, "SYSTEMD_COLORS": "0"},
        check=False,
    )
    exposure = re.search(rf"Overall exposure level for {name}: ([0-9.]+)", rated.stdout)
    assert exposure, rated.stdout + rated.stderr
    assert float(exposure[1]) <= MOST_EXPOSED


DENY = """
import ctypes, os, sys
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
assert ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) == 0, "this kernel cannot"
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.full
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "never")
def test_the_shuffler_starts_as_its_unit_says_with_memory_that_cannot_become_code() -> None:
    """Its environment, file and credentials, under a user without rights; without systemd, which does the rest."""
    kernel = tuple(map(int, os.uname().release.split(".")[:2]))
    if kernel < (6, 3):
        pytest.skip("a kernel before 6.3 cannot deny it without systemd's own filter")
    unit = settings("shuffler")
    assert unit["MemoryDenyWriteExecute"] == ["yes"]
    user = 64_106
    with lab() as here, ExitStack() as stack:
        certificate, key = Authority(here.folder).write(["shuffler.example.com"])
        credentials = here.folder / "credentials"
        credentials.mkdir(mode=0o700)
        for name, content in (
            ("forward-token", "t" * 64 + "\n"),
            ("certificate.pem", certificate.read_text()),
            ("key.pem", key.read_text()),
        ):
            (credentials / name).write_text(content)
            os.chown(credentials / name, user, user)
        state = here.folder / "state"
        state.mkdir(mode=0o700)
        for folder in (state, credentials):
            os.chown(folder, user, user)
        environment = dict(line.split("=", 1) for line in unit["Environment"])
        environment = {
            name: re.sub("^(%d|/etc/hubbub/shuffler-tls)/", f"{credentials}/", value).replace(
                "%S/hubbub-shuffler", str(state)
            )
            for name, value in environment.items()
        }
        lines = (UNITS / "shuffler.env").read_text().splitlines()
        environment |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
        environment["HUBBUB_SHUFFLER_TRUST"] = "ed25519:" + "A" * 43
        host = here.host("shuffler")
        log = stack.enter_context((here.folder / "log").open("wb"))
        command = [sys.executable, "-c", DENY, str(HUBBUB), *unit["ExecStart"][0].split()[1:]]
        process = host.start(command, user=user, environment=environment, log=log, needs=[ROOT])
        stack.callback(process.wait, PATIENCE)
        stack.callback(process.kill)

        def alive() -> bool:
            assert process.poll() is None, (here.folder / "log").read_text()
            health = [str(HUBBUB), "health", "shuffler", "--alive"]
            return host.run(health, user=user, environment=environment, needs=[ROOT]) == (0, "shuffler: alive\n")

        wait_for(alive, step=0.5)
        assert "Shuffler ready at https://0.0.0.0:8701" in (here.folder / "log").read_text()
