"""The choice of an event that tells two inputs apart: it is found, and tested on samples that did not choose it."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.simulation import InsecureBulkRandomness
from hubbub_audit.distinguishing_events import Sample, best_event, by_bits, by_cell, by_number, by_score, halves, lost

EVERY = [by_cell, by_number, by_bits]


def noise(count: int, width: int, seed: int = 1) -> Sample:
    return InsecureBulkRandomness(seed).below(256, count * width).astype(np.uint8).reshape(count, width)


def proven(first: Sample, second: Sample, delta: float = 0.0) -> float:
    (choose, test), (choose_other, test_other) = halves(first), halves(second)
    return lost(best_event(choose, choose_other, EVERY, delta), test, test_other, 1e-9, delta)


@pytest.mark.parametrize("width", [1, 2, 4, 16])
def test_samples_of_one_law_prove_nothing(width: int) -> None:
    """False alarm 1e-9 each, from a fixed seed."""
    assert proven(noise(10_000, width), noise(10_000, width, seed=2)) == 0


def test_two_bits_that_share_a_coin_are_found_in_a_long_report() -> None:
    shared = noise(8_000, 16, seed=2)
    shared[:, 11] = shared[:, 11] & 0xFE | shared[:, 3] >> 7 & 1  # bit 95 repeats bit 24
    assert proven(noise(8_000, 16), shared) > 3
    assert "bit" in best_event(noise(4_000, 16), shared[:4_000], EVERY).what  # type: ignore[union-attr]  # there is one


def test_a_number_that_is_larger_on_the_whole_is_found() -> None:
    high = np.maximum(noise(8_000, 2), noise(8_000, 2, seed=2))
    assert proven(high, noise(8_000, 2, seed=3)) > 0.2


def test_a_report_that_never_occurs_is_found() -> None:
    every, fewer = noise(8_000, 1) % 8, noise(8_000, 1, seed=2) % 7
    assert proven(every, fewer) > 2


def test_the_part_that_chooses_has_no_say_in_the_test() -> None:
    sample = np.arange(1_000)
    choose, test = halves(sample)
    assert not set(choose) & set(test)
    assert len(choose) + len(test) == 1_000


def test_thresholds_are_looked_for_in_both_directions() -> None:
    low = np.repeat([0.0, 1.0], [900, 100])
    high = np.repeat([0.0, 1.0], [500, 500])
    for first, second in ((low, high), (high, low)):
        event = best_event(first, second, [by_score])
        assert event is not None
        assert event.holds(first).mean() > event.holds(second).mean()
