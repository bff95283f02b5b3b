"""A command that runs for a moment: python examples/command_line.py convert, or telemetry on | off | show.

A later run reports what this one records, so that no one waits for the network at the end of a command.
"""

import argparse
import os
import time
from pathlib import Path

from hubbub_client import Client

HOME = Path(os.environ.get("PHOTOS_STATE", Path.home() / ".photos"))
ANSWER = HOME / "telemetry"
CODEBOOK = Path(__file__).with_name("metrics.toml")  # better the codebook.json of `hubbub codebook compile`


def has_agreed() -> bool:
    """Whether the person has said yes, with `telemetry on`. No answer means no."""
    return ANSWER.exists() and ANSWER.read_text() == "yes"


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["convert", "telemetry"])
    parser.add_argument("answer", nargs="?", choices=["on", "off", "show"], default="show")
    chosen = parser.parse_args()

    with Client(
        os.environ.get("PHOTOS_SHUFFLER", "http://127.0.0.1:8701"),
        trust=os.environ.get("PHOTOS_TRUST"),
        consent=has_agreed,
        state_dir=HOME / "telemetry-state",
        codebook=os.environ.get("PHOTOS_CODEBOOK", CODEBOOK),  # so that `show` says what is asked before anyone agrees
    ) as client:  # closing takes at most two seconds; atexit would close it too
        if chosen.command == "convert":
            client.record("startup_ms", 1000 * (time.monotonic() - began))
            client.record("theme", "dark")
            print("converted")
        elif chosen.answer == "show":
            print(client.preview(), client.ledger(), sep="\n")
        else:
            HOME.mkdir(parents=True, exist_ok=True)
            ANSWER.write_text("yes" if chosen.answer == "on" else "no")
            changed = client.enable() if chosen.answer == "on" else client.disable()
            print(f"telemetry is {chosen.answer}" if changed else "this could not be saved")


if __name__ == "__main__":
    main()
