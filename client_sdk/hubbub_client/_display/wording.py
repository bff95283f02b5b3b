"""Times, numbers and reports in words."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from math import ceil, exp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hubbub.codebook import Metric

_SHOWN = 32
"""Bytes of a report that are shown."""

_LISTED = 8
"""Values that are named, of those a report says yes to."""

__all__ = ["deniability", "input_in_words", "moment", "number", "report_in_words"]


def moment(seconds: float) -> str:
    """A time as people write it, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return "a time that no calendar has"


def number(value: float) -> str:
    return f"{value:.4g}"


def probability(value: float) -> str:
    """Two digits, and never 0 or 1 for what is not."""
    return f"{value:.2g}" if value < 0.99 else f"{value:.4f}".rstrip("0")


def input_in_words(metric: Metric, value: int | Fraction) -> str:
    """A value of the metric, as the mechanism knows it."""
    return metric.values.input_in_words(value)


def report_in_words(metric: Metric, payload: bytes) -> str:
    """What a randomized report says, on its face."""
    match metric.mechanism.face(metric.mechanism.decode(payload)):
        case int() | Fraction() as value:
            return metric.values.input_in_words(value)
        case tuple(told):
            return _listed(metric, told)
    shown = payload.hex() if len(payload) <= _SHOWN else f"{payload[:_SHOWN].hex()}… ({len(payload)} in all)"
    return f"the bytes {shown}"


def _listed(metric: Metric, told: Sequence[int]) -> str:
    """What a report with a bit for each value says yes to."""
    if not told:
        return "no to every value"
    named = ", ".join(metric.values.input_in_words(place) for place in told[:_LISTED])
    more = f" and {len(told) - _LISTED} more" if len(told) > _LISTED else ""
    return f"yes to {named}{more}, no to all others"


def deniability(metric: Metric, payload: bytes) -> str:
    """Why this report proves nothing: how likely it is from the value that makes it most likely, and least."""
    mechanism = metric.mechanism
    report = mechanism.decode(payload)
    inputs = list(mechanism.inputs())
    likelihoods = [mechanism.likelihood(report, value) for value in inputs]
    most, least = likelihoods.index(max(likelihoods)), likelihoods.index(min(likelihoods))
    said = report_in_words(metric, payload)
    # a report of very many bits is so unlikely from any value that no float holds it: then what is promised is said
    ratio = likelihoods[most] / likelihoods[least] if likelihoods[least] else exp(mechanism.realised_epsilon)
    shown = ceil(100 * ratio - 1e-6) / 100  # never better than it is
    return (
        f"a device whose value is {input_in_words(metric, inputs[least])} sends {said} with probability "
        f"{probability(likelihoods[least])}, one whose value is {input_in_words(metric, inputs[most])} with "
        f"{probability(likelihoods[most])}: at most {shown:.2f} times as likely, whatever the value"
    )
