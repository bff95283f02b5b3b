"""Edges of bins: equally far apart, at equal ratios, or as a person wrote them. Exact decimals, as in every codebook.

Computed edges are rounded to few digits, so that they are short to write and the same on every machine: a device gets
the list of edges and computes none.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from itertools import pairwise

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Bins, Bounds
from hubbub.metric_types._exact_numbers import exact
from hubbub.metric_types.base import Key

__all__ = ["BINS", "USUAL_BINS", "are_log", "edges_between", "listed_edges", "number_of_bins", "whole_number_edges"]

USUAL_BINS = 64
BINS = Key(
    "bins",
    "a whole number from 2 to 256, such as 64",
    "64",
    "Distribution and count: how many bins. More bins give a finer picture, and each a larger error.",
)
LINEAR, LOG = "linear", "log"
_LINEAR_DIGITS, _LOG_DIGITS = 12, 5


def edges_between(bounds: Bounds, bins: int, scale: str) -> tuple[Fraction, ...]:
    """Edges of `bins` bins from the lower to the upper bound, on a linear or a logarithmic scale."""
    Bins(bins)
    if scale == LOG:
        if bounds.lower <= 0:
            raise InvalidParameter("log edges need a lower bound above 0", "raise the lower bound, or list the edges")
        return _refuse_equal(_logarithmic(bounds, bins))
    step = bounds.width / bins
    unit = _power_below(bounds.width) / 10**_LINEAR_DIGITS
    inner = (round((bounds.lower + step * place) / unit) * unit for place in range(1, bins))
    return _refuse_equal((bounds.lower, *inner, bounds.upper))


def _logarithmic(bounds: Bounds, bins: int) -> tuple[Fraction, ...]:
    """Equal ratios, by exact decimals of fifty digits, rounded to five."""
    fine, coarse = Context(prec=50), Context(prec=_LOG_DIGITS, rounding=ROUND_HALF_EVEN)
    low, high = (fine.ln(fine.divide(Decimal(b.numerator), Decimal(b.denominator))) for b in _ends(bounds))
    step = fine.divide(high - low, Decimal(bins))
    inner = (coarse.plus(fine.exp(low + step * place)) for place in range(1, bins))
    return (bounds.lower, *map(Fraction, inner), bounds.upper)


def _ends(bounds: Bounds) -> tuple[Fraction, Fraction]:
    return bounds.lower, bounds.upper


def _power_below(number: Fraction) -> Fraction:
    """The largest power of ten that is not above the number."""
    power = Fraction(10) ** (len(str(number.numerator)) - len(str(number.denominator)))
    return power if power <= number else power / 10


def _refuse_equal(edges: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    if any(one >= other for one, other in pairwise(edges)):
        raise InvalidParameter("the bins are too narrow for their bounds", "take fewer bins, or wider bounds")
    return edges


def listed_edges(value: object) -> tuple[Fraction, ...]:
    """Edges as a person lists them."""
    if not isinstance(value, list) or len(value) < 3:
        raise InvalidParameter(f"expected a list of at least three numbers, got {value!r}")
    edges = tuple(map(exact, value))
    for one, other in pairwise(edges):
        if one >= other:
            raise InvalidParameter(
                f"edges rise from each to the next, but {float(other):g} follows {float(one):g}", "put them in order"
            )
    Bins(len(edges) - 1)
    Bounds(edges[0], edges[-1])
    return edges


def whole_number_edges(cap: int, bins: int) -> tuple[Fraction, ...]:
    """Bins of the whole numbers from 0 to `cap`: of one number each or, if those are too many, of about equal ratios
    from the number on where that is wider than one."""
    if cap < bins:
        return tuple(map(Fraction, range(cap + 2)))
    fine, edges, top = Context(prec=50), [0, 1], cap + 1
    for left in range(bins - 1, 0, -1):
        ratio = fine.power(fine.divide(Decimal(top), Decimal(edges[-1])), fine.divide(Decimal(1), Decimal(left)))
        edges.append(max(edges[-1] + 1, int(fine.multiply(Decimal(edges[-1]), ratio).to_integral_value())))
    return (*map(Fraction, edges[:-1]), Fraction(top))


def number_of_bins(value: object) -> int:
    """A number of bins, as read from a codebook."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidParameter(f"expected a whole number, got {value!r}")
    return Bins(value).size


def are_log(edges: tuple[Fraction, ...]) -> bool:
    """Whether edges are best drawn on a logarithmic scale: ratios are about equal, and distances are not."""
    if edges[0] <= 0:
        return False
    ratios, steps = [float(b / a) for a, b in pairwise(edges)], [float(b - a) for a, b in pairwise(edges)]
    return max(ratios) - 1 <= 1.5 * (min(ratios) - 1) and max(steps) > 1.5 * min(steps)
