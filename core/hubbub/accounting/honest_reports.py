"""Honest reports of a batch: how many of the valid reports can be relied on, given the codebook's honest fraction.

`honest_fraction` is the share of *distinct valid* reports that is assumed honest. Nothing enforces this. Reports that
do not count (junk, duplicates) improve none of these numbers. All arithmetic is exact: the fraction is a rational, and
logarithms are decimals with a margin far above their rounding.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from hubbub.errors import InvalidParameter

__all__ = [
    "FAILURE_SHARE",
    "divergence_below",
    "exact_log",
    "honest_reports",
    "honest_reports_in_part",
    "pessimistic_honest_reports",
]

FAILURE_SHARE = Fraction(1, 10)
"""The share of a release's δ that a part of a bucket may spend on the risk of fewer honest reports than assumed."""

_PRECISE = Context(prec=60)
_MARGIN = Decimal("1e-30")
"""Far above all rounding at this precision, for up to 10^12 reports. Far below the change from one more report."""


def honest_reports(valid: int, honest_fraction: object) -> int:
    """floor(h * valid) for `valid` distinct valid reports."""
    return int(_whole(valid, "valid") * _fraction(honest_fraction))


def pessimistic_honest_reports(valid: int, count: int, honest_fraction: object, failure: Fraction | None = None) -> int:
    """valid - (count - floor(h * count)), or 0: if h were the share of *all* reports, and honest ones could be invalid.

    Never above `honest_reports`, and no report that does not count raises it. With `failure`, for a part of a bucket,
    `honest_reports_in_part` of the count takes the place of the floor.
    """
    if _whole(count, "count") < _whole(valid, "valid"):
        raise InvalidParameter(f"of {count} reports, {valid} cannot be valid")
    honest = honest_reports(count, honest_fraction)
    if failure is not None:
        honest = honest_reports_in_part(count, honest_fraction, failure)
    return max(0, valid - (count - honest))


def honest_reports_in_part(valid: int, honest_fraction: object, failure: Fraction) -> int:
    """The largest k such that a uniformly drawn part of n = `valid` reports has fewer than k honest ones with
    probability at most `failure`, by Chernoff's bound:

        Pr[honest <= k] <= exp(-n KL(k/n || h)),   KL(a || h) = a ln(a/h) + (1-a) ln((1-a)/(1-h)),   k < n h

    It holds for drawing without replacement, too (Hoeffding 1963, Theorem 4). 0 if there is no such k.
    """
    fraction = _fraction(honest_fraction)
    if isinstance(failure, bool) or not isinstance(failure, Fraction) or not 0 < failure < 1:
        raise InvalidParameter(f"failure must be a fraction above 0 and below 1, got {failure!r}")
    if _whole(valid, "valid") == 0 or fraction == 1:
        return valid
    needed = _PRECISE.subtract(_MARGIN, exact_log(failure))
    low, high = -1, int(valid * fraction) + 1  # the divergence falls with k and is 0 at n h
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if divergence_below(middle, valid, fraction) >= needed else (low, middle)
    return max(0, low)


def divergence_below(honest: int, valid: int, fraction: Fraction) -> Decimal:
    """n KL(k/n || h), from below; 0 from n h on."""
    if honest >= valid * fraction:
        return Decimal(0)
    found = Decimal(0)
    for part, share in ((honest, fraction), (valid - honest, 1 - fraction)):
        if part:
            found = _PRECISE.add(found, _PRECISE.multiply(part, exact_log(Fraction(part, valid) / share)))
    return _PRECISE.subtract(found, _MARGIN)


def exact_log(number: Fraction) -> Decimal:
    """ln to 60 digits."""
    return _PRECISE.ln(_PRECISE.divide(Decimal(number.numerator), Decimal(number.denominator)))


def _fraction(honest_fraction: object) -> Fraction:
    from hubbub.mechanisms._exact_arithmetic import exact_number

    fraction = exact_number(honest_fraction, "honest_fraction")
    if not 0 < fraction <= 1:
        raise InvalidParameter(f"honest_fraction must be above 0 and at most 1, got {honest_fraction!r}")
    return fraction


def _whole(number: int, name: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InvalidParameter(f"{name} must be a whole number of at least 0, got {number!r}")
    return number
