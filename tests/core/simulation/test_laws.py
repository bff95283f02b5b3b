"""Simulated tallies of every registered mechanism: their law is that of real reports, and 1 % less noise is seen."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hubbub.errors import HubbubError
from hubbub.mechanisms import Bounds, Categories, Mechanism, registered
from hubbub.simulation import InsecureBulkRandomness
from tests.core.simulation.laws import at_once, check_covariances, check_means, check_whole_law, one_by_one

DEVICES = 400_000_000
"""Of those that draw a crowd at once, for whom it is no more work: at epsilon 1 noise that is 1 % low moves a count by
30 deviations, also where it is spread over many symbols."""
REPORTS = 8_000_000
"""Of the others: at least eight deviations."""
NAMES = sorted(registered())
PATHS = [pytest.param(at_once, id="at-once"), pytest.param(one_by_one, id="one-by-one")]


def probes(mechanism: Mechanism[Any]) -> list[Any]:
    """The first and last input, and for numbers one between two grid points."""
    inputs = list(mechanism.inputs())
    found = [inputs[0], inputs[-1]]
    if isinstance(mechanism.domain, Bounds):
        found.append(mechanism.domain.lower + mechanism.domain.width * Fraction(5, 8))
    return found


OWN = [name for name in NAMES if registered()[name].simulate is not Mechanism.simulate]
"""Those that draw a crowd at once. The others draw reports, which the conformance suite holds to their law too."""


def test_most_mechanisms_draw_a_crowd_at_once() -> None:
    assert {"rr", "krr", "matrix", "duchi", "laplace"} <= set(OWN)


@pytest.mark.parametrize("name", NAMES)
def test_a_large_crowd_has_the_declared_mean(name: str) -> None:
    for seed, mechanism in enumerate(registered()[name].examples(1.0)):
        check_means(mechanism, probes(mechanism), DEVICES if name in OWN else REPORTS // 20, at_once, seed)


@pytest.mark.everyday("rr", "krr", "matrix", "oue", "sue", "duchi", "table", "piecewise", "hybrid")
@pytest.mark.parametrize("name", NAMES)
def test_counts_move_together_as_declared(name: str) -> None:
    for seed, mechanism in enumerate(registered()[name].examples(1.0)):
        check_covariances(mechanism, probes(mechanism), 500, at_once, 100 + seed)


@pytest.mark.everyday("rr", "oue", "duchi", "table")
@pytest.mark.parametrize("name", OWN)
def test_the_tallies_of_two_devices_have_the_declared_law(name: str) -> None:
    for seed, mechanism in enumerate(registered()[name].examples(1.0)):
        check_whole_law(mechanism, probes(mechanism)[:2], 2_000, at_once, 200 + seed)


@pytest.mark.full
@pytest.mark.parametrize("simulate", PATHS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("name", NAMES)
def test_all_laws_at_length(name: str, epsilon: float, simulate: Any) -> None:
    for seed, mechanism in enumerate(registered()[name].examples(epsilon)):
        devices = DEVICES if simulate is at_once and name in OWN else REPORTS // 4
        check_means(mechanism, list(mechanism.inputs())[:6] + probes(mechanism), devices, simulate, 300 + seed)
        check_covariances(mechanism, probes(mechanism), 20_000, simulate, 400 + seed)
        check_whole_law(mechanism, probes(mechanism), 40_000, simulate, 500 + seed)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in OWN else pytest.mark.full) for n in NAMES])
def test_noise_that_is_one_per_cent_low_is_seen(name: str) -> None:
    """The same mechanism calibrated so that the standard deviation of its noise is 1 % less."""
    cls = registered()[name]
    for index, honest in enumerate(cls.examples(1.0)):
        bad = _with_less_noise(cls, index, honest)

        def simulate(_: Any, values: Any, counts: Any, rng: InsecureBulkRandomness, bad: Any = bad) -> Any:
            return at_once(bad, values, counts, rng)

        with pytest.raises(AssertionError, match="deviations"):
            check_means(honest, probes(honest), DEVICES if name in OWN else REPORTS, simulate, 600 + index)


def _with_less_noise(cls: type[Mechanism[Any]], index: int, honest: Mechanism[Any]) -> Mechanism[Any]:
    """By bisection on epsilon, which every mechanism has."""
    low, high = 1.0, 1.5
    for _ in range(20):
        middle = (low + high) / 2
        found = cls.examples(round(middle, 6))[index]
        enough = found.typical_variance() <= 0.99**2 * honest.typical_variance()
        low, high = (low, middle) if enough else (middle, high)
    return cls.examples(round(high, 6))[index]


@pytest.mark.parametrize("name", NAMES)
def test_a_crowd_is_the_sum_of_its_parts_however_it_is_cut(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports that are drawn in parts are all drawn, and none twice."""
    mechanism = registered()[name].examples(1.0)[0]
    monkeypatch.setattr("hubbub.mechanisms._crowd_simulation.AT_ONCE", 8 * mechanism.report_bytes * 7)
    values, counts = probes(mechanism)[:2], [23, 19]
    seen = []
    drawn = type(mechanism).randomize_many

    def spy(self: Any, part: Any, rng: Any) -> Any:
        seen.append(np.array(part))
        return drawn(self, part, rng)

    monkeypatch.setattr(type(mechanism), "randomize_many", spy)
    found = one_by_one(mechanism, values, counts, InsecureBulkRandomness(1))
    assert found.reports == 42
    assert [len(part) for part in seen] == [7] * 6
    together = np.concatenate(seen)
    assert [(together == float(value)).sum() for value in values] == counts


@pytest.mark.parametrize("name", NAMES)
def test_nobody_and_nonsense_are_told_apart(name: str) -> None:
    mechanism, rng = registered()[name].examples(1.0)[0], InsecureBulkRandomness(1)
    value = 1 if isinstance(mechanism.domain, Categories) else 1.0
    assert mechanism.simulate([value], [0], rng) == mechanism.tally([])
    for values, counts in (([value], [-1]), ([value], [1, 2]), ([value], [0.5])):
        with pytest.raises(HubbubError, match="device"):
            mechanism.simulate(values, counts, rng)
