"""Times, numbers and reports in words."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from math import ceil, exp
from typing import TYPE_CHECKING

from hubbub_client._display.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hubbub.codebook import Metric

_SHOWN = 32
"""Bytes of a report to show."""

_LISTED = 8
"""Values to name, of those that a report says yes to."""

_COLUMNS = 80
"""A line of the account for people, in a terminal or a text box."""

__all__ = ["deniability", "in_lines", "input_in_words", "moment", "number", "report_in_words"]


def in_lines(lines: Iterable[str]) -> str:
    """The lines, each of which goes on below itself where it is too long."""
    from textwrap import wrap

    broken: list[str] = []
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        broken += wrap(line, _COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(broken)


def moment(seconds: float) -> str:
    """A time as people write it, in UTC."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return "a time that no calendar has"


def number(value: float) -> str:
    return f"{value:.4g}"


def probability(value: float) -> str:
    """Two digits, and never 0 or 1 for a probability that is neither."""
    return f"{value:.2g}" if value < 0.99 else f"{value:.4f}".rstrip("0")


def input_in_words(metric: Metric, value: int | Fraction) -> str:
    """A mechanism's input as a value of the metric, in words."""
    return metric.values.input_in_words(value)


def report_in_words(metric: Metric, payload: bytes) -> str:
    """What a randomized report says at face value."""
    match metric.mechanism.face(metric.mechanism.decode(payload)):
        case int() | Fraction() as value:
            return metric.values.input_in_words(value)
        case tuple(told):
            return _listed(metric, told)
    shown = payload[:_SHOWN].hex()
    if len(payload) > _SHOWN:
        shown = phrase("more bytes", bytes=shown, count=len(payload))
    return phrase("bytes", bytes=shown)


def _listed(metric: Metric, told: Sequence[int]) -> str:
    """The values that a report with one bit per value says yes to."""
    if not told:
        return phrase("no value")
    named = ", ".join(metric.values.input_in_words(place) for place in told[:_LISTED])
    more = phrase("more values", count=len(told) - _LISTED) if len(told) > _LISTED else ""
    return phrase("some values", names=named, more=more)


def deniability(metric: Metric, payload: bytes) -> str:
    """Why this report proves nothing: its probability from the value that makes it most likely, and from the least."""
    mechanism = metric.mechanism
    report = mechanism.decode(payload)
    inputs = list(mechanism.inputs())
    likelihoods = [mechanism.likelihood(report, value) for value in inputs]
    most, least = likelihoods.index(max(likelihoods)), likelihoods.index(min(likelihoods))
    said = report_in_words(metric, payload)
    # A report of very many bits may be too unlikely from any value for a float. Then the guarantee is shown instead.
    ratio = likelihoods[most] / likelihoods[least] if likelihoods[least] else exp(mechanism.realised_epsilon)
    shown = ceil(100 * ratio - 1e-6) / 100  # rounded up, so never better than it is
    return (
        f"a device whose value is {input_in_words(metric, inputs[least])} sends {said} with probability "
        f"{probability(likelihoods[least])}, one whose value is {input_in_words(metric, inputs[most])} with "
        f"{probability(likelihoods[most])}: at most {shown:.2f} times as likely, whatever the value"
    )
