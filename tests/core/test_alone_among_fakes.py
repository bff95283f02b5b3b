"""A shuffler alone that adds fakes: it can read one chosen report out of a published estimate, as the threat table
says.

It fills a batch with fakes of its own around one device and takes them off what is published. That gives the randomized
report, which is what eps0 is about, and nothing closer to the value.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hubbub.mechanisms import BinaryRandomizedResponse, Bounds, Categories, mechanism
from hubbub.randomness import SystemRandomness
from hubbub.simulation import InsecureBulkRandomness

RNG = SystemRandomness()
BATCH = 500
CASES = [("rr", 2), ("krr", 10), ("subset", 6), ("oue", 4), ("hadamard", 8), ("linear-hash", 4), ("duchi", None)]


def published(found: Any, reports: list[Any]) -> Any:
    """The estimate as every analyst gets it, times the number of reports, which is published too."""
    return len(reports) * np.asarray(found.estimate(found.tally(reports)).values)


@pytest.mark.parametrize(("name", "size"), CASES)
def test_a_shuffler_that_adds_all_others_itself_reads_the_one_report_that_it_did_not_make(
    name: str, size: int | None
) -> None:
    domain = Bounds(Fraction(0), Fraction(1)) if size is None else Categories(size)
    found = mechanism(name).calibrate(2, domain)
    inputs = list(found.inputs())
    for value in inputs[:3]:
        fakes = [found.randomize(inputs[0], RNG) for _ in range(BATCH - 1)]
        report = found.randomize(value, RNG)

        learnt = published(found, [*fakes, report]) - published(found, fakes)

        assert np.allclose(learnt, published(found, [report]), atol=1e-6)


def test_what_it_reads_is_the_randomized_report_and_not_the_value() -> None:
    """At eps0 = 1 three of ten values are told untruly: the attack gets exactly these lies."""
    found = BinaryRandomizedResponse.calibrate(1, Categories(2))
    rng = InsecureBulkRandomness(7)
    fakes = [0] * 99
    read = Counter(
        int(np.argmax(published(found, [*fakes, report]) - published(found, fakes)))
        for report in found.randomize_many(np.ones(2000, int), rng).tolist()
    )
    assert abs(read[0] / 2000 - float(found.q)) < 0.06  # five standard errors and more, and from a fixed seed
