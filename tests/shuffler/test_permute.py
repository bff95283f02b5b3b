"""The order in which reports leave tells nothing about the order in which they came."""

from __future__ import annotations

import os
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub_shuffler.permute import number_of_parts, ordered, part_of, shuffled

REPORTS = [b"alpha", b"bravo", b"charlie", b"delta"]
RUNS = 12_000
LIMIT = 70.6
"""Chi-square with 23 degrees of freedom is above this with probability below 1e-6."""


def refuse_if_not_uniform(seen: Counter[tuple[bytes, ...]]) -> None:
    """Chi-square over all orders; fresh randomness, so a sound shuffle fails once in a million runs."""
    orders = list(permutations(REPORTS))
    expected = sum(seen.values()) / len(orders)
    statistic = sum((seen[order] - expected) ** 2 / expected for order in orders)
    assert statistic < LIMIT


def test_every_order_of_a_batch_is_equally_likely() -> None:
    refuse_if_not_uniform(Counter(tuple(ordered(REPORTS, os.urandom(32))) for _ in range(RUNS)))


def test_every_order_inside_a_group_commit_is_equally_likely() -> None:
    refuse_if_not_uniform(Counter(tuple(shuffled(REPORTS, os.urandom)) for _ in range(RUNS)))


def test_the_check_of_uniformity_notices_an_order_that_keeps_the_first_report_in_front() -> None:
    biased = Counter((REPORTS[0], *shuffled(REPORTS[1:], os.urandom)) for _ in range(RUNS))

    with pytest.raises(AssertionError):
        refuse_if_not_uniform(biased)


@given(st.permutations(REPORTS), st.binary(min_size=32, max_size=32))
def test_the_order_does_not_depend_on_the_order_of_arrival(arrived: list[bytes], seed: bytes) -> None:
    assert ordered(arrived, seed) == ordered(REPORTS, seed)


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=30))
def test_duplicates_leave_once_and_nothing_is_lost(reports: list[bytes]) -> None:
    assert sorted(ordered(reports + reports, bytes(32))) == sorted(set(reports))
    assert sorted(shuffled(reports, os.urandom)) == sorted(reports)


@given(st.integers(0, 3_000), st.integers(2, 200), st.integers(4, 500))
def test_a_bucket_is_cut_into_equal_parts_none_below_the_minimum(count: int, minimum: int, largest: int) -> None:
    reports = [str(i).encode() for i in range(count)]
    parts = number_of_parts(count, minimum, largest)

    cut = [part_of(reports, part, parts) for part in range(parts)]

    assert bool(cut) == (count >= minimum)
    if cut:
        sizes = [len(part) for part in cut]
        assert [each for part in cut for each in part] == reports
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= minimum
        assert max(sizes) <= largest or min(sizes) < 2 * minimum


def test_a_part_is_drawn_at_random_from_the_whole_crowd() -> None:
    """How many of the first half to arrive are in the first part is hypergeometric: 500 +- 11.2 of 1000 here."""
    reports = [str(i).encode() for i in range(2_000)]
    early = set(reports[:1_000])

    first = part_of(ordered(reports, os.urandom(32)), 0, 2)

    assert abs(len(early.intersection(first)) - 500) < 5 * 11.2  # five sigma: 6e-7
