"""Planned errors: the planner states the error that estimates have, also for a type with its own estimate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hubbub.accounting.codebook_plan import plan
from hubbub.codebook import Codebook
from hubbub.mechanisms import Bounds
from hubbub.metric_types import MetricType, register
from hubbub.metric_types._registry import REGISTRY, left_to_the_mechanism
from hubbub.metric_types.mean import Mean
from hubbub.simulation import InsecureBulkRandomness
from tests.core.metric_types.toy_curve import Ladder
from tests.core.metric_types.toys import CODEBOOK

REPORTS, RUNS = 5_000, 4_000

pytestmark = pytest.mark.usefixtures("toys")


@pytest.mark.everyday("look")
@pytest.mark.parametrize("name", ["look", "wait", "minutes"])
def test_a_planned_error_is_that_of_simulated_estimates(name: str) -> None:
    """Inputs are held alike, from a fixed seed: the spread of 4,000 runs has a standard error of 1.1 %."""
    metric = Codebook.from_toml(CODEBOOK).metric(name)
    size = metric.mechanism.domain.estimates
    held = np.full(size, REPORTS // size)
    rng = InsecureBulkRandomness(19)
    tallies = (metric.mechanism.simulate(np.arange(size), held, rng) for _ in range(RUNS))
    found = np.array([metric.estimate(tally).values for tally in tallies])
    seen = math.sqrt(found.var(axis=0).mean())
    assert metric.expected_error(int(held.sum())) == pytest.approx(seen, rel=0.05)


def test_a_plan_states_it_in_the_unit_of_the_values() -> None:
    planned = {one.metric.name: one.stderr for one in plan(Codebook.from_toml(CODEBOOK), REPORTS).metrics}
    assert 0.5 < planned["minutes"] < 0.7, "minutes, and no shares"


def test_an_error_is_compared_with_what_the_values_can_be() -> None:
    """A minute or two of 90 is a small error, though it would be a large one of a share."""
    made = plan(Codebook.from_toml(CODEBOOK), 1_000)
    (minutes,) = [one for one in made.metrics if one.metric.name == "minutes"]
    assert minutes.metric.values.span == 90
    assert not [line for line in minutes.advice if "standard error" in line]


def test_no_reports_have_no_error_that_could_be_stated() -> None:
    for metric in Codebook.from_toml(CODEBOOK).metrics:
        assert metric.expected_error(0) == math.inf


def test_bounds_that_are_one_float_have_a_span() -> None:
    lower = Fraction(10**30)
    assert Mean(Bounds(lower, lower + 1)).span == 1


def test_a_type_with_an_estimate_of_its_own_must_say_all_that_follows() -> None:
    class Half(Ladder):
        expected_error = MetricType.expected_error
        truth = MetricType.truth

    with pytest.raises(ValueError, match="Half has its own estimate, so it also needs its own truth, expected_error"):
        register("half")(Half)
    assert "half" not in REGISTRY
    for cls in REGISTRY.values():
        assert left_to_the_mechanism(cls) == []
