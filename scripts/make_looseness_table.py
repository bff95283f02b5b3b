"""Looseness of certified ε: writes the table "What is left" of docs/explanation/accounting.md.

    .venv/bin/python -m scripts.make_looseness_table

If all others hold the same value x, formula (M) with w = R_x is an equality. So no valid bound can be below the largest
ε over x and over pairs of inputs. A mixed data set may be worse, so the ratio is a limit on looseness and not looseness
itself. Both numbers come from the same inversion, which tests compare with exact arithmetic.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

from hubbub.accounting import guarantee
from hubbub.accounting.blanket import Blankets
from hubbub.mechanisms import Atom, Bounds, Categories, Pair, Table, mechanism

PAGE = Path(__file__).parent.parent / "docs/explanation/accounting.md"
EPSILONS = (1, 2, 4)
REPORTS, DELTA = 10**6, 1e-8
_MANY_INPUTS = 17


def _values(name: str, size: int) -> Callable[[float], Any]:
    return lambda epsilon: mechanism(name).calibrate(epsilon, Categories(size))


def _mean(name: str) -> Callable[[float], Any]:
    return lambda epsilon: mechanism(name).calibrate(epsilon, Bounds(Fraction(0), Fraction(1)))


KINDS: dict[str, Callable[[float], Any]] = {
    "`hadamard`, 8 values": _values("hadamard", 8),
    "`laplace`": _mean("laplace"),
    "`table`": _mean("table"),
    "`table`, but on 8 steps": lambda epsilon: mechanism("table").examples(epsilon)[0],
    "`hybrid`": _mean("hybrid"),
    "`sue`, 4 values": _values("sue", 4),
    "`oue`, 4 values": _values("oue", 4),
    "`linear-hash`, 4 values": _values("linear-hash", 4),
    "`olh`, 4 values": _values("olh", 4),
    "`subset`, 6 values": _values("subset", 6),
    "`krr`, 10 values": _values("krr", 10),
    "`piecewise`": _mean("piecewise"),
}
"""Lists with few enough values to enumerate every report, and means on their default grid."""


def laws(found: Any) -> list[list[Fraction]]:
    """R_x for every input x, over reports; those with proportional likelihoods are merged."""
    pairs = found.amplification().pairs
    if isinstance(pairs, Table):
        rows = [[mass * ratio for mass, ratio in zip(pairs.masses, row, strict=True)] for row in pairs.ratios]
    else:
        columns: dict[tuple[Fraction, ...], list[Fraction]] = {}
        for report in found.outputs():
            column = [Fraction(found.likelihood(report, value)) for value in found.inputs()]
            known = columns.setdefault(tuple(p / column[0] for p in column), [Fraction(0)] * len(column))
            known[:] = [a + b for a, b in zip(known, column, strict=True)]
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return [[p / sum(row) for p in row] for row in rows]


def shown(found: Any, reports: int, delta: float) -> float:
    """The ε shown by the worst data set with all others alike. Of many inputs, only pairs with an end are tried."""
    rows = laws(found)
    last = len(rows) - 1
    pairs = combinations(range(len(rows)), 2) if last < _MANY_INPUTS else iter([(0, last), (0, last // 2)])
    tried = [_pair(rows[x], rows[a], rows[b]) for a, b in pairs for x in range(len(rows))]
    return Blankets(tried).epsilon(reports, delta, found.realised_epsilon)


def _pair(others: Sequence[Fraction], first: Sequence[Fraction], second: Sequence[Fraction]) -> Pair:
    return Pair(tuple(Atom(w, p / w, q / w) for w, p, q in zip(others, first, second, strict=True)))


def ratio(kind: str, epsilon: float, reports: int = REPORTS, delta: float = DELTA) -> float:
    """Certified ε divided by the ε that a data set shows."""
    found = KINDS[kind](epsilon)
    return guarantee(found, reports, delta).epsilon / shown(found, reports, delta)


def row(kind: str) -> str:
    return f"| {kind} | " + " | ".join(f"{ratio(kind, epsilon):.2f}" for epsilon in EPSILONS) + " |"


def table() -> str:
    head = "| mechanism | " + " | ".join(f"ε0 = {epsilon}" for epsilon in EPSILONS) + " |"
    return "\n".join([head, "|---|---|---|---|", *(row(kind) for kind in KINDS)])


def main() -> None:
    text, count = re.subn(r"\| mechanism \| ε0 = 1 .*?(?=\n\n)", table(), PAGE.read_text(), flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{PAGE} must have the table exactly once")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
