"""Compute core/hubbub/mechanisms/mean_tables.json: optimal designs for the mean, for a grid of epsilon.

    python scripts/make_mean_tables.py            writes the file (some minutes)
    python scripts/make_mean_tables.py --check    prints how far each shipped design is from the optimum

docs/design/mean-tables.md says what a design is and why it has this form. The linear programme is solved by column
generation with scipy's HiGHS. A column is an interval of inputs with an output value. For given prices the best value
of each interval is the vertex of a parabola, so outputs need no grid, and the prices bound the distance of the solution
from the optimum.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

FILE = Path(__file__).parent.parent / "core" / "hubbub" / "mechanisms" / "mean_tables.json"
EPSILONS = [
    *(f"{2 ** (k / 5):.3g}" for k in range(-20, 0)),
    *(f"{1 + k / 8:g}" for k in range(24)),
    *(f"{4 + k / 5:g}" for k in range(18)),
    *("8", "8.4", "8.8", "9.2", "9.6", "10", "11", "12"),
]
"""A design also serves neighbouring epsilons: half-way between two designs this costs one or two per cent."""
POINTS = {1: (3, 5, 9), 2: (5, 9, 17), 2.8: (9, 17, 33), 5.7: (17, 33), math.inf: (65,)}
"""Grids to try below an epsilon. The finest makes accounting slow, so it is tried only where it pays."""
WORTHWHILE = 1.004
"""A finer grid must be better by this to be shipped."""
BETWEEN = (0.25, 0.5, 0.75)
ROUNDS = 40
COVER = 10**5
"""Approximate weight that covers each input, in the shipped integers."""

Columns = dict[tuple[int, int], tuple[float, float]]


class Solution(NamedTuple):
    """A design: its worst variance with rounding to the grid, the relative gap by which the optimum may be lower, and
    the weight and value of each interval (first, last) of points. Intervals that lean to the right are not listed."""

    variance: float
    gap: float
    columns: Columns


def solve(epsilon: float, points: int, near_by: Columns | None = None, close: float = 1e-5) -> Solution:
    """The unbiased design of least worst-case variance on a grid of inputs, including rounding to the grid.

    Values are in units of c = (z+1)/(z-1). Inputs between grid points are mixtures of two: their variance is a
    parabola, bounded at three places between points. Column I of weight d has probability d near, and d far more on I.
    `near_by` is the design of a neighbouring epsilon, to start from.
    """
    z = math.exp(epsilon)
    c, near, far = (z + 1) / (z - 1), 1 / (z + 1), (z - 1) / (z + 1)
    x, half, unit = np.linspace(-1, 1, points), points // 2 + 1, min(1.0, math.exp(-2 * (epsilon - 1) / 3))
    intervals = [(a, b) for a in range(points) for b in range(a, points) if a + b < points]
    covers = np.array([[a <= i <= b for i in range(points)] for a, b in intervals], float)
    own = np.array([a + b == points - 1 for a, b in intervals])
    mirror = np.where(own[:, None], 0, covers[:, ::-1])
    both, odd, count = (covers + mirror)[:, :half], (covers - mirror)[:, : half - 1], 2.0 - own
    square = near * count[:, None] + far * both
    mixtures = np.vstack([np.eye(half), *((1 - b) * np.eye(half)[:-1] + b * np.eye(half)[1:] for b in BETWEEN)])
    allowed = (mixtures @ x[:half]) ** 2 / c**2 / unit

    columns = _first_columns(intervals, points) if near_by is None else _scaled(near_by, intervals, points, near, far)
    seen: list[float] = []
    while True:
        which, values = np.array([k for k, _ in columns]), np.array([value for _, value in columns])
        n = len(columns)
        equal, right = np.zeros((2 * half, n + 2)), np.zeros(2 * half)
        equal[:half, :n], equal[:half, n] = both[which].T, -1
        equal[half, :n], equal[half, n], right[half] = count[which] * near, far, 1
        equal[half + 1 :, :n], right[half + 1 :] = (odd[which] * values[:, None]).T, x[: half - 1]
        second = square[which] * (values**2)[:, None] / unit
        below = np.hstack([mixtures @ second.T, np.zeros((len(allowed), 1)), -np.ones((len(allowed), 1))])
        found = linprog(
            np.eye(n + 2)[-1],
            A_ub=below,
            b_ub=allowed,
            A_eq=equal,
            b_eq=right,
            bounds=[(0, None)] * (n + 1) + [(None, None)],
            method="highs-ds",
        )
        if found.status:
            raise RuntimeError(f"epsilon {epsilon:g}, {points} points: {found.message}")
        prices, squares = found.eqlin.marginals, found.ineqlin.marginals / unit
        slope = squares @ mixtures
        constant = both @ prices[:half] + count * near * prices[half]
        linear, quadratic = odd @ prices[half + 1 :], np.minimum(square @ slope, -1e-15)
        best = np.where(own, 0, np.clip(-linear / (2 * quadratic), -2, 2))  # no optimum has values beyond 1.4
        gain = constant + best * linear + best**2 * quadratic
        # The weights of a design sum to at most z + 1, so no design is better by more than that times the largest gain.
        gap = float(gain.max()) * (z + 1) / (found.fun * unit)
        seen.append(found.fun)
        stalled = len(seen) > 12 and seen[-12] - seen[-1] < 1e-6 * seen[-1]
        if gap < close or stalled or len(seen) == ROUNDS:
            break
        promising = [int(k) for k in np.argsort(-gain)[: 3 * points] if gain[k] > 0]
        columns = [column for column, w in zip(columns, found.x[:n], strict=True) if w > 1e-12] + columns[-6 * points :]
        columns = list(dict.fromkeys(columns + [(k, float(best[k])) for k in promising]))
    merged: dict[tuple[int, int], NDArray[np.float64]] = {}
    for (k, value), weight in zip(columns, found.x[:n], strict=True):
        if weight > 1e-9:  # one value for each interval: the mean of several has less variance
            merged[intervals[k]] = merged.get(intervals[k], np.zeros(2)) + np.array([weight, weight * value])
    shape = {interval: (float(d), float(e / d * c)) for interval, (d, e) in merged.items()}
    return Solution(found.fun * unit * c**2, gap, shape)


def _first_columns(intervals: list[tuple[int, int]], points: int) -> list[tuple[int, float]]:
    values = (-1.0, -0.75, -0.5, -0.25, 0.0)
    return [(k, u) for k, i in enumerate(intervals) for u in ((0.0,) if sum(i) == points - 1 else values)]


def _scaled(
    design: Columns, intervals: list[tuple[int, int]], points: int, near: float, far: float
) -> list[tuple[int, float]]:
    """The columns of a design for another epsilon. Scaled weights sum to one again; values must be scaled back."""
    cover = total = moment = 0.0
    for (first, last), (weight, value) in design.items():
        own = first + last == points - 1
        total += weight * (2 - own)
        cover += weight * ((first == 0) + (last == points - 1 and not own))
        moment -= weight * value * ((first == 0) - (last == points - 1))
    scale = (total * near + cover * far) / moment
    found = [(intervals.index(interval), value * scale) for interval, (_, value) in design.items()]
    ends = [(k, -1.0) for k, (first, last) in enumerate(intervals) if first == 0 and last < points - 1]
    return ends + [(k, u * by) for k, u in found for by in (0.98, 1.0, 1.02)]


def whole(points: int, columns: Columns) -> list[list[int]]:
    """The design in integers [first, last, weight, moment]. Weights cover every point exactly equally; moments (weight
    times value) rise by exactly the same amount from each point to the next."""
    weights = _rounded_weights(points, {interval: weight for interval, (weight, _) in columns.items()})
    moments = {interval: round(weights[interval] * columns[interval][1]) for interval in weights}
    sums = [sum(m * _odd(interval, i, points) for interval, m in moments.items()) for i in range(points // 2)]
    step = round(-sums[0] / (points - 1))
    missing = [Fraction(step * (2 * i - points + 1) - total) for i, total in enumerate(sums)]
    heaviest = sorted((i for i in weights if sum(i) != points - 1), key=lambda i: -weights[i])
    change = _solution(points, heaviest, missing)
    scale = math.lcm(*(d.denominator for d in change.values()))
    return [
        [*interval, weights[interval], int(scale * (moments[interval] + change.get(interval, 0)))]
        for interval in sorted(weights)
    ]


def _odd(interval: tuple[int, int], i: int, points: int) -> int:
    """How often a moment counts at a point, minus how often its mirror image counts there."""
    first, last = interval
    return (first <= i <= last) - (first <= points - 1 - i <= last)


def _rounded_weights(points: int, weights: dict[tuple[int, int], float]) -> dict[tuple[int, int], int]:
    """Round the weights, which are a flow along intervals from left to right: split it into paths, and round these."""

    def mirrored(interval: tuple[int, int]) -> tuple[int, int]:
        return points - 1 - interval[1], points - 1 - interval[0]

    flow = {**weights, **{mirrored(interval): weight for interval, weight in weights.items()}}
    total = sum(weight for (first, _), weight in flow.items() if first == 0)
    found: Counter[tuple[int, int]] = Counter()
    while True:
        path, at = [], 0
        while at < points:
            path.append(max((i for i in flow if i[0] == at), key=lambda i: flow[i]))
            at = path[-1][1] + 1
        used = Counter(path) + Counter(map(mirrored, path))
        share = min(flow[interval] / times for interval, times in used.items())
        if share < 1e-8 * total:
            break
        for interval, times in used.items():
            flow[interval] -= share * times
            found[interval] += round(share / total * COVER) * times
    return {interval: w for interval, w in found.items() if w and sum(interval) < points}


def _solution(
    points: int, intervals: list[tuple[int, int]], missing: list[Fraction]
) -> dict[tuple[int, int], Fraction]:
    """Changes of a few moments that make the sums exactly right, by elimination, heavy columns first."""
    columns = [[Fraction(_odd(interval, i, points)) for i in range(len(missing))] for interval in intervals]
    rows = [[column[i] for column in columns] + [missing[i]] for i in range(len(missing))]
    pivots: dict[int, int] = {}
    for j in range(len(columns)):
        row = next((i for i in range(len(rows)) if i not in pivots and rows[i][j]), None)
        if row is None:
            continue
        pivots[row] = j
        rows[row] = [entry / rows[row][j] for entry in rows[row]]
        for i in range(len(rows)):
            if i != row and rows[i][j]:
                rows[i] = [a - rows[i][j] * b for a, b in zip(rows[i], rows[row], strict=True)]
    if len(pivots) < len(rows):
        raise RuntimeError("this design cannot be made unbiased")
    return {intervals[j]: rows[row][-1] for row, j in pivots.items()}


def designs() -> Iterator[dict[str, object]]:
    """For each epsilon, the design on the coarsest grid that no finer grid beats by much."""
    known: dict[int, Columns] = {}
    for text in EPSILONS:
        epsilon = float(text)
        solutions: list[tuple[int, Solution]] = []
        for points in next(grids for below, grids in POINTS.items() if epsilon < below):
            solution = solve(epsilon, points, known.get(points))
            known[points] = solution.columns
            solutions.append((points, solution))
        best = min(solution.variance for _, solution in solutions)
        points, solution = next(found for found in solutions if found[1].variance <= WORTHWHILE * best)
        print(f"{text:>6}  {points:3} points  variance {solution.variance:.6g}  gap {solution.gap:.1e}", flush=True)
        yield {
            "epsilon": text,
            "points": points,
            "variance": f"{solution.variance:.6g}",
            "columns": whole(points, solution.columns),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        from hubbub.mechanisms import Bounds, TableMean

        for design in json.loads(FILE.read_text())["designs"]:
            runs = TableMean.calibrate(design["epsilon"], Bounds(Fraction(-1), Fraction(1))).typical_variance()
            print(f"{design['epsilon']:>6}  {design['points']:3} points  {runs / float(design['variance']):.5f} of it")
        return
    lines = ",\n".join("  " + json.dumps(design, separators=(",", ":")) for design in designs())
    how = "computed by scripts/make_mean_tables.py; docs/design/mean-tables.md says what the numbers mean"
    FILE.write_text(f'{{"about": "{how}",\n "designs": [\n{lines}\n]}}\n')
    print(f"{FILE}: {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
