"""Devices that report through the SDK, each with its own state: run as a script, told everything as JSON.

    python devices.py '{"address", "trust", "ca_file", "state", "now", "metric", "values", "patience": ...}'

Prints what became of them, as JSON: which values were acknowledged, and the SDK's counters, summed over all of them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from hubbub_client import Client

__all__ = ["report"]


def report(given: dict[str, Any]) -> dict[str, Any]:
    counts, acknowledged = Counter[str](), []
    for number, value in enumerate(given["values"]):
        client = Client(
            given["address"],
            trust=given["trust"],
            consent=True,
            state_dir=Path(given["state"]) / str(number),
            ca_file=given["ca_file"],
            max_epsilon=None,
            min_period=None,
            background=False,
            clock=lambda: float(given["now"]),  # all in one period, however long it takes
        )
        client.flush(timeout=0)  # fetches the bundle
        client.record(given["metric"], value)
        client.flush(timeout=given.get("patience", 30), now=True)
        counts.update(client.stats())
        acknowledged += [value] * client.stats().get("acknowledged", 0)
        client.close()
    return {"counts": counts, "acknowledged": acknowledged}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(report(json.loads(sys.argv[1]))))
