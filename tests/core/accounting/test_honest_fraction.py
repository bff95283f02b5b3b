"""The honest fraction: junk and duplicates never add to it, and no part of a bucket counts on too many reports."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accounting import honest_reports, honest_reports_in_part, min_reports, pessimistic_honest_reports
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Categories, choose

fractions = st.fractions(0, 1, max_denominator=1000).filter(bool)
counts = st.integers(0, 10**7)


@given(counts, fractions)
def test_it_is_the_floor_of_the_share_of_the_valid_reports_exactly(valid: int, fraction: Fraction) -> None:
    assert honest_reports(valid, fraction) == valid * fraction.numerator // fraction.denominator


def test_the_fraction_is_the_number_that_was_written() -> None:
    assert [honest_reports(10, fraction) for fraction in (0.7, "0.7", Fraction(7, 10))] == [7, 7, 7]
    assert honest_reports(100, 0.29) == 29  # 0.29 * 100 is below 29 in floats
    assert honest_reports(0, 0.9) == 0
    for fraction in (0, 1.1, math.nan, -0.5):
        with pytest.raises(InvalidParameter):
            honest_reports(1000, fraction)
    for number in (-1, True, 1.0):
        with pytest.raises(InvalidParameter):
            honest_reports(number, 0.9)  # type: ignore[arg-type]  # that is what is refused


@given(counts, counts, counts, fractions)
def test_the_pessimistic_count_never_rises_with_what_does_not_count(
    valid: int, junk: int, more: int, fraction: Fraction
) -> None:
    found = pessimistic_honest_reports(valid, valid + junk, fraction)
    assert pessimistic_honest_reports(valid, valid + junk + more, fraction) <= found <= honest_reports(valid, fraction)
    count = valid + junk
    assert found == max(0, valid - (count - count * fraction.numerator // fraction.denominator))


@given(st.integers(0, 10**5), st.integers(0, 10**4), st.integers(0, 100), fractions, st.integers(1, 12))
def test_nor_does_it_in_a_part(valid: int, junk: int, more: int, fraction: Fraction, digits: int) -> None:
    failure = Fraction(1, 10**digits)
    found = pessimistic_honest_reports(valid, valid + junk, fraction, failure)
    padded = pessimistic_honest_reports(valid, valid + junk + more, fraction, failure)
    assert padded <= found <= honest_reports_in_part(valid, fraction, failure)


def test_more_valid_reports_than_there_are_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="cannot be valid"):
        pessimistic_honest_reports(11, 10, 0.9)


def hypergeometric_below(k: int, whole: int, honest: int, drawn: int) -> Fraction:
    """The exact probability of fewer than k honest reports among those drawn."""
    ways = sum(comb(honest, x) * comb(whole - honest, drawn - x) for x in range(min(k, drawn + 1)))
    return Fraction(ways, comb(whole, drawn))


@pytest.mark.parametrize("fraction", ["0.5", "0.8", "0.9", "0.99"])
@pytest.mark.parametrize("failure", [Fraction(1, 10), Fraction(1, 10**4), Fraction(1, 10**9)])
def test_a_part_has_fewer_with_at_most_the_stated_probability(fraction: str, failure: Fraction) -> None:
    for whole in (20, 200, 1000):
        honest = math.ceil(Fraction(fraction) * whole)  # as few as the assumption allows
        for drawn in {1, whole // 10, whole // 2, whole - 1}:
            counted = honest_reports_in_part(drawn, fraction, failure)
            assert 0 <= counted <= honest_reports(drawn, fraction)
            assert hypergeometric_below(counted, whole, honest, drawn) <= failure


@given(st.integers(1, 10**6), st.fractions(Fraction(1, 100), Fraction(99, 100)), st.integers(1, 30))
def test_one_more_would_not_be_certified(valid: int, fraction: Fraction, digits: int) -> None:
    failure = Fraction(1, 10**digits)
    counted = honest_reports_in_part(valid, fraction, failure)

    def bound(k: int) -> float:
        share, odds = k / valid, float(fraction)
        logs = (share * math.log(share / odds) if k else 0.0, (1 - share) * math.log((1 - share) / (1 - odds)))
        return -valid * sum(logs)

    needed = math.log(failure)
    if counted:
        assert bound(counted) <= needed + 1e-6 * abs(needed)
    following = counted + (bound(0) <= needed)  # 0 is also what is said where nothing can be certified
    if following < valid * fraction:
        assert bound(following) >= needed - 1e-6 * abs(needed)


def test_where_all_are_honest_a_part_of_them_is() -> None:
    assert honest_reports_in_part(17, 1, Fraction(1, 10**9)) == 17
    assert honest_reports_in_part(0, "0.9", Fraction(1, 10**9)) == 0
    for failure in (Fraction(0), Fraction(1), 0.5):
        with pytest.raises(InvalidParameter):
            honest_reports_in_part(10, "0.9", failure)  # type: ignore[arg-type]  # also what is no fraction


@pytest.mark.everyday("0.9-*")
@pytest.mark.parametrize(("fraction", "delta", "least"), [("0.5", 8, 91), ("0.7", 18, 94), ("0.9", 8, 19)])
def test_twice_the_minimum_has_room_for_the_allowance(fraction: str, delta: int, least: int) -> None:
    """docs/explanation/accounting.md: it is counted with a twentieth more than the minimum's honest reports."""
    failure = Fraction(1, 10 ** (delta + 1))
    for minimum in [*range(least, 3 * least), 10**4, 10**6]:
        wanted = Fraction(21, 20) * honest_reports(minimum, fraction)
        assert honest_reports_in_part(2 * minimum, fraction, failure) >= wanted, minimum


@pytest.mark.parametrize(("epsilon", "target"), [(1, 0.5), (4, 3)])
def test_a_tenth_of_delta_costs_less_than_that_room(epsilon: int, target: float) -> None:
    mechanism, delta = choose(Categories(4), epsilon=epsilon), Fraction(1, 10**6)
    needed = min_reports(mechanism, target, delta)
    assert needed < min_reports(mechanism, target, delta / 2)
    assert min_reports(mechanism, target, delta * Fraction(9, 10)) <= needed * Fraction(21, 20)
