"""Three metric types and a mechanism that the product does not know: registered for a test, and taken away again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hubbub.mechanisms import register as register_mechanism
from hubbub.mechanisms._registry import _REGISTRY as MECHANISMS
from hubbub.metric_types import register as register_type
from hubbub.metric_types._registry import REGISTRY as TYPES
from tests.core.metric_types.toy_curve import Ladder
from tests.core.metric_types.toy_grid import PairOfAttributes
from tests.core.metric_types.toy_groups import AmountByGroup
from tests.core.metric_types.toy_mechanism import Shrug

CODEBOOK = """
[collection]
name = "toys"
period = "1d"
device_epsilon = 8
release = { epsilon = 1, delta = 1e-5 }
honest_fraction = 1

[metrics.look]
type = "pair"
attributes = [["theme", ["light", "dark"]], ["size", ["small", "medium", "large"]]]
epsilon = 2.5
mechanism = "shrug"
missing = { theme = "light", size = "small" }
reduce = "most_common"
description = "Theme and size, together"

[metrics.wait]
type = "ladder"
edges = [10, 20.5, 50]
epsilon = 2.5
description = "How long a start takes"

[metrics.minutes]
type = "by_group"
groups = ["plan", ["free", "paid", "team"]]
amounts = [0, 30, 90]
unit = "min"
epsilon = 2.5
mechanism = "krr"
description = "How long the app is open"
"""


@contextmanager
def registered_toys() -> Iterator[None]:
    """What a contributor's own files do when they are imported; for the time of a test."""
    register_mechanism("shrug")(Shrug)
    register_type("pair")(PairOfAttributes)
    register_type("ladder")(Ladder)
    register_type("by_group")(AmountByGroup)
    try:
        yield
    finally:
        for name in ("pair", "ladder", "by_group"):
            del TYPES[name]
        del MECHANISMS["shrug"]
