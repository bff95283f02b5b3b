"""Write tests/vectors/v1/codebook.json: codebooks with their canonical form and ids, for every implementation.

The ids of version 1 must never change: run this to add a case, and review the diff before committing it. Every
mechanism is named in these files, so that a better default does not change an id here.
"""

from __future__ import annotations

import json
from pathlib import Path

from hubbub.canonical import canonical_bytes
from hubbub.codebook import Codebook

VECTORS = Path(__file__).parent.parent / "tests" / "vectors" / "v1" / "codebook.json"

EVERY_TYPE = """
[collection]
name = "photo-app"
period = "1d"
device_epsilon = 6.5
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.dark_mode]
type = "boolean"
epsilon = 1.0
description = "Whether the dark theme is on"
owner = "ui-team@example.com"
expires = 2027-06-30

[metrics.theme]
type = "category"
values = ["light", "dark", "sépia", "other"]
other = "other"
missing = "light"
epsilon = 2.0
mechanism = "krr"

[metrics.startup_ms]
type = "mean"
bounds = [0, 5000]
epsilon = 1
mechanism = { name = "laplace", steps = 16 }
share = 0.3

[metrics.temperature]
type = "mean"
bounds = [-40.5, 85.25]
missing = 21.5
reduce = "max"
epsilon = 1.5
mechanism = "duchi"
min_batch = 1000

[metrics.consent_asked]
type = "boolean"
reduce = "reservoir"
epsilon = 1
enabled = false
"""

SMALLEST = """
[collection]
name = "a"
period = "1w"
grace = "6h"
forward_horizon = "2w"
device_epsilon = 0.1
release = { epsilon = 1, delta = 0.000000001 }
honest_fraction = 1

[metrics.b]
type = "boolean"
epsilon = 0.1
"""

MATRIX = """
[collection]
name = "survey"
period = "6h"
device_epsilon = 1
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.asked]
type = "category"
values = ["yes", "no"]
epsilon = 1
mechanism = { name = "matrix", matrix = [[0.7, 0.4], [0.3, 0.6]] }
"""


UNIT = """
[collection]
name = "units"
period = "1d"
device_epsilon = 1
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.startup]
type = "mean"
bounds = [0, 5000]
unit = "ms"
reduce = "median"
epsilon = 1
mechanism = "duchi"
"""
"""A unit is part of the compiled form, but not of the identity, so it does not affect the id."""


def vector(toml: str) -> dict[str, object]:
    """One codebook with everything that another implementation must reproduce."""
    codebook = Codebook.from_toml(toml)
    return {
        "toml": toml,
        "codebook_id": codebook.id.hex(),
        "compiled": codebook.to_bytes().decode("ascii"),
        "metrics": [
            {
                "name": metric.name,
                "id": metric.id.hex(),
                "identity": canonical_bytes(metric.identity()).decode("ascii"),
            }
            for metric in codebook.metrics
        ],
    }


if __name__ == "__main__":
    VECTORS.write_text(
        json.dumps([vector(toml) for toml in (EVERY_TYPE, SMALLEST, MATRIX, UNIT)], indent=1) + "\n", encoding="ascii"
    )
    print(f"wrote {VECTORS.name}")
