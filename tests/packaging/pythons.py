"""Python versions that the distribution names, where this machine has them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts.dist import ROOT

__all__ = ["find", "here", "named"]


def named() -> list[str]:
    """Versions that the classifiers promise, such as 3.12."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = [line.rpartition(" :: ")[2] for line in said if line.startswith("Programming Language :: Python :: 3.")]
    return sorted(versions, key=lambda version: int(version.partition(".")[2]))


def here() -> str:
    """The version that runs the tests."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def find(version: str) -> Path:
    """An interpreter of this version: the one that runs the tests, one from PATH, or one of pyenv. Else no test."""
    if version == here():
        return Path(sys.executable)
    on_path = shutil.which(f"python{version}")
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for python in [*([Path(on_path)] if on_path else []), *pyenv]:
        asked = subprocess.run([python, "-c", "import venv, sqlite3, ssl"], capture_output=True, check=False)
        if asked.returncode == 0:  # a shim may be there with nothing behind it
            return python
    pytest.skip(f"python{version} is not installed here")
