"""Readers of single values in a codebook: numbers within limits, names, delays."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from hubbub.codebook._toml_table import a_text
from hubbub.errors import InvalidParameter
from hubbub.metric_types._exact_numbers import exact
from hubbub.period import duration_seconds, duration_text

__all__ = ["a_delay", "a_name", "above_zero", "at_most_one", "below_one", "tame"]


def a_name(pattern: str) -> Callable[[object], str]:
    def read_name(value: object) -> str:
        if not re.fullmatch(pattern, a_text(value)):
            raise InvalidParameter(f"{value!r} is not a usable name")
        return a_text(value)

    return read_name


def tame(name: str) -> str:
    """A usable name close to one that is not usable."""
    tame = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:60]
    return tame if tame[:1].isalpha() else f"m_{tame}".rstrip("_")


def a_delay(grace: int) -> Callable[[object], int]:
    def read_delay(value: object) -> int:
        seconds = duration_seconds(value)
        if 2 * seconds > grace:
            raise InvalidParameter(
                f"a delay of {duration_text(seconds)} is more than half the grace of {duration_text(grace)}: "
                "the other half is needed to retry a report that was sent late",
                f'use "{duration_text(max(grace // 2, 1))}" or less, or a longer grace',
            )
        return seconds

    return read_delay


def above_zero(value: object) -> Fraction:
    number = exact(value)
    if number <= 0:
        raise InvalidParameter(f"expected a number above 0, got {value}")
    return number


def below_one(value: object) -> Fraction:
    number = above_zero(value)
    if number >= 1:
        raise InvalidParameter(f"expected a number below 1, got {value}")
    return number


def at_most_one(value: object) -> Fraction:
    number = above_zero(value)
    if number > 1:
        raise InvalidParameter(f"expected a number above 0 and at most 1, got {value}")
    return number
