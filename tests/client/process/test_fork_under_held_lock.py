"""Children that can't import, or were forked under a held lock: they report nothing, and no call hangs or raises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.world import TOML, forks
from tests.support.paths import ROOT

IMPORTS = ["encodings.idna", "cryptography.hazmat.primitives.hpke", "hubbub.codebook"]

pytestmark = forks


def outcomes_of(what: str, directory: Path, *, packaged: bool, seconds: str = "") -> list[Any]:
    codebook = directory / "metrics.toml"
    codebook.write_text(TOML)
    state = directory / "state"
    named = [what, str(codebook) if packaged else "", str(state), *([seconds] if seconds else [])]
    run = subprocess.run(
        [sys.executable, "-m", "tests.client.process.fork_under_held_lock", *named],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    wrong, outcomes = json.loads(run.stdout)
    assert wrong == []
    return list(outcomes)


@pytest.mark.everyday("hubbub.codebook")
@pytest.mark.parametrize("module", IMPORTS)
def test_a_child_that_is_forked_while_the_app_itself_imports_hangs_nowhere(module: str, tmp_path: Path) -> None:
    packaged = module != "hubbub.codebook"  # which would be loaded by then
    recorded, _, _, flushed, *_ = outcomes_of(module, tmp_path, packaged=packaged)
    assert recorded == ("recorded" if packaged else "waiting")
    assert flushed is False


@pytest.mark.parametrize("module", ["sqlite3", "hubbub_client._assembly"])
@pytest.mark.parametrize("used", [True, False])
def test_a_child_that_cannot_make_its_first_client_says_so_in_time(module: str, used: bool, tmp_path: Path) -> None:
    """Also if nobody had used the SDK before the fork, but only imported it."""
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.client.process.fork_before_first_client",
            module,
            str(tmp_path),
            *(["used"] if used else []),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert run.stdout == "NoDurableState\n"


@pytest.mark.everyday("False")
@pytest.mark.parametrize("packaged", [True, False])
def test_a_child_of_a_fork_that_waited_in_vain_hangs_nowhere(packaged: bool, tmp_path: Path) -> None:
    outcomes = outcomes_of("gate", tmp_path, packaged=packaged, seconds="0.5")
    assert outcomes[3] is False


@pytest.mark.full
def test_a_child_of_a_fork_that_waited_in_vain_for_the_real_time_hangs_nowhere(tmp_path: Path) -> None:
    outcomes = outcomes_of("gate", tmp_path, packaged=True)
    assert outcomes[3] is False
