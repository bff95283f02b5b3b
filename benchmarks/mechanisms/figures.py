"""Figures from estimates, with the same arithmetic for all libraries."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.mechanisms.work import TOP


class Accuracy(NamedTuple):
    """Error of the shares of one randomizer at one size and epsilon."""

    who: str
    size: int
    epsilon: float
    reports: int
    repeats: int
    error: float
    """n x mean squared error by item."""
    ratio: float
    """The same, as a multiple of the least possible variance."""
    doubt: float
    """Standard error of `ratio`."""


class Largest(NamedTuple):
    """How well the ten most frequent values are found, and at what cost."""

    who: str
    epsilon: float
    draws: int
    """Number of draws over which the next three are averaged."""
    found: float
    """How many of the ten largest are among the ten largest estimates."""
    error: float
    """Mean absolute error of their shares, as a part of their mean share."""
    most: float
    """Estimated over true share of the most frequent value."""
    client: float
    """Microseconds of CPU per report on the device."""
    server: float
    """Microseconds of CPU per report on the server, over all reports."""


class Noise(NamedTuple):
    """A noisy number of one library."""

    who: str
    epsilon: float
    reports: int
    variance: float
    bias: float
    doubt: float
    """Standard error of `bias`."""
    client: float


def true_shares(values: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    return np.bincount(values, minlength=size) / len(values)


def accuracy(
    who: str, values: NDArray[np.int64], estimates: NDArray[Any], size: int, epsilon: float, least: float
) -> Accuracy:
    """Errors of items are almost independent, so the mean square has a relative standard error of
    sqrt(2/items/repeats)."""
    error = len(values) * float(np.mean((np.asarray(estimates, np.float64) - true_shares(values, size)) ** 2))
    ratio = error / least
    doubt = ratio * math.sqrt(2 / (max(1, size - 1) * len(estimates)))
    return Accuracy(who, size, epsilon, len(values), len(estimates), error, ratio, doubt)


def largest(
    who: str, values: NDArray[np.int64], estimates: NDArray[Any], epsilon: float, client: float, server: float
) -> Largest:
    """`estimates` are by repeat and item."""
    truth = true_shares(values, estimates.shape[1])
    top = np.argsort(-truth, kind="stable")[:TOP]
    leading = np.argsort(-estimates, axis=1, kind="stable")[:, :TOP]
    found = float(np.isin(leading, top).sum(1).mean())
    error = float(np.abs(estimates[:, top] - truth[top]).mean() / truth[top].mean())
    most = float(estimates[:, top[0]].mean() / truth[top[0]])
    return Largest(who, epsilon, len(estimates), found, error, most, client, server)


def noise(who: str, values: NDArray[np.float64], found: NDArray[Any], epsilon: float, client: float) -> Noise:
    errors = np.asarray(found, np.float64) - values
    spread = float(errors.var())
    return Noise(who, epsilon, len(errors), spread, float(errors.mean()), math.sqrt(spread / len(errors)), client)
