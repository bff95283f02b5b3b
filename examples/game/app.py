"""A game that answers six questions. Run `hubbub up` in this folder, then in a second terminal: python app.py

Copy it: `Telemetry` is the only part that knows the codebook, with one method for each thing that happens.
"""

import json
import random
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hubbub_client import Client


class Telemetry:
    """What the game records: each method is one event, and what becomes of it is in metrics.toml."""

    def __init__(self, client: Client, home: Path) -> None:
        self._client, self._file = client, home / "game.json"
        self._days: list[str] = []  # when it was played; they stay on the device
        self._unfinished = False  # whether the last run did not say goodbye
        if self._file.exists():
            self._days, self._unfinished = json.loads(self._file.read_text())

    def started(self, now: datetime) -> None:
        self._client.record("active_a_week_ago", str((now - timedelta(days=7)).date()) in self._days)
        self._client.record("crashed", self._unfinished)  # a crash is noticed when the game is opened again
        self._days = [*self._days[-30:], str(now.date())]
        self._file.write_text(json.dumps([self._days, True]))

    def chose(self, difficulty: str) -> None:
        self._client.record("difficulty", difficulty)  # a word that is not in the list counts as "other"

    def loaded(self, seconds: float) -> None:
        self._client.record("load_ms", 1000 * seconds)

    def finished_level(self) -> None:
        self._client.record("levels", 1)  # the device adds them up and reports one sum, at most 20

    def opened_shop(self) -> None:
        self._client.record("opened_shop", True)

    def ended(self) -> None:
        self._file.write_text(json.dumps([self._days, False]))


def play(telemetry: Telemetry) -> None:
    """Stands for an evening of a player."""
    telemetry.chose("hard")
    for _ in range(3):
        telemetry.loaded(random.SystemRandom().uniform(0.3, 0.9))
        telemetry.finished_level()
    telemetry.opened_shop()


def main(address: str = "http://127.0.0.1:8701", home: str = "game-home") -> None:
    Path(home).mkdir(parents=True, exist_ok=True)
    with Client(
        address,
        trust=None,  # only for an address on this machine; elsewhere the line that `hubbub up` prints
        consent=True,  # only here, where you are the person; an app asks
        state_dir=Path(home, "telemetry"),
        min_period=None,  # only here: ten seconds are too short for a real device
        max_epsilon=None,  # only here: with such periods, a day's budget is spent after the first one
    ) as client:
        client.flush(timeout=5)  # only here: an app need not wait for the codebook
        telemetry = Telemetry(client, Path(home))
        telemetry.started(datetime.now(UTC))
        play(telemetry)
        telemetry.ended()
        print(client.preview())
        time.sleep(10)  # only here: the period ends, and reports leave
        client.flush(timeout=5, now=True)
        print(client.preview())


if __name__ == "__main__":
    main(*sys.argv[1:])
