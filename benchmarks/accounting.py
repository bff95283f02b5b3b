"""How long a cold answer takes, against its limit, in CPU time of one process.

Run as `python -m benchmarks.accounting`. Ratios below 1 meet the limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial

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
    """CPU seconds of the median of three runs, nothing remembered between them."""
    taken = []
    for _ in range(3):
        profile.cache_clear()
        losses.cache_clear()
        start = time.process_time()
        question()
        taken.append(time.process_time() - start)
    return sorted(taken)[1]


def main() -> None:
    guarantee(AnyRandomizer(1), 100, DELTA)  # loads what is loaded once
    makers: dict[str, Callable[[float], Randomizer]] = {
        "any randomizer": AnyRandomizer,
        "10-valued rr": lambda e: KaryRandomizedResponse.calibrate(e, Categories(10)),
        "laplace": lambda e: DiscreteLaplaceMean.calibrate(e, Bounds(Fraction(0), Fraction(1))),
        "table": lambda e: TableMean.calibrate(e, Bounds(Fraction(0), Fraction(1))),
        "binary rr": lambda e: BinaryRandomizedResponse.calibrate(e, Categories(2)),
    }
    print(f"{'epsilon at delta 1e-6':24}{'epsilon0':>9}{'reports':>10}{'ms':>8}{'of limit':>10}")
    for name, make in makers.items():
        for epsilon0 in (0.5, 1.0, 4.0):
            mechanism = make(epsilon0)
            for reports in (10**3, 10**5, 10**7):
                seconds = _cold(partial(guarantee, mechanism, reports, DELTA))
                limit = 0.2 if reports <= 10**5 else 0.05 if name == "any randomizer" else 1.0
                print(f"{name:24}{epsilon0:9.1f}{reports:10d}{seconds * 1000:8.1f}{seconds / limit:10.2f}")
    krr = makers["10-valued rr"](2.0)
    growth = _cold(lambda: guarantee(krr, 10**7, DELTA)) / _cold(lambda: guarantee(krr, 10**3, DELTA))
    print(f"\ncost at 10^7 reports over cost at 10^3: {growth:.2f} (the square root of n would be 100)")
    for label, question in {
        "min_reports, 10-valued rr": lambda: min_reports(krr, 0.1, 1e-8),
        "min_reports, binary rr": lambda: min_reports(makers["binary rr"](2.0), 0.1, 1e-8),
        "compose 365 of 10-valued rr": lambda: compose([(krr, 10**5, 365)], DELTA),
        "compose 365 of binary rr": lambda: compose([(makers["binary rr"](2.0), 10**4, 365)], DELTA),
    }.items():
        print(f"{label:34}{_cold(question) * 1000:8.0f} ms")


if __name__ == "__main__":
    main()
