"""The law of a simulated tally, from nothing but the declared likelihood of each report.

A tally is a sum over devices. With c(y) the tally of the single report y and P[y | x] the declared likelihood, a crowd
in which n_x devices hold x has

    E[T] = sum_x n_x E[c | x]        Cov[T] = sum_x n_x Cov[c | x]

and for two or three devices its whole law is a convolution. The conformance suite holds `randomize` to the same
likelihood by enumeration, so what agrees here agrees with the devices.

False alarms: every comparison allows ALARM = 6.5 standard deviations (8e-11 two-sided; a few thousand of them are
made), or a chi-square tail of 1e-9. All seeds are fixed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from hubbub.mechanisms import Mechanism, Tally
from hubbub.simulation import InsecureBulkRandomness

ALARM, CHI_SQUARE_ALARM = 6.5, 1e-9
MOST_LAWS = 20_000

Simulate = Callable[[Mechanism[Any], Sequence[Any], Sequence[int], InsecureBulkRandomness], Tally]


def at_once(mechanism: Mechanism[Any], values: Any, counts: Any, rng: InsecureBulkRandomness) -> Tally:
    """As the mechanism itself simulates."""
    return mechanism.simulate(numbers(values), np.array(counts), rng)


def one_by_one(mechanism: Mechanism[Any], values: Any, counts: Any, rng: InsecureBulkRandomness) -> Tally:
    """The reports themselves, drawn in bulk and counted."""
    return Mechanism.simulate(mechanism, numbers(values), np.array(counts), rng)


def numbers(values: Any) -> NDArray[Any]:
    return np.array([value if isinstance(value, int) else float(value) for value in values])


def cells_of(mechanism: Mechanism[Any]) -> NDArray[np.float64]:
    """c(y) of every report y."""
    return np.array([mechanism.tally([report]).cells for report in mechanism.outputs()], np.float64)


def law_of(mechanism: Mechanism[Any], value: Any) -> NDArray[np.float64]:
    return np.array([mechanism.likelihood(report, value) for report in mechanism.outputs()])


def moments(mechanism: Mechanism[Any], value: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance of one report's cells."""
    cells, law = cells_of(mechanism), law_of(mechanism, value)
    mean = law @ cells
    return mean, (cells * law[:, None]).T @ cells - np.outer(mean, mean)


def check_means(mechanism: Mechanism[Any], values: Sequence[Any], devices: int, simulate: Simulate, seed: int) -> None:
    """A large crowd of each value: every cell is where it should be."""
    rng = InsecureBulkRandomness(seed)
    for value in values:
        found = simulate(mechanism, [value], [devices], rng)
        assert found.reports == devices
        mean, covariance = moments(mechanism, value)
        off = np.abs(found.cells - devices * mean)
        spread = np.sqrt(devices * np.maximum(np.diag(covariance), 0))
        allowed = ALARM * spread + 1e-9 * devices * np.abs(mean) + 1e-6
        assert (off <= allowed).all(), (
            f"{mechanism.name}, {value}: off by {(off / (spread + 1e-9)).max():.1f} deviations"
        )


def check_covariances(
    mechanism: Mechanism[Any], values: Sequence[Any], repeats: int, simulate: Simulate, seed: int
) -> None:
    """A mixed crowd, many times over: the cells move together as they should."""
    rng = InsecureBulkRandomness(seed)
    counts = [40 + 20 * place for place in range(len(values))]
    found = np.array([simulate(mechanism, values, counts, rng).cells for _ in range(repeats)], np.float64)
    parts = [moments(mechanism, value) for value in values]
    mean = sum(count * part[0] for count, part in zip(counts, parts, strict=True))
    exact = sum(count * part[1] for count, part in zip(counts, parts, strict=True))
    assert isinstance(exact, np.ndarray)
    off = found - mean
    products = off[:, :, None] * off[:, None, :]
    error = products.std(axis=0) / np.sqrt(repeats)
    slack = 1e-9 * np.abs(exact).max()
    wrong = np.abs(products.mean(axis=0) - exact) - ALARM * error - slack
    assert (wrong <= 0).all(), f"{mechanism.name}: the covariance of the cells is not the declared one"


def check_whole_law(
    mechanism: Mechanism[Any], values: Sequence[Any], repeats: int, simulate: Simulate, seed: int
) -> bool:
    """One device with each value: how often each tally comes, by chi-square. False where there are too many tallies."""
    if len(mechanism.outputs()) ** len(values) > MOST_LAWS:
        return False
    law: dict[tuple[int, ...], float] = {(0,) * mechanism.cells: 1.0}
    cells = [tuple(row) for row in cells_of(mechanism).astype(int).tolist()]
    for value in values:
        chances, longer = law_of(mechanism, value), defaultdict[tuple[int, ...], float](float)
        for so_far, chance in law.items():
            for row, more in zip(cells, chances, strict=True):
                longer[tuple(a + b for a, b in zip(so_far, row, strict=True))] += chance * more
        law = longer
    rng, seen = InsecureBulkRandomness(seed), defaultdict[tuple[int, ...], int](int)
    for _ in range(repeats):
        seen[tuple(simulate(mechanism, values, [1] * len(values), rng).cells.tolist())] += 1
    assert set(seen) <= set(law), f"{mechanism.name}: a tally that no set of reports gives"
    common = [tally for tally, chance in law.items() if repeats * chance >= 25]
    expected = np.array([repeats * law[tally] for tally in common])
    counted = np.array([seen[tally] for tally in common], np.float64)
    rest = repeats - expected.sum()
    if rest >= 25:
        expected, counted = np.append(expected, rest), np.append(counted, repeats - counted.sum())
    statistic = float(((counted - expected) ** 2 / expected).sum())
    tail = float(gammaincc((len(expected) - 1) / 2, statistic / 2)) if len(expected) > 1 else 1.0
    assert tail > CHI_SQUARE_ALARM, f"{mechanism.name}: chi-square {statistic:.0f} for {len(expected)} tallies"
    return True
