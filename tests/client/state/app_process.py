"""One of several processes of an app that share a state directory. On its clock a day takes a quarter of a second.

python -m tests.client.state.app_process ADDRESS STATE_DIRECTORY

It is told on its input at which real time its time begins. No day ends before it has recorded a theme in it, also on
a slow machine. At the end it prints for which of these days it did, and its counters.

The clocks of slow members are days behind, as no two clocks of one device are. They would take what others recorded for
values of a wrong clock, and one that is killed would not record them again: so no process here looks a second time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from hubbub_client import Client
from hubbub_client._state import confirm_elapsed
from tests.client.world import DAY, START, period_of

DAYS = 8
SECONDS_A_DAY = 0.25


def main(address: str, directory: str) -> None:
    confirm_elapsed.SECOND_LOOK = 1_000.0 * DAY
    began: float | None = None
    recorded: set[int] = set()

    def clock() -> float:
        """Stops when the days are over: what was recorded can be sent however slow the machine is."""
        passed = 0.0 if began is None else min(time.time() - began, DAYS * SECONDS_A_DAY)
        return min(START + 1_000 + passed * DAY / SECONDS_A_DAY, START + (len(recorded) + 1) * DAY - 1)

    client = Client(
        address, trust=None, consent=True, state_dir=Path(directory), clock=clock, max_epsilon=100.0, background=False
    )
    client.flush(60)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    began = float(sys.stdin.readline())
    end = START + 1_000 + DAYS * DAY  # when the clock stops
    last = period_of(START) + DAYS - 1
    while (now := clock()) < end:
        if client.record("theme", "dark") == "recorded" and period_of(now) == period_of(clock()) <= last:
            recorded.add(period_of(now))
        client.record("startup_ms", 7)
        client.flush(0.2, now=True)
    client.flush(60, now=True)
    sys.stdout.write(json.dumps({"recorded": sorted(recorded), "counters": client.stats()}) + "\n")
    sys.stdout.flush()
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
