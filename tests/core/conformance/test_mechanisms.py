"""Every registered mechanism against every check: registering one is all it takes to be tested."""

from __future__ import annotations

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.mechanisms import Categories, KaryRandomizedResponse, Mechanism, registered
from hubbub.randomness import SystemBulkRandomness, SystemRandomness
from hubbub.simulation import InsecureBulkRandomness, InsecureRandomness
from tests.core.conformance import checks
from tests.core.conformance.checks import AnyMechanism
from tests.full import examples as examples_of

NAMES = sorted(registered())


def examples(epsilons: list[float]) -> list[AnyMechanism]:
    return [example for name in NAMES for epsilon in epsilons for example in registered()[name].examples(epsilon)]


def smallest(epsilon: float) -> list[AnyMechanism]:
    """Of each mechanism the example with the fewest reports: what takes longest is left to `make test-full`."""
    return [min(registered()[name].examples(epsilon), key=lambda one: len(one.outputs())) for name in NAMES]


def label(value: object) -> str:
    if isinstance(value, Mechanism):
        return f"{value.name}-{float(value.epsilon):g}-{len(value.inputs())}x{len(value.outputs())}"
    return getattr(value, "__name__", str(value)).removeprefix("check_")


def with_the_rest(everyday: list[AnyMechanism], all_of_them: list[AnyMechanism]) -> list[ParameterSet]:
    """Those that are not for every day are left to `make test-full`."""
    return [pytest.param(one, marks=[] if one in everyday else [pytest.mark.full]) for one in all_of_them]


@pytest.mark.parametrize("check", checks.EXACT_CHECKS, ids=label)
@pytest.mark.parametrize("mechanism", with_the_rest(smallest(1), examples([0.01, 0.5, 1, 2, 8])), ids=label)
def test_exactly(mechanism: AnyMechanism, check: checks.Check) -> None:
    check(mechanism)


@pytest.mark.full
@pytest.mark.parametrize("check", checks.EXACT_CHECKS, ids=label)
@pytest.mark.parametrize("mechanism", examples([0.02, 0.05, 0.1, 0.3, 0.7, 1.5, 3, 4, 5.5, 6.25]), ids=label)
def test_exactly_at_more_epsilons(mechanism: AnyMechanism, check: checks.Check) -> None:
    check(mechanism)


@pytest.mark.parametrize("mechanism", with_the_rest(smallest(1), examples([1])), ids=label)
def test_draws_match_the_declared_likelihood(mechanism: AnyMechanism) -> None:
    """One draw at a time has the law of its coins, which `test_exactly` has walked through: two values are enough."""
    checks.check_draws_match_the_declared_likelihood(mechanism, 20_000, InsecureRandomness(1), checks.ends(mechanism))
    checks.check_draws_match_the_declared_likelihood(mechanism, 200_000, InsecureBulkRandomness(1))


@pytest.mark.full
@pytest.mark.parametrize("mechanism", examples([0.5, 1, 2, 4]), ids=label)
def test_draws_from_the_system_match_the_declared_likelihood(mechanism: AnyMechanism) -> None:
    checks.check_draws_match_the_declared_likelihood(mechanism, 200_000, SystemRandomness())
    checks.check_draws_match_the_declared_likelihood(mechanism, 4_000_000, SystemBulkRandomness())


@pytest.mark.everyday("rr-*", "krr-*", "matrix-*", "oue-*", "duchi-*", "table-*")
@pytest.mark.parametrize("mechanism", smallest(1), ids=label)
def test_estimates_of_a_mixed_crowd_are_unbiased_with_the_stated_variance(mechanism: AnyMechanism) -> None:
    checks.check_estimates_of_a_mixed_crowd_are_unbiased_with_the_stated_variance(
        mechanism, 3000, InsecureBulkRandomness(2)
    )


@pytest.mark.full
@pytest.mark.parametrize("mechanism", examples([0.5, 1, 2, 4]), ids=label)
def test_estimates_of_many_mixed_crowds(mechanism: AnyMechanism) -> None:
    checks.check_estimates_of_a_mixed_crowd_are_unbiased_with_the_stated_variance(
        mechanism, 100_000, SystemBulkRandomness()
    )


@pytest.mark.everyday("rr-*", "krr-*", "matrix-*", "oue-*", "duchi-*", "table-*")
@pytest.mark.parametrize("mechanism", smallest(1), ids=label)
def test_intervals_cover(mechanism: AnyMechanism) -> None:
    checks.check_intervals_cover(mechanism, 300, InsecureBulkRandomness(3))


@pytest.mark.everyday
@pytest.mark.parametrize("size", [2, 3, 50])
@pytest.mark.parametrize("epsilon", [1, 4, 8])
@pytest.mark.parametrize("confidence", [0.95, 1 - 1e-5], ids=["one", "one-of-thousands"])
def test_intervals_cover_by_the_exact_law(size: int, epsilon: float, confidence: float) -> None:
    """Nobody, one, some or all devices hold the item, few and many devices: no sampling, so no slack for it."""
    krr = KaryRandomizedResponse.calibrate(epsilon, Categories(size))
    for devices, holders in [(30, 0), (30, 1), (30, 30), (500, 0), (500, 250)]:
        checks.check_coverage_exactly(krr, devices, holders, confidence)


@pytest.mark.full
@pytest.mark.parametrize("size", [2, 16, 1000])
@pytest.mark.parametrize("epsilon", [0.5, 1, 4, 8])
@pytest.mark.parametrize("confidence", [0.95, 1 - 1e-5], ids=["one", "one-of-thousands"])
def test_intervals_of_large_crowds_cover_by_the_exact_law(size: int, epsilon: float, confidence: float) -> None:
    krr = KaryRandomizedResponse.calibrate(epsilon, Categories(size))
    for devices, holders in [(500, 500), (3000, 30), (3000, 1500), (20_000, 0), (20_000, 400)]:
        checks.check_coverage_exactly(krr, devices, holders, confidence)


def test_joint_intervals_over_a_long_list_hold_together() -> None:
    """1000 values, most of them held by nobody: the largest of many small counts is what a joint interval must hold.

    100 crowds at 95 %: fewer than 82 hits would happen once in two million runs (binomial tail 5e-7).
    """
    krr = KaryRandomizedResponse.calibrate(4, Categories(1000))
    held = np.repeat([0, 1, 2], [500, 300, 200])
    truth = np.bincount(held, minlength=1000) / 1000
    rng, hits = InsecureBulkRandomness(9), 0
    for _ in range(100):
        found = krr.interval(krr.tally(krr.randomize_many(held, rng)), simultaneous=True)
        hits += bool(((found.low <= truth + 1e-12) & (truth - 1e-12 <= found.high)).all())
    assert hits >= 82


@pytest.mark.full
@pytest.mark.parametrize("mechanism", examples([0.5, 1, 2, 4, 8]), ids=label)
def test_intervals_cover_closely(mechanism: AnyMechanism) -> None:
    checks.check_intervals_cover(mechanism, 10_000, SystemBulkRandomness(), closely=mechanism.epsilon <= 2)


@pytest.mark.parametrize("mechanism", with_the_rest(smallest(1), examples([1])), ids=label)
@given(payload=st.binary(max_size=8))
@settings(max_examples=examples_of(20, 60), deadline=None)
def test_any_bytes_are_a_report_or_refused(mechanism: AnyMechanism, payload: bytes) -> None:
    checks.check_any_bytes_are_a_report_or_refused(mechanism, payload)
    checks.check_any_bytes_are_a_report_or_refused(mechanism, payload[: mechanism.report_bytes])


@pytest.mark.parametrize("mechanism", with_the_rest(smallest(1), examples([1])), ids=label)
@given(parts=st.lists(st.lists(st.integers(0, 10_000), max_size=6), max_size=4))
@settings(max_examples=examples_of(15, 40), deadline=None)
def test_tallies_merge_and_survive_storage(mechanism: AnyMechanism, parts: list[list[int]]) -> None:
    checks.check_tallies_merge_and_survive_storage(mechanism, parts)
