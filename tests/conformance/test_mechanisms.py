"""Every registered mechanism against every check: registering one is all it takes to be tested."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.mechanisms import Mechanism, registered
from hubbub.randomness import SystemBulkRandomness, SystemRandomness
from hubbub.simulation import InsecureBulkRandomness, InsecureRandomness
from tests.conformance import checks
from tests.conformance.checks import AnyMechanism

NAMES = sorted(registered())


def examples(epsilons: list[float]) -> list[AnyMechanism]:
    return [example for name in NAMES for epsilon in epsilons for example in registered()[name].examples(epsilon)]


def label(value: object) -> str:
    if isinstance(value, Mechanism):
        return f"{value.name}-{float(value.epsilon):g}-{len(value.inputs())}x{len(value.outputs())}"
    return getattr(value, "__name__", str(value)).removeprefix("check_")


@pytest.mark.parametrize("check", checks.EXACT_CHECKS, ids=label)
@pytest.mark.parametrize("mechanism", examples([0.01, 0.5, 1, 2, 8]), ids=label)
def test_exactly(mechanism: AnyMechanism, check: checks.Check) -> None:
    check(mechanism)


@pytest.mark.full
@pytest.mark.parametrize("check", checks.EXACT_CHECKS, ids=label)
@pytest.mark.parametrize("mechanism", examples([0.02, 0.1, 0.3, 0.7, 1.5, 3, 4, 5.5, 6.25]), ids=label)
def test_exactly_at_more_epsilons(mechanism: AnyMechanism, check: checks.Check) -> None:
    check(mechanism)


@pytest.mark.parametrize("mechanism", examples([0.5, 1, 2]), ids=label)
def test_draws_match_the_declared_likelihood(mechanism: AnyMechanism) -> None:
    checks.check_draws_match_the_declared_likelihood(mechanism, 20_000, InsecureRandomness(1))
    checks.check_draws_match_the_declared_likelihood(mechanism, 200_000, InsecureBulkRandomness(1))


@pytest.mark.full
@pytest.mark.parametrize("mechanism", examples([0.5, 1, 2, 4]), ids=label)
def test_draws_from_the_system_match_the_declared_likelihood(mechanism: AnyMechanism) -> None:
    checks.check_draws_match_the_declared_likelihood(mechanism, 200_000, SystemRandomness())
    checks.check_draws_match_the_declared_likelihood(mechanism, 4_000_000, SystemBulkRandomness())


@pytest.mark.parametrize("mechanism", examples([0.5, 2]), ids=label)
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


@pytest.mark.parametrize("mechanism", examples([1]), ids=label)
def test_intervals_cover(mechanism: AnyMechanism) -> None:
    checks.check_intervals_cover(mechanism, 1000, InsecureBulkRandomness(3))


@pytest.mark.full
@pytest.mark.parametrize("mechanism", examples([0.5, 1, 2, 4]), ids=label)
def test_intervals_cover_closely(mechanism: AnyMechanism) -> None:
    checks.check_intervals_cover(mechanism, 10_000, SystemBulkRandomness())


@pytest.mark.parametrize("mechanism", examples([0.5, 2]), ids=label)
@given(payload=st.binary(max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_a_report_or_refused(mechanism: AnyMechanism, payload: bytes) -> None:
    checks.check_any_bytes_are_a_report_or_refused(mechanism, payload)
    checks.check_any_bytes_are_a_report_or_refused(mechanism, payload[: mechanism.report_bytes])


@pytest.mark.parametrize("mechanism", examples([0.5, 2]), ids=label)
@given(parts=st.lists(st.lists(st.integers(0, 10_000), max_size=6), max_size=4))
@settings(max_examples=40, deadline=None)
def test_tallies_merge_and_survive_storage(mechanism: AnyMechanism, parts: list[list[int]]) -> None:
    checks.check_tallies_merge_and_survive_storage(mechanism, parts)
