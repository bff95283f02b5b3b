"""A device for tests that kill it: records and sends without end, from the same first period at each start.

The client's own thread sends; the device flushes besides, so that both are at work when it is killed.

python -m tests.client.state.killed_device ADDRESS STATE_DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from hubbub_client import Client
from tests.client.world import DAY, START

PERIODS = 12


class Now:
    """Each start of the device sets its clock back to the beginning."""

    time = START + 1_000.0


def main(address: str, directory: str) -> None:
    client = Client(
        address, trust=None, consent=True, state_dir=Path(directory), clock=lambda: Now.time, max_epsilon=None
    )
    while not client.flush(0.5):
        pass
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for step in range(PERIODS):
        Now.time = START + step * DAY + 1_000.0
        client.record("theme", "dark")
        client.record("startup_ms", 100 * step)
        client._worker.wake(0.0)  # type: ignore[union-attr]  # it is there
        client.flush(0.5, now=True)
    while not client.flush(0.5, now=True):
        pass
    sys.stdout.write("done\n")
    sys.stdout.flush()
    sys.stdin.read()  # until it is killed


if __name__ == "__main__":
    main(*sys.argv[1:])
