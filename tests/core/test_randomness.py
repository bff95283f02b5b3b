"""The six draws that everything rests on, taken apart to their bits."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.special import gammaincc

from hubbub.randomness import (
    WORD,
    BulkRandomness,
    Randomness,
    SystemBulkRandomness,
    SystemRandomness,
    discrete_laplace,
    ones,
    subset,
    subset_bits,
)
from hubbub.simulation import InsecureBulkRandomness, InsecureRandomness
from hubbub_audit.output_law import law_of


class Scripted(Randomness):
    """Answers `bits` from a list, then stops."""

    def __init__(self, answers: Iterator[int]) -> None:
        self.answers = answers

    def bits(self, count: int) -> int:
        answer = next(self.answers)
        assert 0 <= answer < 2**count
        return answer


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 8, 10])
def test_below_is_uniform_over_all_bit_patterns(bound: int) -> None:
    """Of all words of the width it draws, each answer comes from exactly one; the others are drawn again."""
    width = (bound - 1).bit_length()
    answers: Counter[int] = Counter()
    for first in range(2**width):
        try:
            answers[Scripted(iter([first])).below(bound)] += 1
        except StopIteration:
            assert first >= bound
    assert answers == dict.fromkeys(range(bound), 1)


def test_a_coin_turns_at_exactly_its_threshold() -> None:
    threshold = 12345678901234567890
    assert Scripted(iter([threshold - 1])).coin(threshold, WORD)
    assert not Scripted(iter([threshold])).coin(threshold, WORD)
    assert not Scripted(iter([0])).coin(0, WORD)
    assert Scripted(iter([WORD - 1])).coin(WORD, WORD)


@pytest.mark.parametrize("numerator", range(9))
def test_coins_drawn_together_are_independent_and_exact(numerator: int) -> None:
    """Two coins of n/8 each, over all words that may be drawn for them."""
    width = 2 * (3 - (numerator & -numerator).bit_length() + 1) if numerator % 8 else 0
    answers = Counter(Scripted(iter([word])).coins(2, numerator, 3) for word in range(2**width))
    chance = Fraction(numerator, 8)
    for both in range(4):
        law = [1 - chance, chance]
        assert Fraction(answers[both], 2**width) == law[both & 1] * law[both >> 1]


@pytest.mark.parametrize(("size", "count"), [(1, 0), (1, 1), (4, 0), (4, 1), (4, 2), (5, 3), (4, 4), (20, 1)])
def test_every_subset_drawn_as_bits_is_equally_likely(size: int, count: int) -> None:
    law = law_of(lambda rng: subset_bits(rng, size, count))
    assert set(law.values()) == {Fraction(1, comb(size, count))}
    assert all(number < 2**size and len(ones(number)) == count for number in law)


def test_fetched_bytes_are_used_once_and_have_the_same_law() -> None:
    """Chi-square at 1e-7 on a buffer that is drawn empty many times."""
    rng = SystemRandomness().buffered(16)
    seen = [rng.bits(128) for _ in range(100)] + [rng.bits(12) << 200 for _ in range(100)]
    assert len(set(seen[:100])) == 100
    drawn = Counter(SystemRandomness().buffered(3).below(10) for _ in range(1000))
    drawn.update(rng.below(10) for _ in range(20_000))
    _fits(np.array([drawn[i] for i in range(10)]), np.full(10, 0.1))


def test_pick_takes_each_index_as_often_as_its_weight() -> None:
    picked = Counter(Scripted(iter([word])).pick([3, 3, 5, 8]) for word in range(8))

    assert picked == {0: 3, 2: 2, 3: 3}


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(5, 2)])
def test_an_exponential_coin_has_its_exact_probability(exponent: Fraction) -> None:
    """The tree of plain coins inside it sums to exp(-x), to the last of thirty digits that can be told."""

    class PlainCoins(Randomness):
        """Branches on `coin` only: coin_exp runs as it is."""

        def __init__(self, answers: list[bool]) -> None:
            self.answers, self.mass = answers, Fraction(1)

        def bits(self, count: int) -> int:
            raise AssertionError(count)

        def coin(self, numerator: int, denominator: int) -> bool:
            if not self.answers:
                raise StopIteration
            answer = self.answers.pop(0)
            chance = Fraction(numerator, denominator)
            self.mass *= chance if answer else 1 - chance
            return answer

    total = Fraction(0)
    waiting: list[list[bool]] = [[]]
    while waiting:
        path = waiting.pop()
        rng = PlainCoins(list(path))
        try:
            success = rng.coin_exp(exponent.numerator, exponent.denominator)
        except StopIteration:
            if rng.mass > Fraction(1, 10**16):
                waiting += [[*path, True], [*path, False]]
            continue
        total += rng.mass if success else 0

    wide = Context(prec=40)
    exact = Fraction(wide.exp(wide.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))))
    assert abs(total - exact) < Fraction(1, 10**12)


def test_discrete_laplace_has_exactly_its_law() -> None:
    law = law_of(lambda rng: discrete_laplace(rng, 3, 2))
    alpha = Context(prec=40).exp(Decimal(-2) / Decimal(3))
    for y in range(-20, 21):
        expected = (1 - alpha) / (1 + alpha) * alpha ** abs(y)
        assert float(law[y]) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("size", "count"), [(4, 0), (4, 2), (5, 3), (4, 4)])
def test_every_subset_is_equally_likely(size: int, count: int) -> None:
    law = law_of(lambda rng: tuple(subset(rng, size, count)))
    assert set(law.values()) == {Fraction(1, len(law))}
    assert len(law) == len([s for s in product([0, 1], repeat=size) if sum(s) == count])
    assert all(list(s) == sorted(set(s)) for s in law)


@pytest.mark.parametrize("rng", [SystemBulkRandomness(), InsecureBulkRandomness(5)], ids=["system", "insecure"])
def test_bulk_draws_have_the_same_laws(rng: BulkRandomness) -> None:
    """Chi-square at 1e-7 each, of which the system's stream, freshly keyed, takes five a run."""
    count = 400_000

    _fits(np.bincount(rng.below(10, count)), np.full(10, 0.1))
    rows = np.unpackbits(rng.coins(count // 8, 3, WORD // 5), axis=1, bitorder="little")
    _fits(np.bincount(rows[:, 11]), np.array([0.8, 0.2]))
    _fits(np.bincount(rows[:, 5] + 2 * rows[:, 17]), np.array([0.64, 0.16, 0.16, 0.04]))
    coins = rng.coin(WORD // 5, count)
    _fits(np.bincount(coins), np.array([1 - (WORD // 5) / WORD, (WORD // 5) / WORD]))
    drawn = np.clip(rng.discrete_laplace(3, 2, count), -8, 8)
    alpha = np.exp(-2 / 3)
    law = (1 - alpha) / (1 + alpha) * alpha ** np.abs(np.arange(-8, 9))
    law[[0, -1]] = alpha**8 / (1 + alpha)
    _fits(np.bincount(drawn + 8), law)


def _fits(seen: np.ndarray[tuple[int], np.dtype[np.int64]], law: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    expected = law * seen.sum()
    assert gammaincc((len(law) - 1) / 2, float(((seen - expected) ** 2 / expected).sum()) / 2) > 1e-7


def _draw(rng: BulkRandomness, queue: multiprocessing.Queue[list[int]]) -> None:
    queue.put(rng.words(4).tolist())


def test_a_forked_child_draws_its_own_randomness() -> None:
    rng, context = SystemBulkRandomness(), multiprocessing.get_context("fork")
    rng.words(1)
    queue: multiprocessing.Queue[list[int]] = context.Queue()
    children = [context.Process(target=_draw, args=(rng, queue)) for _ in range(2)]
    for child in children:
        child.start()
    streams = [queue.get(timeout=120) for _ in children] + [rng.words(4).tolist()]
    for child in children:
        child.join()
    assert len({tuple(stream) for stream in streams}) == 3


def test_a_forked_child_draws_its_own_single_bits() -> None:
    rng = SystemRandomness()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, rng.bits(64).to_bytes(8))
        os._exit(0)
    mine = rng.bits(64)
    os.waitpid(child, 0)
    assert int.from_bytes(os.read(reader, 8)) != mine
    os.close(reader)
    os.close(writer)


def test_a_seed_repeats_a_simulation() -> None:
    assert [InsecureRandomness(3).below(1000) for _ in range(5)] == [InsecureRandomness(3).below(1000)] * 5
    assert InsecureBulkRandomness(3).words(5).tolist() == InsecureBulkRandomness(3).words(5).tolist()


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.below(0),
        lambda rng: rng.coin(2, 1),
        lambda rng: rng.coin(-1, 1),
        lambda rng: rng.coin_exp(-1, 2),
        lambda rng: discrete_laplace(rng, 0, 1),
        lambda rng: subset(rng, 3, 4),
        lambda rng: subset_bits(rng, 3, 4),
        lambda rng: rng.coins(3, 9, 3),
    ],
)
def test_impossible_draws_are_refused(draw: Callable[[Randomness], object]) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        draw(SystemRandomness())


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.below(0, 1),
        lambda rng: rng.below(2**63 + 1, 1),
        lambda rng: rng.coin(WORD + 1, 1),
        lambda rng: rng.coins(1, 1, WORD),
    ],
)
def test_impossible_bulk_draws_are_refused(draw: Callable[[BulkRandomness], object]) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        draw(SystemBulkRandomness())


@pytest.mark.parametrize("places", [[], [0], [1023], [3, 700, 701], list(range(0, 1024, 2))])
def test_the_places_of_few_and_of_many_ones_are_found(places: list[int]) -> None:
    assert ones(sum(1 << place for place in places)) == places
