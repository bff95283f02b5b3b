"""`python -m hubbub_client`: what telemetry keeps on this device, and the switch to turn it off."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hubbub_client._consent.consent_and_withdrawal import withdraw
from hubbub_client._consent.opt_out_file import OptOut
from hubbub_client._display.inspection import CannotInspect, inspect
from hubbub_client._process.clock_and_entropy import wall
from hubbub_client._state.errors import NoDurableState

_DESCRIPTION = """\
What the telemetry of an app keeps on this device, and the switch to turn it off.

The state directory is the one that the app passes as state_dir; its documentation says where that is.
Nothing here uses the network.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    directory: Path = chosen.state_dir
    try:
        match chosen.command:
            case "inspect":
                found = inspect(directory, wall(), chosen.codebook)
                text = json.dumps(found.document(), indent=2, ensure_ascii=False) if chosen.json else str(found)
                sys.stdout.write(f"{text}\n")
            case "disable":
                sys.stdout.write(_disable(directory))
            case _:
                sys.stdout.write(_enable(directory))
    except CannotInspect as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hubbub_client", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help_ in {
        "inspect": "show what is kept, what will be sent and why it is deniable, and what was spent",
        "disable": "switch telemetry off for good: delete what is kept, except the record of what was spent",
        "enable": "take disable back; the app's own consent question still counts",
    }.items():
        command = commands.add_parser(name, help=help_, description=help_[0].upper() + help_[1:] + ".")
        command.add_argument("state_dir", type=Path, metavar="STATE_DIR", help="the app's state directory")
        if name == "inspect":
            command.add_argument("--json", action="store_true", help="print JSON")
            shipped = "the codebook that the app ships: shows what would be collected before anything is kept"
            command.add_argument("--codebook", type=Path, metavar="FILE", help=shipped)
    return parser


def _disable(directory: Path) -> str:
    if not directory.is_dir():
        raise CannotInspect(f"{directory} is not a directory: pass the app's state directory")
    if not OptOut(directory).give():
        raise CannotInspect(f"{directory} cannot be written to: nothing was changed")
    try:
        withdraw(directory, wall())
    except NoDurableState as error:
        raise CannotInspect(
            f"switched off, but what is kept could not be deleted ({error}): the app does so when it next runs"
        ) from error
    return f"Telemetry is switched off in {directory}. What was kept is deleted; the record of what was spent stays.\n"


def _enable(directory: Path) -> str:
    if not directory.is_dir():
        raise CannotInspect(f"{directory} is not a directory: pass the app's state directory")
    if not OptOut(directory).take_back():
        raise CannotInspect(f"{directory} cannot be written to: telemetry stays switched off")
    return f"Telemetry is no longer switched off in {directory}. It runs if the app has consent.\n"


if __name__ == "__main__":
    sys.exit(main())
