r"""Local hashing: a device draws a hash to g buckets and sends it, with its own bucket under g-ary randomized response.

A report supports the values that its hash sends to the bucket it names. If two different values share a bucket for
exactly one g-th of the hashes, a report supports a value that is not held with probability

    q = p/g + (1 - 1/g) (1 - p)/(g - 1) = 1/g

whatever p is, and n Var = (z+g-1)^2 / ((z-1)^2 (g-1)) + f ((g-1)^2 - z) / ((g-1) (z-1)) with z = e^eps, p = z / (z+g-1)
(Wang, Blocki, Li and Jha, USENIX Security 2017, section 4.4, for an ideal hash; this hash family is exactly ideal).
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction

from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import log_above, threshold
from hubbub.mechanisms._frequency_oracle import PureOracle, at
from hubbub.mechanisms._parameters import is_list
from hubbub.mechanisms.amplification_data import Amplification, Atom, Pair
from hubbub.mechanisms.base import Report
from hubbub.mechanisms.domains import Categories, Domain
from hubbub.number_format import count, probability
from hubbub.randomness import WORD


class LocalHashing(PureOracle[Report]):
    """The claims shared by all hashes that are linear over a field, of g elements or of 2 elements if g = 2^t."""

    __slots__ = ()

    size: int
    keep: int
    buckets: int
    """g."""

    @property
    @abstractmethod
    def hashes(self) -> int:
        """How many different hashes there are, all equally likely. One of them sends every value to bucket 0."""

    @classmethod
    def fits(cls, domain: Domain) -> bool:
        return is_list(domain)

    def _check(self) -> None:
        Categories(self.size)
        if not WORD < self.buckets * self.keep < self.buckets * WORD:
            raise InvalidParameter(
                f"{self.name}: keep must be above 2**64 / {self.buckets} and below 2**64, got {self.keep}"
            )
        self._refuse_if_not_private()

    @property
    def domain(self) -> Categories:
        return Categories(self.size)

    @property
    def p(self) -> Fraction:
        return Fraction(self.keep, WORD)

    @property
    def q(self) -> Fraction:
        return Fraction(1, self.buckets)

    def in_words(self) -> str:
        return (
            f"Each device picks a random hash function that puts all values into {count(self.buckets)} groups, and "
            "sends the function with one group: that of its own value with probability "
            f"{probability(float(self.p))}, otherwise one of the others, all equally likely, so that any given other "
            f"value is in the group that is sent with probability {probability(float(self.q))}."
        )

    def inputs(self) -> range:
        return range(self.size)

    def loss(self) -> Fraction:
        """For two values in different buckets, and the bucket of one of them: p over (1 - p)/(g - 1)."""
        return log_above(self.p * (self.buckets - 1) / (1 - self.p))

    def amplification(self) -> Amplification:
        r"""By symmetry there is one pair, with exactly four classes.

        Bucket 0 holds value 0 under every hash, and every hash but the constant one moves some value out of it. So for
        every report but (constant, 0) some value makes it unlikely, and the blanket is low = (1-p)/(g-1) times the
        chance of the hash. One g-th of the hashes, among them the constant one, sends both values of the pair to one
        bucket.
        """
        g, one = self.buckets, Fraction(1)
        low = (1 - self.p) / (g - 1)
        ratio, constant = self.p / low, Fraction(1, self.hashes)
        apart, together = 1 - Fraction(1, g), Fraction(1, g) - constant
        equal = apart * (g - 2) * low + together * (g - 1) * low + constant
        atoms = [Atom(apart * low, ratio, one), Atom(apart * low, one, ratio), Atom(equal, one, one)]
        if together:
            atoms.append(Atom(together * low, ratio, ratio))
        return Amplification((Pair(tuple(atoms)),))

    def influence(self) -> float:
        """A report adds (1 - q)/(p - q) to each value that it supports and takes q/(p - q) from every other value."""
        return float(1 / (self.p - self.q))


def keep_for(odds: Fraction, buckets: int) -> int:
    """The largest threshold with which g-ary randomized response stays within the odds."""
    return threshold(odds / (odds + buckets - 1))


def error_with(odds: Fraction, buckets: int, size: int) -> float:
    """n Var of a typical value with this many buckets."""
    z = float(odds)
    return at(1 / size, z / (z + buckets - 1), 1 / buckets)
