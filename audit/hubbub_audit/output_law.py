"""Exact output law of a sampler, found by driving it through every outcome of its coins.

The sampler is run again and again. A `Randomness` that answers from a script walks the tree of all its decisions and
multiplies their exact probabilities. The only assumption is that all randomness of the sampler comes from the draws of
`hubbub.randomness`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar, cast

from hubbub.randomness import Randomness

Outcome = TypeVar("Outcome", bound=Hashable)
T = TypeVar("T")

NEGLIGIBLE = Fraction(1, 10**17)
"""Branches rarer than this are not followed; their mass is reported as lost."""


class CannotEnumerate(Exception):
    """The sampler has too many outcomes, or draws in a way that hides them."""


class Law(dict[Outcome, Fraction]):
    """Probability of each outcome; `lost` is the mass of the branches too rare to follow."""

    lost: Fraction = Fraction(0)


def law_of(sampler: Callable[[Randomness], Outcome]) -> Law[Outcome]:
    """Every outcome with its exact probability."""
    driver = _Driver()
    return driver.explore(lambda: sampler(driver))


class _Driver(Randomness):
    def __init__(self) -> None:
        self._start(())
        self._attempts: dict[tuple[int, ...], tuple[list[object], list[Fraction]]] = {}

    def _start(self, script: tuple[int, ...]) -> None:
        self._script = script
        self._taken: list[int] = []
        self._mass = Fraction(1)
        self._untaken: list[tuple[tuple[int, ...], Fraction]] = []

    def explore(self, run: Callable[[], Outcome]) -> Law[Outcome]:
        found: dict[Outcome, Fraction] = defaultdict(Fraction)
        law: Law[Outcome] = Law()
        waiting: list[tuple[tuple[int, ...], Fraction]] = [((), Fraction(1))]
        while waiting:
            script, mass = waiting.pop()
            if mass < NEGLIGIBLE:
                law.lost += mass
                continue
            self._start(script)
            try:
                outcome = run()
            except _TooRare:
                law.lost += self._mass
            else:
                found[outcome] += self._mass
            waiting += self._untaken
        law.update(found)
        return law

    def _branch(self, chances: Sequence[Fraction]) -> int:
        depth = len(self._taken)
        if depth < len(self._script):
            choice = self._script[depth]
        else:
            possible = [i for i, chance in enumerate(chances) if chance]
            choice = possible[0]
            here = tuple(self._taken)
            self._untaken += [((*here, i), self._mass * chances[i]) for i in possible[1:]]
        self._taken.append(choice)
        self._mass = _short(self._mass * chances[choice])
        if self._mass < NEGLIGIBLE:
            raise _TooRare
        return choice

    def bits(self, count: int) -> int:
        raise CannotEnumerate(f"a sampler drew {count} raw bits; use below, coin, coins, pick, coin_exp or retry")

    def below(self, bound: int) -> int:
        if not 1 <= bound <= 10_000:
            raise CannotEnumerate(f"below({bound}) has too many outcomes to enumerate; use a smaller example")
        return self._branch([Fraction(1, bound)] * bound)

    def coin(self, numerator: int, denominator: int) -> bool:
        if not 0 <= numerator <= denominator:
            raise ValueError(f"a probability is between 0 and 1, got {numerator}/{denominator}")
        chance = Fraction(numerator, denominator)
        return bool(self._branch([1 - chance, chance]))

    def coins(self, count: int, numerator: int, places: int) -> int:
        return sum(self.coin(numerator, 2**places) << place for place in range(count))

    def pick(self, cumulative: Sequence[int]) -> int:
        return self._branch([Fraction(b - a, cumulative[-1]) for a, b in pairwise([0, *cumulative])])

    def coin_exp(self, numerator: int, denominator: int) -> bool:
        chance = exp(-Fraction(numerator, denominator))
        return bool(self._branch([1 - chance, chance]))

    def retry(self, attempt: Callable[[], T | None]) -> T:
        """An attempt without memory, repeated until it succeeds: its law is that of one attempt, given success."""
        where = tuple(self._taken)
        if where not in self._attempts:
            saved = (self._script, self._taken, self._mass, self._untaken)
            law = self.explore(attempt)
            self._script, self._taken, self._mass, self._untaken = saved
            failed = law.pop(None, Fraction(0))
            known = [mass / (1 - failed) for mass in law.values()]
            self._attempts[where] = [*law, _TooRare], [*known, 1 - sum(known, Fraction(0))]
        outcomes, chances = self._attempts[where]
        outcome = outcomes[self._branch(chances)]
        if outcome is _TooRare:
            raise _TooRare
        return cast("T", outcome)


class _TooRare(Exception):
    """This branch is too rare to follow."""


def _short(mass: Fraction) -> Fraction:
    """Rounded down to 300 binary places if exponentials made it long; rational laws never get that long."""
    return mass if mass.denominator.bit_length() < 600 else Fraction(int(mass * 2**300), 2**300)


def exp(exponent: Fraction) -> Fraction:
    """exp to forty digits; exact enough for masses down to NEGLIGIBLE and short enough to multiply."""
    wide = Context(prec=40)
    return Fraction(wide.exp(wide.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))))
