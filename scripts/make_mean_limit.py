r"""How far a mean can still be improved: writes the last table of docs/explanation/near-the-limit.md.

    .venv/bin/python -m scripts.make_mean_limit        (some minutes)

For many reports the certified δ follows from χ² = Σ_y (R0(y) - R1(y))² / w(y) over the number of reports, w the least
likely law: it is the variance of the privacy loss. So the question is for the least worst-case variance of an unbiased
channel on [0, 1] whose χ² is at most C for every pair. That is a convex programme in R and w for given places of the
outputs. It is solved from below:

- inputs only on a grid, and only pairs with an end: fewer constraints than there are;
- D²/w replaced by some of its tangents 2ρD - ρ²w, which are below it: a linear programme;
- outputs on a grid of step h: any other channel becomes one of these if its places are rounded at random, which adds at
  most h²/4 to the variance and nothing to χ². So h²/4 is taken off.

What remains is below the variance of every channel of that χ². `C` is that of `table` at the target, and also the
largest that any privacy loss can have at this target if it is Gaussian: n μ² for the μ of the central Gaussian
mechanism.
"""

from __future__ import annotations

import math
import re
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from hubbub.accounting.central_gaussian import central_gaussian
from scripts.make_release_table import DELTA, MEAN, PAGE, choice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

CASES = (
    (Fraction(1, 2), 10**4, 40, 9),
    (Fraction(1), 10**4, 40, 9),
    (Fraction(1, 2), 10**5, 60, 9),
)
"""Release epsilon, devices, outputs on a unit, and inputs. More reports take finer grids, and hours."""
_REACH = 0.3
"""Outputs lie up to this beyond the bounds. No optimum comes near it."""
_ROUNDS = 25


def spread(found: Any) -> float:
    """χ² of the worst pair of a mechanism."""
    table = found.amplification().pairs
    masses = np.array([float(mass) for mass in table.masses])
    ratios = np.array([[float(ratio) for ratio in row] for row in table.ratios])
    one, other = np.array(table.pairs).T
    return float((((ratios[one] - ratios[other]) ** 2) @ masses).max())


class Programme:
    """The least worst-case variance of a channel with χ² at most `most`, from below.

    R_x is kept for inputs up to the middle; the others are mirror images, since the programme is convex and symmetric.
    """

    def __init__(self, most: float, fine: int, inputs: int) -> None:
        self.places = np.arange(-round(_REACH * fine), round((1 + _REACH) * fine) + 1) / fine
        self.outputs, self.half, self.fine = len(self.places), inputs // 2 + 1, fine
        self.middle = (self.outputs + 1) // 2
        self.size = 2 * self.half * self.outputs + self.middle + 1
        self.inputs = np.arange(self.half) / (inputs - 1)
        self.most = most
        self._rows: list[tuple[list[int], list[float], float]] = []
        for x, at in enumerate(self.inputs):
            self._below(
                ((self._law(x, y), (self.places[y] - 0.5) ** 2) for y in range(self.outputs)), (at - 0.5) ** 2, t=True
            )
            self._below(((self._loss(x, y), 1.0) for y in range(self.outputs)), most)
            for y in range(self.outputs):
                for of in (y, self.outputs - 1 - y):
                    self._below([(self._least(y), 1.0), (self._law(x, of), -1.0)], 0.0)
                for slope in np.geomspace(0.3, most, 9):
                    self._cut(x, y, slope)
                    self._cut(x, y, -slope)

    def bound(self) -> float:
        """A number below the variance of every such channel."""
        last, found = math.inf, 0.0
        for _ in range(_ROUNDS):
            solution = self._solve()
            found = float(solution[-1])
            if self._cut_where_loose(solution) == 0 or abs(last - found) < 2e-4 * found:
                break
            last = found
        return found - 1 / (4 * self.fine**2)

    def _law(self, x: int, y: int) -> int:
        return x * self.outputs + y

    def _least(self, y: int) -> int:
        return self.half * self.outputs + min(y, self.outputs - 1 - y)

    def _loss(self, x: int, y: int) -> int:
        return self.half * self.outputs + self.middle + self._law(x, y)

    def _below(self, terms: Iterable[tuple[int, float]], most: float, *, t: bool = False) -> None:
        found = [*terms, *([(self.size - 1, -1.0)] if t else [])]
        self._rows.append(([place for place, _ in found], [value for _, value in found], float(most)))

    def _cut(self, x: int, y: int, slope: float) -> None:
        """2ρD - ρ²w <= D²/w, for D = R_x - R_1, and R_1 the mirror image of R_0."""
        mirror = self._law(0, self.outputs - 1 - y)
        terms = [(self._law(x, y), 2 * slope), (mirror, -2 * slope), (self._least(y), -slope * slope)]
        self._below([*terms, (self._loss(x, y), -1.0)], 0.0)

    def _cut_where_loose(self, solution: NDArray[np.float64]) -> int:
        made = 0
        for x in range(self.half):
            for y in range(self.outputs):
                low = solution[self._least(y)]
                gap = solution[self._law(x, y)] - solution[self._law(0, self.outputs - 1 - y)]
                if low > 1e-14 and gap**2 / low > 1.01 * solution[self._loss(x, y)] + 1e-3 * self.most / self.outputs:
                    self._cut(x, y, gap / low)
                    made += 1
        return made

    def _solve(self) -> NDArray[np.float64]:
        places = [
            (row, at, value)
            for row, (ats, values, _) in enumerate(self._rows)
            for at, value in zip(ats, values, strict=True)
        ]
        rows, columns, values = map(np.array, zip(*places, strict=True))
        below = coo_matrix((values, (rows, columns)), shape=(len(self._rows), self.size)).tocsr()
        equal = np.zeros((2 * self.half, self.size))
        for x in range(self.half):
            own = slice(self._law(x, 0), self._law(x, self.outputs))
            equal[2 * x, own], equal[2 * x + 1, own] = 1.0, self.places - 0.5
        right = np.ravel([[1.0, at - 0.5] for at in self.inputs])
        found = linprog(  # type: ignore[call-overload]  # the stubs know no sparse matrices
            np.eye(self.size)[-1],
            A_ub=below,
            b_ub=[most for _, _, most in self._rows],
            A_eq=equal,
            b_eq=right,
            bounds=[(0, None)] * self.size,
            method="highs",
        )
        if found.status:
            raise RuntimeError(found.message)
        return np.asarray(found.x)


def row(epsilon: Fraction, devices: int, fine: int, inputs: int) -> str:
    """The error of `table` beside the limits at its own χ², and at that of a Gaussian privacy loss."""
    made = choice(MEAN, devices, epsilon, Fraction(30), Fraction(1))
    variance, own = made.mechanism.typical_variance() / 4, spread(made.mechanism)
    gaussian = devices / (central_gaussian(MEAN, devices, float(epsilon), float(DELTA)) * devices) ** 2
    limits = [math.sqrt(variance / Programme(most, fine, inputs).bound()) for most in (own, gaussian)]
    cells = (
        f"{float(epsilon):g}",
        f"{devices:,}",
        f"{float(made.mechanism.epsilon):g}",
        f"{made.error:.3g}",
        f"{own:.4g}",
        f"{limits[0]:.3f}",
        f"{gaussian:.4g}",
        f"{limits[1]:.3f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    head = "| eps | devices | eps0 | error | χ² of `table` | error × limit | χ² of a Gaussian | error × limit |"
    made = "\n".join([head, "|" + "---|" * 8, *(row(*case) for case in CASES)])
    pattern = r"(?<=<!-- table: limit of means -->\n\n).*?(?=\n\n<!-- end of table -->)"
    text, count = re.subn(pattern, lambda _: made, PAGE.read_text(), flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{PAGE} must have the table exactly once")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
