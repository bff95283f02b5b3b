r"""Least worst-case variance of an unbiased private mean on [-1, 1], by linear programme: the optimum for comparison.

For inputs x and outputs y on grids, over the laws P[y | x]:

    minimise t   with   sum_y P = 1,   sum_y y P = x,   sum_y y^2 P - x^2 <= t,   a_y <= P[y | x] <= e^eps a_y

Fewer inputs lower the optimum, fewer outputs raise it: on 9 inputs it is below what is possible on the whole interval.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

INPUTS, OUTPUTS = 9, 81


@lru_cache
def least_mean_variance(epsilon: float, inputs: int = INPUTS, outputs: int = OUTPUTS) -> float:
    """The optimum, for the best of a few ranges of outputs."""
    widest = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    spans = [max(1.0, widest * share) for share in (1.25, 1.5)]
    return min(_solve(epsilon, span, inputs, outputs) for span in spans)


def _solve(epsilon: float, span: float, inputs: int, outputs: int) -> float:
    x, y = np.linspace(-1, 1, inputs), np.linspace(-span, span, outputs)
    cells = inputs * outputs
    none, ones = csr_array((inputs, outputs)), np.ones((1, outputs))
    zero = csr_array((inputs, 1))
    each = eye_array(inputs)
    every = kron(np.ones((inputs, 1)), eye_array(outputs))
    whole = hstack([kron(each, ones), none, zero])
    centred = hstack([kron(each, y[None, :]), none, zero])
    spread = hstack([kron(each, y[None, :] ** 2), none, csr_array(-np.ones((inputs, 1)))])
    above = hstack([eye_array(cells), -math.exp(epsilon) * every, csr_array((cells, 1))])
    below = hstack([-eye_array(cells), every, csr_array((cells, 1))])
    atmost: Any = vstack([spread, above, below])  # scipy accepts sparse matrices, its type stubs do not
    exactly: Any = vstack([whole, centred])
    found = linprog(
        np.append(np.zeros(cells + outputs), 1.0),
        A_ub=atmost,
        b_ub=np.concatenate([x**2, np.zeros(2 * cells)]),
        A_eq=exactly,
        b_eq=np.concatenate([np.ones(inputs), x]),
        bounds=[(0, None)] * (cells + outputs + 1),
        method="highs",
    )
    return math.inf if found.fun is None else float(found.fun)
