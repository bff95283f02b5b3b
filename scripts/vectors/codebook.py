"""tests/vectors/v1/codebook.json: codebooks with their canonical form and ids.

The ids of version 1 must never change.
Every mechanism is named in these files, so that a better default does not move an id here.
"""

from __future__ import annotations

from hubbub.canonical import canonical_bytes
from hubbub.codebook import Codebook

__all__ = ["CODEBOOKS", "EVERY_TYPE", "MATRIX", "SMALLEST", "codebooks"]

_WORDS = '["red", "green", "blue", "black", "white"]'

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
"""A unit is in the compiled form and not in the identity, so that it is no part of the id."""

MECHANISMS = """
[collection]
name = "mechanisms"
period = "1h"
device_epsilon = 20
release = { epsilon = 0.5, delta = 1e-8 }
""" + "".join(
    f"""
[metrics.{name.replace("-", "_")}]
{holds}
epsilon = {epsilon}
mechanism = {named}
"""
    for name, holds, epsilon, named in (
        ("rr", 'type = "boolean"', 1, '"rr"'),
        *(
            (name, f'type = "category"\nvalues = {_WORDS}', 1.25, f'"{name}"')
            for name in ("krr", "hadamard", "linear-hash", "olh", "oue", "subset", "sue")
        ),
        (
            "matrix",
            'type = "category"\nvalues = ["a", "b"]',
            1,
            '{ name = "matrix", matrix = [[0.6, 0.3], [0.3, 0.6], [0.1, 0.1]] }',
        ),
        *(
            (name, 'type = "mean"\nbounds = [-1, 3]', 1.5, f'"{name}"')
            for name in ("duchi", "hybrid", "laplace", "piecewise", "table")
        ),
    )
)
"""Every mechanism."""

CHARACTERS = r"""
[collection]
name = "characters-_9"
period = "15m"
device_epsilon = 4
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.letters]
type = "category"
values = ["é", "e\u0323\u0301", "\U0001F600", "\uFFFD", "\u200Bx", "\"", "\\", "/", "<&>", "ﬁ", "Å", "가", "a b"]
epsilon = 1
mechanism = "krr"
description = "tab \t, line \n, return \r, null \u0000, delete \u007F, next \u0085, \U0001D11E, \uFFFF, \U0010FFFF"
owner = "\b\f\u001F"

[metrics.e]
type = "boolean"
epsilon = 1

[metrics.e1]
type = "boolean"
epsilon = 1

[metrics.e_]
type = "boolean"
epsilon = 1
"""
"""Characters that two writers of JSON may escape differently or that NFC changes, and names that they may sort so."""

NUMBERS = """
[collection]
name = "numbers"
period = "1s"
grace = "520w"
delay = "1s"
forward_horizon = "520w"
device_epsilon = 30.0001
release = { epsilon = 0.00000000000000000001, delta = 1e-300 }
honest_fraction = 0.123456789012345678901234567890

[metrics.largest]
type = "boolean"
epsilon = 30
min_batch = 1_000_000
share = 0.999999999999999999999

[metrics.smallest]
type = "mean"
bounds = [1e-100, 1e100]
missing = 1e-100
epsilon = 0.0001
min_batch = 2
share = 1e-30
mechanism = { name = "laplace", steps = 1 }
expires = 9999-12-31
"""
"""The smallest and the largest numbers."""

REDUCERS = """
[collection]
name = "reducers"
period = "2w"
grace = "1d"
delay = "12h"
device_epsilon = 30
release = { epsilon = 0.5, delta = 1e-8 }
""" + "".join(
    f"""
[metrics.{name}_{kind}]
{holds}
reduce = "{name}"
epsilon = 0.5
"""
    for kind, holds, names in (
        ("flag", 'type = "boolean"\nmechanism = "rr"', ("first", "last", "max", "min", "most_common", "reservoir")),
        (
            "number",
            'type = "mean"\nbounds = [0, 1]\nmechanism = "duchi"',
            ("first", "last", "mean", "median", "sum", "max", "min", "reservoir"),
        ),
        (
            "count",
            'type = "mean"\nbounds = [0, 100]\nmissing = 0\nmechanism = "duchi"',
            ("count",),
        ),
        (
            "word",
            'type = "category"\nvalues = ["a", "b"]\nmissing = "a"\nmechanism = "krr"',
            ("first", "last", "most_common", "reservoir"),
        ),
    )
    for name in names
)
"""Every reducer with every type that it fits."""

TOTAL = """
[collection]
name = "capped"
period = "1d"
device_epsilon = 1
release = { epsilon = 0.5, delta = 1e-8 }
total = { epsilon = 3.0, delta = 1e-6, over = "365d" }

[metrics.flag]
type = "boolean"
epsilon = 1
missing = false
min_batch = 5000
"""
"""A cap over time, which devices ignore."""

DISTRIBUTIONS = """
[collection]
name = "distributions"
period = "1d"
device_epsilon = 10
release = { epsilon = 0.5, delta = 1e-8 }

[metrics.startup]
type = "distribution"
bounds = [10, 10000]
bins = 12
edges = "log"
unit = "ms"
missing = 10
epsilon = 2
mechanism = { name = "ladder", sets = [[1, 2, 30000], [3, 1, 10000]], windows = [[3, 25536]] }

[metrics.delay]
type = "distribution"
bounds = [-61.5, 300]
bins = 7
reduce = "max"
epsilon = 1
mechanism = { name = "tree", sets = [[1, 2, 40000], [4, 1, 25536]] }

[metrics.size]
type = "distribution"
edges = [0, 0.5, 2.5, 1e3]
epsilon = 1
mechanism = "subset"

[metrics.levels]
type = "count"
cap = 500
bins = 12
missing = 0
epsilon = 1
mechanism = { name = "tree", sets = [[1, 3, 40000], [4, 1, 25536]] }
"""
"""Bins of each kind, with each mechanism over bins. Components are named, as every mechanism is."""

CODEBOOKS = (EVERY_TYPE, SMALLEST, MATRIX, UNIT, MECHANISMS, CHARACTERS, NUMBERS, REDUCERS, TOTAL, DISTRIBUTIONS)


def codebooks() -> list[dict[str, object]]:
    return [_vector(toml) for toml in CODEBOOKS]


def _vector(toml: str) -> dict[str, object]:
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
