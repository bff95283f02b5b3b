"""Two thousand simulated players in each of four periods: a number needs a crowd.

Run `hubbub up` in this folder, then in a second terminal: python crowd.py
"""

import random
import sys
import time

from hubbub.period import Calendar
from hubbub_client.testing import Fleet

PLAYERS, PERIODS = 2_000, 4


def players(crashing: float) -> dict[str, list[object]]:
    """What each of them did in a period: a value for each metric, or None where nothing was recorded."""
    chances = random.SystemRandom()
    return {
        "difficulty": chances.choices(["easy", "normal", "hard", None], [0.3, 0.4, 0.2, 0.1], k=PLAYERS),
        "levels": [min(20, int(chances.expovariate(0.25))) for _ in range(PLAYERS)],
        "load_ms": [chances.gauss(800, 250) for _ in range(PLAYERS)],
        "opened_shop": [chances.random() < 0.15 for _ in range(PLAYERS)],
        "crashed": [chances.random() < crashing for _ in range(PLAYERS)],
        "active_a_week_ago": [chances.random() < 0.45 for _ in range(PLAYERS)],
    }


def main(address: str = "http://127.0.0.1:8701", periods: str = str(PERIODS)) -> None:
    calendar = Calendar.parse("10s")
    with Fleet(address) as fleet:
        for number in range(int(periods)):
            period = calendar.at(time.time())
            played = players(crashing=0.05 + 0.05 * number)  # each version is worse than the last
            for metric, values in played.items():
                fleet.report(metric, values, period)
            crashed = played["crashed"].count(True) / PLAYERS
            print(f"{period.label}: {PLAYERS:,} players, {crashed:.1%} of them crashed", flush=True)
            time.sleep(max(0, calendar.period(period.index + 1).start - time.time()))
    print("the last period closes in half a minute; ask with: hubbub query crashed --series")


if __name__ == "__main__":
    main(*sys.argv[1:])
