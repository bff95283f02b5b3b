"""The smallest app that reports. Run `hubbub up`, then: python examples/first_number/app.py"""

import sys
import time

from hubbub_client import Client


def main(address: str = "http://127.0.0.1:8701", state_dir: str = "app-state") -> None:
    client = Client(
        address,
        trust=None,  # only for an address on this machine; otherwise the trust anchor that the aggregator prints
        consent=True,  # only here, since you are the person; a real app asks
        state_dir=state_dir,
        min_period=None,  # only here: ten seconds are too short for a real device
        max_epsilon=None,  # only here: with such periods, a day's budget is spent after the fourth one
    )
    client.flush(timeout=5)  # a real app need not: the codebook comes by itself, and values wait for it
    client.record("dark_mode", True)
    client.record("startup_ms", 812.0)
    print(client.preview())

    time.sleep(10)  # the period ends
    client.flush(timeout=5, now=True)  # a real app need not: reports leave by themselves, after a random delay
    print(client.stats())
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
