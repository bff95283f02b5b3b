"""Cost of one private report for a device, as a multiple of one call of the operating system's generator.

The goal is 30 us for one value on the machine at hand. Only the ratio can be compared between machines.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.table import Row, at_most, show
from hubbub.mechanisms import BinaryRandomizedResponse as Binary
from hubbub.mechanisms import (
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    DuchiMean,
    HybridMean,
    KaryRandomizedResponse,
    MatrixResponse,
    PiecewiseMean,
    TableMean,
)
from hubbub.randomness import SystemBulkRandomness, SystemRandomness

GOAL = 30.0
RANGE = Bounds(Fraction(0), Fraction(5000))


def microseconds(call: Callable[[], object], times: int = 2000, rounds: int = 9) -> float:
    """CPU time of one call: the median of several rounds, since other work shares the machine."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(times):
            call()
        found.append((time.process_time() - start) / times * 1e6)
    return statistics.median(found)


def rows(*, long: bool = False) -> list[Row]:
    """For each mechanism, one value by the operating system's generator, compared with one call of that generator."""
    times, rounds = (2_000, 9) if long else (1_000, 5)
    rng, bulk = SystemRandomness(), SystemBulkRandomness()
    limit = microseconds(lambda: os.urandom(8))
    cases: list[tuple[Any, Any]] = [
        (Binary.calibrate(1, Categories(2)), True),
        (KaryRandomizedResponse.calibrate(1, Categories(16)), 3),
        (KaryRandomizedResponse.calibrate(4, Categories(65_536)), 3),
        (MatrixResponse.examples(1)[1], 2),
        (DuchiMean.calibrate(1, RANGE), 812.3),
        (DiscreteLaplaceMean.calibrate(1, RANGE), 812.3),
        (DiscreteLaplaceMean.calibrate(4, RANGE), 812.3),
        (DiscreteLaplaceMean.calibrate("0.123457", RANGE), 812.3),
        (TableMean.calibrate(1, RANGE), 812.3),
        (TableMean.calibrate(4, RANGE), 812.3),
        (HybridMean.calibrate(4, RANGE), 812.3),
        (PiecewiseMean.calibrate(4, RANGE), 812.3),
    ]
    found = []
    for mechanism, value in cases:
        one = microseconds(lambda m=mechanism, v=value: m.randomize(v, rng), times, rounds)  # type: ignore[misc]  # bound early on purpose
        size = f"{len(mechanism.inputs())} values" if isinstance(mechanism.domain, Categories) else "a range"
        name = f"randomize: {mechanism.name} eps {float(mechanism.epsilon):g}, {size}"
        found.append(Row(name, one, "us", "one os.urandom(8)", limit, at_most(GOAL, "figure")))
        if long:
            many = np.full(100_000, value)
            each = microseconds(lambda m=mechanism, v=many: m.randomize_many(v, bulk), 1, 5) / len(many)  # type: ignore[misc]  # as above
            found.append(Row(f"{name}, in bulk", each, "us", "one value at a time", one))
    return found


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
