"""Error of a distribution on real columns: ladder, tree and square wave with EM, beside the reference numbers.

    python -m benchmarks.distribution_error --data FOLDER --repeat 8

FOLDER holds the CSV files of the columns; without it, the departure delays of the demo's flights are used. Reports are
drawn one by one up to 100,000 devices, and by the exact law of their counts beyond. All methods see the same devices.
`expected` is the mean of the exact variance over the edges, from the law and the true shares.
"""

from __future__ import annotations

import argparse
import math
import time
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hubbub.mechanisms import Bins, Ladder, Tree
from hubbub.simulation import InsecureBulkRandomness
from hubbub_cli.demo_data import flights

BINS = 64
EQUAL = {64: {1: (17, 4, 1), 2: (8, 2, 1), 4: (1, 1, 1)}}
"""Cells of a set on each level of the tree with equal levels, the finest first."""
DRAWN = 100_000
COLUMNS = {
    # file, column, lower and upper bound
    "flights.arr_delay": ("flights", "arr_delay", -80, 180),
    "flights.air_time": ("flights", "air_time", 20, 420),
    "adult.hours_per_week": ("adult", "hours_per_week", 0, 100),
    "cdnow.dollar_value": ("cdnow", "dollar_value", 0, 160),
    "taxis.total": ("taxis", "total", 0, 80),
}


def columns(folder: Path | None) -> dict[str, NDArray[np.float64]]:
    """Shares of the bins of each column."""
    if folder is None:
        delays = np.array([row["departure_delay"] for row in flights()], np.float64)
        return {"flights.dep_delay": _shares(delays, -30, 130)}
    return {
        name: _shares(pd.read_csv(folder / f"{file}.csv.gz")[column].dropna().to_numpy(np.float64), low, high)
        for name, (file, column, low, high) in COLUMNS.items()
    }


def _shares(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    places = np.clip(((values - low) / (high - low) * BINS).astype(np.int64), 0, BINS - 1)
    return np.bincount(places, minlength=BINS) / len(values)


def square_wave(epsilon: float) -> NDArray[np.float64]:
    """P(output bin | input bin) of the square wave (Li et al., SIGMOD 2020), from the middles of input bins."""
    z = math.exp(epsilon)
    b = (epsilon * z - z + 1) / (2 * z * (z - 1 - epsilon))
    edges = np.linspace(-b, 1 + b, BINS + 1)
    middles = (np.arange(BINS) + 0.5) / BINS
    near = np.clip(np.minimum(edges[1:, None], middles + b) - np.maximum(edges[:-1, None], middles - b), 0, None)
    width = np.diff(edges)[:, None]
    return np.asarray((near * z + (width - near)) / (2 * b * z + 1))


def by_em(channel: NDArray[np.float64], counts: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """Maximum likelihood by EM from equal shares, with the stopping rule of the paper."""
    found, before = np.full(BINS, 1 / BINS), -math.inf
    for _ in range(10_000):
        seen = channel @ found
        found = found * (channel.T @ (counts / seen)) / counts.sum()
        value = float(counts @ np.log(channel @ found))
        if abs(value - before) < 1e-3 * math.exp(epsilon):
            break
        before = value
    return found


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--data", type=Path)
    given.add_argument("--repeat", type=int, default=8)
    given.add_argument("--largest", type=int, default=1_000_000)
    asked = given.parse_args()
    total: dict[tuple[int, int], list[list[float]]] = {}
    print("column             eps        n   ladder  expected  tree4 equal  tree4 best   SW+EM   cover")
    for name, shares in columns(asked.data).items():
        for epsilon in (1, 2, 4):
            ladder, best = Ladder.calibrate(epsilon, Bins(BINS)), Tree.calibrate(epsilon, Bins(BINS))
            cells = EQUAL[BINS][epsilon]
            weights = (21_846, 21_845, 21_845)
            rows = [[4**level, count, weight] for level, (count, weight) in enumerate(zip(cells, weights, strict=True))]
            equal, channel = Tree.calibrate(epsilon, Bins(BINS), sets=rows), square_wave(epsilon)
            for n in (10_000, 100_000, 1_000_000):
                if n > asked.largest:
                    continue
                errors, covered = np.zeros(4), 0.0
                for run in range(asked.repeat):
                    rng = InsecureBulkRandomness(zlib.crc32(f"{name} {epsilon} {n} {run}".encode()))
                    held = rng.multinomial(n, shares)
                    truth = np.cumsum(held)[:-1] / n
                    for place, mechanism in enumerate((ladder, equal, best)):
                        if n <= DRAWN:
                            tally = mechanism.tally(mechanism.randomize_many(np.repeat(np.arange(BINS), held), rng))
                        else:
                            tally = mechanism.simulate(np.arange(BINS), held, rng)
                        sums = mechanism.channel().firsts()
                        found = sums.estimate(tally).values
                        errors[place] += ((found - truth) ** 2).mean() / asked.repeat
                        if place == 0:
                            limits = sums.interval(tally, 0.95)
                            covered += ((limits.low <= truth) & (truth <= limits.high)).mean() / asked.repeat
                    counts = np.sum([rng.multinomial(int(many), channel[:, x]) for x, many in enumerate(held)], axis=0)
                    curve = np.cumsum(by_em(channel, counts, epsilon))[:-1]
                    errors[3] += ((curve - truth) ** 2).mean() / asked.repeat
                expected = float((ladder.channel().firsts().contributions @ shares).mean()) / n
                line = [errors[0], expected, *errors[1:], covered]
                total.setdefault((epsilon, n), []).append(line)
                figures = "  ".join(f"{1e6 * x:9.4g}" for x in line[:-1])
                print(f"{name:18} {epsilon:3} {n:8}  {figures}  {covered:.3f}", flush=True)
    print("geometric means over the columns; ladder over tree with equal levels, and over SW+EM")
    for (epsilon, n), lines in total.items():
        means = np.exp(np.log(np.array(lines)[:, :5]).mean(axis=0))
        cover = np.array(lines)[:, 5].mean()
        said = f"of tree {means[0] / means[2]:.3f}, of SW+EM {means[0] / means[4]:.3f}, coverage {cover:.3f}"
        print(f"eps {epsilon} n {n}: {' '.join(f'{1e6 * x:.4g}' for x in means)}; {said}")


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"{time.monotonic() - began:.0f} s")
