"""The distributions, built once for all test processes, and environments that hold nothing else."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from scripts.dist import NAME, ROOT, build
from tests.support.patience import PATIENCE

UV = str(Path(sys.executable).with_name("uv"))


@dataclass(frozen=True)
class Built:
    """The two distributions."""

    wheel: Path
    sdist: Path


@dataclass(frozen=True)
class Environment:
    """An environment with the wheel in it, and a folder to run in that has nothing else around."""

    path: Path
    home: Path

    @property
    def python(self) -> str:
        return str(self.path / "bin" / "python")

    @property
    def hubbub(self) -> str:
        return str(self.path / "bin" / "hubbub")

    @property
    def variables(self) -> dict[str, str]:
        """The variables of this process, without any that would let this tree or its settings in."""
        ours = ("PYTHON", "HUBBUB", "VIRTUAL_ENV")
        return {name: text for name, text in os.environ.items() if not name.startswith(ours)}

    def run(self, *command: str, code: int = 0, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run a command of this environment in its empty folder; it must end with this code."""
        ran = subprocess.run(
            command,
            cwd=self.home,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran

    def install(self, *what: str) -> None:
        """Packages in the versions of the lock: out of the cache that `make setup` filled, else from the index."""
        command = [
            UV,
            "pip",
            "install",
            "--quiet",
            "--python",
            self.python,
            "--constraints",
            str(ROOT / "requirements.lock"),
        ]
        for how in (["--offline"], [], ["--system-certs"]):
            ran = subprocess.run([*command, *how, *what], capture_output=True, text=True, timeout=300, check=False)
            if ran.returncode == 0:
                return
        raise AssertionError(ran.stderr)

    def installed(self) -> dict[str, str]:
        """Name and version of everything in it but the wheel."""
        listed = subprocess.run(
            [UV, "pip", "freeze", "--quiet", "--python", self.python], capture_output=True, text=True, check=True
        ).stdout
        pins = (line.partition("==") for line in listed.splitlines() if not line.startswith(f"{NAME} "))
        return {name: version for name, _, version in pins}


class Make(Protocol):
    """Makes an empty environment, for this Python unless another one is named."""

    def __call__(self, python: str = ...) -> Environment: ...


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Environments that are gone when the tests are over; in .venv, as where temporary files are nothing may run."""
    with ExitStack() as made:

        def make(python: str = sys.executable) -> Environment:
            kept = made.enter_context(tempfile.TemporaryDirectory(prefix="packaged-", dir=ROOT / ".venv"))
            found = Environment(Path(kept) / "environment", tmp_path_factory.mktemp("home"))
            subprocess.run([UV, "venv", "--quiet", "--python", python, str(found.path)], check=True)
            return found

        yield make


def once(folder: Path) -> Built:
    """Both distributions in this folder, built by whichever process is there first."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            build(folder)
    return Built(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Built:
    base = tmp_path_factory.getbasetemp()
    return once((base if worker_id == "master" else base.parent) / "dist")
