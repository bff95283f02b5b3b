"""Five hundred simulated devices, of which 150 use the dark theme: a number needs a crowd.

Run `hubbub up`, then: python examples/first_number/crowd.py
"""

import random
import sys

from hubbub_client.testing import Fleet

DARK, DEVICES = 150, 500


def main(address: str = "http://127.0.0.1:8701") -> None:
    with Fleet(address) as fleet:
        period = fleet.period_of()  # the current one, for both metrics
        delivered = fleet.report("dark_mode", [number < DARK for number in range(DEVICES)], period)
        fleet.report("startup_ms", [random.gauss(900, 200) for _ in range(DEVICES)], period)
    print(f"{delivered.acknowledged} devices reported for {period.label}; ask for it in half a minute")


if __name__ == "__main__":
    main(*sys.argv[1:])
