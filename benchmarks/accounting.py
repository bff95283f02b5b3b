"""CPU time of a cold answer of the accountant, in one process, compared with its limit.

Run as `python -m benchmarks.accounting`. A ratio below 1 meets the limit. The worst of three local epsilons is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from benchmarks.table import Row, at_most, show
from hubbub.accounting import AnyRandomizer, compose, guarantee, min_reports
from hubbub.accounting.compose import losses
from hubbub.accounting.guarantee import Randomizer, profile
from hubbub.mechanisms import (
    BinaryRandomizedResponse,
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    KaryRandomizedResponse,
    TableMean,
)

DELTA = 1e-6


def _cold(question: Callable[[], object]) -> float:
    """CPU seconds of the median of three runs, with caches cleared in between."""
    taken = []
    for _ in range(3):
        profile.cache_clear()
        losses.cache_clear()
        start = time.process_time()
        question()
        taken.append(time.process_time() - start)
    return sorted(taken)[1]


def rows(*, long: bool = False) -> list[Row]:
    """Cold answers, compared with their limits."""
    guarantee(AnyRandomizer(1), 100, DELTA)  # libraries load
    makers: dict[str, Callable[[float], Randomizer]] = {
        "any randomizer": AnyRandomizer,
        "10-valued rr": lambda e: KaryRandomizedResponse.calibrate(e, Categories(10)),
        "laplace": lambda e: DiscreteLaplaceMean.calibrate(e, Bounds(Fraction(0), Fraction(1))),
        "table": lambda e: TableMean.calibrate(e, Bounds(Fraction(0), Fraction(1))),
        "binary rr": lambda e: BinaryRandomizedResponse.calibrate(e, Categories(2)),
    }
    found = []
    for name, make in makers.items():
        for reports in (10**3, 10**5, 10**7) if long else (10**5, 10**7):
            seconds = max(_cold(partial(guarantee, make(eps), reports, DELTA)) for eps in (0.5, 1.0, 4.0))
            limit = 0.2 if reports <= 10**5 else 0.05 if name == "any randomizer" else 1.0
            what = f"epsilon of {reports:,} reports, {name}"
            found.append(Row(what, 1e3 * seconds, "ms of CPU", "limit", 1e3 * limit, at_most(1)))
    krr = makers["10-valued rr"](2.0)
    small, large = (1e3 * _cold(partial(guarantee, krr, reports, DELTA)) for reports in (10**3, 10**7))
    found.append(
        Row("epsilon of 10,000,000 reports, 10-valued rr", large, "ms of CPU", "1,000 reports", small, at_most(100))
    )
    for label, question in {
        "min_reports, 10-valued rr": lambda: min_reports(krr, 0.1, 1e-8),
        "min_reports, binary rr": lambda: min_reports(makers["binary rr"](2.0), 0.1, 1e-8),
        "compose 365 of 10-valued rr": lambda: compose([(krr, 10**5, 365)], DELTA),
        "compose 365 of binary rr": lambda: compose([(makers["binary rr"](2.0), 10**4, 365)], DELTA),
    }.items():
        found.append(Row(label, 1e3 * _cold(question), "ms of CPU"))
    return found


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
