"""What someone can learn about one device at most: how often a guess is right, and what may be believed afterwards.

All numbers are upper bounds, and stay so when they are rounded: a guarantee is never shown better than it is.
"""

from __future__ import annotations

import math
from fractions import Fraction

from hubbub.number_format import share

__all__ = ["at_most", "believed", "guessed_right"]

_ERROR = 1 + 2.0**-48
"""More than the rounding of the few floating-point steps below can amount to."""
_LARGEST = 700.0
"""Above this epsilon, e^epsilon is no longer a float, and no bound differs from certainty."""


def guessed_right(epsilon: float, delta: float = 0.0) -> float:
    """The most often that someone guesses right which of two answers a device gave, if both are equally likely.

    For (epsilon, delta)-indistinguishable laws, no test is right more often than

        (e^epsilon + delta) / (e^epsilon + 1)

    since its two kinds of error add up to at least 2 (1 - delta) / (e^epsilon + 1) (Kairouz, Oh and Viswanath, "The
    Composition Theorem for Differential Privacy", IEEE Trans. Inf. Theory 63, 2017, Theorem 2.1). The delta is inside:
    no exception has to be made beside it.
    """
    if epsilon >= _LARGEST:
        return 1.0
    wrong = (1 - delta) / (1 + math.exp(epsilon)) / _ERROR
    return min(1.0, math.nextafter(1 - wrong, math.inf))


def believed(before: float, epsilon: float) -> float:
    """The most that someone may believe after seeing an epsilon-private output: odds grow by at most e^epsilon.

    (Kasiviswanathan and Smith, "On the 'Semantics' of Differential Privacy", J. Privacy and Confidentiality 6, 2014.)
    """
    return before / (before + (1 - before) * math.exp(-epsilon))


def at_most(chance: float) -> str:
    """A chance as a percentage, rounded up."""
    return share(math.ceil(1000 * Fraction(min(1.0, chance * _ERROR))) / 1000)
