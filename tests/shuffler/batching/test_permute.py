"""The order in which reports leave: it tells nothing about the order in which they came."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub_shuffler.batching.permute import PLACE_BYTES, number_of_parts, places, shuffled, stretch

REPORTS = [b"alpha", b"bravo", b"delta", b"hotel"]
RUNS = 100_000
LIMIT = 70.6
"""Chi-square with 23 degrees of freedom is above this with probability below 1e-6."""


def ordered(reports: Sequence[bytes], seed: bytes) -> list[bytes]:
    """Distinct reports of one size by their places, as test_streaming holds the body of a batch to be."""
    size = len(reports[0]) if reports else 1
    found = places(b"".join(reports), size, seed)
    cut = [found[at : at + PLACE_BYTES] for at in range(0, len(found), PLACE_BYTES)]
    return [sealed for _, sealed in sorted(set(zip(cut, reports, strict=True)))]


def refuse_if_not_uniform(seen: Counter[tuple[bytes, ...]]) -> None:
    """Chi-square over all orders; fresh randomness, so a sound shuffle fails once in a million runs."""
    orders = list(permutations(REPORTS))
    expected = sum(seen.values()) / len(orders)
    statistic = sum((seen[order] - expected) ** 2 / expected for order in orders)
    assert statistic < LIMIT


def test_the_place_of_a_report_is_the_keyed_hash_of_its_digest() -> None:
    """A batch may be retried by a newer version than the one that sent it first: this can never change."""
    seed = bytes(range(32))
    sealed = [os.urandom(69) for _ in range(5)]
    digests = [blake2b(each, digest_size=32).digest() for each in sealed]

    assert places(b"".join(sealed), 69, seed) == b"".join(
        blake2b(digest, key=seed, digest_size=16).digest() for digest in digests
    )
    assert places(b"a sealed report", 15, seed).hex() == "ca65f9906b4078d6290b9333c733cd1c"


def test_every_order_of_a_batch_is_equally_likely() -> None:
    refuse_if_not_uniform(Counter(tuple(ordered(REPORTS, os.urandom(32))) for _ in range(RUNS)))


def test_every_order_inside_a_group_commit_is_equally_likely() -> None:
    refuse_if_not_uniform(Counter(tuple(shuffled(REPORTS, os.urandom)) for _ in range(RUNS)))


MANY = 2_000_000


@pytest.mark.full
def test_no_order_is_off_by_one_percent() -> None:
    refuse_if_not_uniform(Counter(tuple(ordered(REPORTS, os.urandom(32))) for _ in range(MANY)))


def test_so_many_runs_notice_orders_that_are_off_by_one_percent() -> None:
    """Half of the orders 1 % too likely, half 1 % too rare: the statistic is then 223 +- 29."""
    orders = list(permutations(REPORTS))
    law = [(1 + (0.01 if i % 2 else -0.01)) / len(orders) for i in range(len(orders))]
    seen = np.random.default_rng(1).multinomial(MANY, law)
    with pytest.raises(AssertionError):
        refuse_if_not_uniform(Counter(dict(zip(orders, seen.tolist(), strict=True))))


def once_in_a_hundred_the_order_of_arrival(rng: random.Random) -> tuple[bytes, ...]:
    return tuple(REPORTS if rng.random() < 0.01 else rng.sample(REPORTS, 4))


def swaps_with_any_position(rng: random.Random) -> tuple[bytes, ...]:
    """The shuffle that everyone writes wrong once."""
    found = list(REPORTS)
    for i in range(4):
        j = rng.randrange(4)
        found[i], found[j] = found[j], found[i]
    return tuple(found)


def keeps_the_first_in_front(rng: random.Random) -> tuple[bytes, ...]:
    return REPORTS[0], *rng.sample(REPORTS[1:], 3)


@pytest.mark.parametrize(
    "biased", [once_in_a_hundred_the_order_of_arrival, swaps_with_any_position, keeps_the_first_in_front]
)
def test_the_check_of_uniformity_notices_a_biased_order(biased: object) -> None:
    """The faintest of these raises the statistic to 243 +- 31 over so many runs."""
    assert callable(biased)
    rng = random.Random(1)
    with pytest.raises(AssertionError):
        refuse_if_not_uniform(Counter(biased(rng) for _ in range(RUNS)))


@given(st.permutations(REPORTS), st.binary(min_size=32, max_size=32))
def test_the_order_does_not_depend_on_the_order_of_arrival(arrived: list[bytes], seed: bytes) -> None:
    assert ordered(arrived, seed) == ordered(REPORTS, seed)


@given(st.lists(st.binary(min_size=2, max_size=2), max_size=30))
def test_duplicates_leave_once_and_nothing_is_lost(reports: list[bytes]) -> None:
    assert sorted(ordered(reports + reports, bytes(32))) == sorted(set(reports))
    assert sorted(shuffled(reports, os.urandom)) == sorted(reports)


@given(st.integers(0, 3_000), st.integers(2, 200), st.integers(4, 500))
def test_a_bucket_is_cut_into_equal_parts_none_below_twice_the_minimum(count: int, minimum: int, largest: int) -> None:
    reports = list(range(count))
    parts = number_of_parts(count, minimum, largest)

    cut = [reports[stretch(count, part, parts)] for part in range(parts)]

    assert bool(cut) == (count >= minimum)
    if cut:
        sizes = [len(part) for part in cut]
        assert [each for part in cut for each in part] == reports
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= (minimum if parts == 1 else 2 * minimum)
        assert max(sizes) <= largest or min(sizes) < 4 * minimum


def test_a_part_is_drawn_at_random_from_the_whole_crowd() -> None:
    """How many of the first half to arrive are in the first part is hypergeometric: 500 +- 11.2 of 1000 here."""
    reports = [i.to_bytes(2) for i in range(2_000)]
    early = set(reports[:1_000])

    first = ordered(reports, os.urandom(32))[stretch(2_000, 0, 2)]

    assert abs(len(early.intersection(first)) - 500) < 5 * 11.2  # five sigma: 6e-7
