"""The same work by the mechanisms that Hubbub chooses for it, with at most 32 bytes per report."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.mechanisms.work import EPSILONS, SIZES
from benchmarks.table import Row, at_most
from hubbub.mechanisms import Bounds, Categories, Mechanism, choose
from hubbub.mechanisms._least_variance import frequencies
from hubbub.randomness import SystemRandomness
from hubbub.simulation import InsecureBulkRandomness

UNIT = Bounds(Fraction(-1), Fraction(1))
REPEATS = {2: 4000, 16: 600, 128: 100, 1024: 20, 65_536: 3}
"""Repeats by size. Our mechanisms are quick, so they are measured more precisely than the others."""


class Shares(NamedTuple):
    """Estimates by repeat and item, and the cost of a report."""

    mechanism: Mechanism[Any]
    estimates: NDArray[np.float64]
    client: float
    """Microseconds of CPU to randomize one value."""
    server: float
    """Seconds of CPU to tally and estimate all reports of one repeat."""


def shares(values: NDArray[np.int64], size: int, epsilon: float, repeats: int | None = None) -> Shares:
    mechanism = choose(Categories(size), epsilon)
    rng = InsecureBulkRandomness(1000 * size + round(100 * epsilon))
    found, server = [], []
    for _ in range(repeats or REPEATS[size]):
        reports = mechanism.randomize_many(values, rng)
        start = time.process_time()
        found.append(mechanism.estimate(mechanism.tally(reports)).values)
        server.append(time.process_time() - start)
    return Shares(mechanism, np.array(found), one_report(mechanism, int(values[0])), statistics.median(server))


def one_report(mechanism: Mechanism[Any], value: Any, times: int = 500) -> float:
    """Microseconds of CPU for one value, by the operating system's generator: the median of several rounds."""
    rng = SystemRandomness()
    return 1e6 / times * _median(lambda: [mechanism.randomize(value, rng) for _ in range(times)])


def server_seconds(size: int, epsilon: float, reports: int = 100_000) -> tuple[str, float]:
    """The mechanism, and its CPU seconds to tally and estimate this many reports."""
    mechanism = choose(Categories(size), epsilon)
    drawn = mechanism.randomize_many(np.arange(reports) % size, InsecureBulkRandomness(3))
    return mechanism.name, _median(lambda: mechanism.estimate(mechanism.tally(drawn)), 3)


def _median(call: Callable[[], object], rounds: int = 5) -> float:
    found = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return statistics.median(found)


def rows(*, long: bool = False) -> list[Row]:
    """Without other libraries: the worst stated error over epsilons, compared with the optimum, and the cost."""
    found = []
    for size in SIZES:
        made = [choose(Categories(size), epsilon) for epsilon in EPSILONS]
        errors = [(m.typical_variance(), frequencies(size, e)) for m, e in zip(made, EPSILONS, strict=True)]
        worst, least = max(errors, key=lambda pair: pair[0] / pair[1])
        found.append(Row(f"default for {size:,} values: n x variance", worst, "", "the optimum", least, at_most(1.10)))
        device = max(one_report(each, 1, 500 if long else 100) for each in made)
        goal = at_most(50, "figure") if size <= 1024 else None
        found.append(Row(f"default for {size:,} values: randomize", device, "us", goal=goal))
    size = max(SIZES)
    server = max(server_seconds(size, epsilon)[1] for epsilon in EPSILONS)
    found.append(
        Row(f"tally and estimate 100,000 reports, {size:,} values", server, "s of CPU", "limit", 0.3, at_most(1))
    )
    return found


def numbers(values: NDArray[np.float64], epsilon: float) -> tuple[str, NDArray[np.float64]]:
    """The mechanism, and for each value the estimate from its report alone."""
    mechanism = choose(UNIT, epsilon)
    reports = np.asarray(mechanism.randomize_many(values, InsecureBulkRandomness(5)))
    kinds, which = np.unique(reports, axis=0, return_inverse=True)
    said = [float(mechanism.estimate(mechanism.tally(kinds[[place]])).values[0]) for place in range(len(kinds))]
    return mechanism.name, np.array(said)[which.ravel()]
