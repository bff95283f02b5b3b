"""tests/vectors/v1/ledger.json: what a device does over time, as traces."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from scripts.vectors.player import Player
from scripts.vectors.traces import shared, traces

__all__ = ["ledger", "played", "scripts"]


def ledger() -> dict[str, Any]:
    if found := {"DO_NOT_TRACK", "HUBBUB_DISABLED"} & os.environ.keys():
        raise SystemExit(f"unset {', '.join(found)}: a device that is switched off does nothing")
    written = scripts()
    return written | {"traces": [trace | {"events": played(trace, written)} for trace in written["traces"]]}


def scripts() -> dict[str, Any]:
    """The same before anything is played: no event says what follows from it."""
    written = [script.document() for script in traces()]
    return shared() | {"traces": written}


def played(trace: dict[str, Any], written: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a trace, each with what follows from it on a new device."""
    with tempfile.TemporaryDirectory() as directory:
        return Player(trace, written, Path(directory) / "state").played()
