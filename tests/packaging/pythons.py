"""Pythons that the distribution names and this machine has."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from scripts.dist import ROOT

__all__ = ["named", "others"]


def named() -> list[str]:
    """Versions that the classifiers promise, such as 3.12."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    versions = [line.rpartition(" :: ")[2] for line in said if line.startswith("Programming Language :: Python :: 3.")]
    return sorted(versions, key=lambda version: int(version.partition(".")[2]))


def others() -> list[Path]:
    """One interpreter of each of these but the one that runs the tests: from PATH, or of pyenv."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = (_find(version) for version in named() if version != here)
    return [python for python in found if python is not None]


def _find(version: str) -> Path | None:
    on_path = shutil.which(f"python{version}")
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for python in [*([Path(on_path)] if on_path else []), *pyenv]:
        asked = subprocess.run([python, "-c", "import venv, sqlite3, ssl"], capture_output=True, check=False)
        if asked.returncode == 0:  # a shim may be there with nothing behind it
            return python
    return None
