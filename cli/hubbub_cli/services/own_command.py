"""How this command is typed: `hubbub` where that is on the PATH, or else the path by which it was started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

__all__ = ["own_command"]

_NAME = "hubbub"


def own_command() -> str:
    """What to print before a subcommand, so that it works when it is pasted into the same terminal."""
    beside = Path(sys.executable).with_name(_NAME)
    found = shutil.which(_NAME)
    if found is not None and os.path.samefile(found, beside if beside.exists() else found):
        return _NAME
    if os.access(beside, os.X_OK):
        return shlex.quote(_shorter(beside))
    return f"{shlex.quote(_shorter(Path(sys.executable)))} -m hubbub_cli"


def _shorter(path: Path) -> str:
    """The path from here, if that is not longer and does not climb."""
    near = os.path.relpath(path)
    return str(path) if near.startswith(os.pardir) or len(near) > len(str(path)) else near
