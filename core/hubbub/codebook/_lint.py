"""Warnings about what a codebook may contain but should not, each with a fix."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.errors import Finding, InvalidParameter, InvalidValue
from hubbub.metric_types._exact_numbers import decimal_text
from hubbub.period import DAY
from hubbub.usual_device_limits import USUAL_MAX_EPSILON

if TYPE_CHECKING:
    from hubbub.codebook._codebook import Codebook
    from hubbub.codebook._metric import Metric

__all__ = ["lint"]

MUCH = Fraction(8)
"""Above this epsilon a report nearly is the value: with two values it is right 2,981 times in 2,982."""
_DONE = r"(?:\w+ed|begun|done|lost|made|run|seen|sent|shown|taken|won|written)"
_COUNTED = re.compile(
    rf"\bhow (?:often|many times)\b|\b(?:number|count) of (?:times\b|(?:\w+ ){{1,3}}{_DONE}\b)"
    r"|\b(?:number|count) of .*\b(?:per|an?|each|every) (?:hour|day|week|month|period)\b",
    re.IGNORECASE,
)
"""Events that add up, such as "number of levels finished"; not a state, such as "number of open tabs"."""
_NEWEST = re.compile(r"\b(last|latest|newest|most recent)\b(?! (?:\d|hour|day|week|month|period))", re.IGNORECASE)
LARGEST_DELTA = Fraction(1, 10**6)


def lint(
    codebook: Codebook,
    *,
    today: date,
    file: str = "metrics.toml",
    devices: int | None = None,
    min_batch_of: Callable[[Metric], int] | None = None,
) -> list[Finding]:
    """Every warning. `devices` is how many are expected per period; `min_batch_of` computes a metric's minimum."""
    found = []
    if codebook.collection.release_delta > LARGEST_DELTA:
        found.append(
            Finding(
                file,
                "collection.release.delta",
                "delta is large: each device's guarantee may fail outright with this chance",
                "use 1e-8, or less than 0.1 divided by the number of devices",
            )
        )
    periods = max(1, DAY // codebook.collection.calendar.seconds)
    if (daily := codebook.spent * periods) > USUAL_MAX_EPSILON:
        found.append(
            Finding(
                file,
                "collection.device_epsilon",
                f"a device would have to spend {decimal_text(daily)} a day, but it refuses more than "
                f"{decimal_text(USUAL_MAX_EPSILON)} unless its app raises max_epsilon",
                "lower the metrics' epsilon, take a longer period, or agree on max_epsilon with the app",
            )
        )
    for metric in codebook.in_file_order:
        path = f"metrics.{metric.name}"
        warnings = [*_people(metric, today), *_privacy(metric), *_reach(metric, devices, min_batch_of)]
        found += [Finding(file, f"{path}.{key}", problem, fix) for key, problem, fix in warnings]
    return found


def _people(metric: Metric, today: date) -> Iterator[tuple[str, str, str]]:
    """Every metric needs a description, an owner and an end."""
    if not metric.description:
        yield "description", "the codebook does not say what is measured", 'add description = "..."'
    if not metric.owner:
        yield "owner", "the metric has no owner", 'add owner = "team@example.com"'
    if metric.expires is None:
        yield "expires", "the metric would be collected forever", "add expires = YYYY-MM-DD, at most a year ahead"
    elif metric.expires <= today:
        yield (
            "expires",
            f"the metric expired on {metric.expires}",
            "remove the metric, or decide to keep it and set a later date",
        )


def _privacy(metric: Metric) -> Iterator[tuple[str, str, str]]:
    """Taking part should reveal nothing, and a report little."""
    yield from metric.values.lint()
    yield from _reducer(metric)
    yield from _silence(metric)
    if metric.epsilon > MUCH:
        yield (
            "epsilon",
            f"at {decimal_text(metric.epsilon)} a report nearly is the value, if shuffler and aggregator collude",
            f"use {decimal_text(MUCH)} or less; 0.5 to 4 is usual",
        )


def _reducer(metric: Metric) -> Iterator[tuple[str, str, str]]:
    """A reducer that does not do what the description says. Only one that was left to the default is questioned."""
    if metric.reduce != metric.values.reducers[0]:
        return
    if "sum" in metric.values.reducers and _COUNTED.search(metric.description):
        yield (
            "reduce",
            f"the description speaks of a number of events, but {metric.reduce} takes the {metric.reduce} of what is "
            "recorded in a period",
            'add reduce = "sum", with bounds that cap what one device adds; or change the description',
        )
    elif "last" in metric.values.reducers and _NEWEST.search(metric.description):
        yield (
            "reduce",
            f"the description speaks of the last one, but {metric.reduce} is reported of several in a period",
            'add reduce = "last"',
        )


def _silence(metric: Metric) -> Iterator[tuple[str, str, str]]:
    """A device that recorded nothing should still send a report, and a true one."""
    nothing = metric.reducer.of_nothing
    shown = "VALUE" if nothing is None else str(nothing)
    if nothing is not None and not _may_declare(metric, nothing):
        chosen = metric.values.chosen or "values"
        yield (
            "reduce",
            f"{metric.reduce} gives {shown} when nothing was recorded, which is outside the metric's {chosen}",
            f"choose {chosen} that include {shown}, and declare missing = {shown}",
        )
    elif metric.missing is None:
        yield (
            "missing",
            "a device that recorded nothing stays silent, which others can see",
            f"add missing = {shown}, reported when nothing was recorded",
        )
    elif nothing is not None and metric.missing != nothing:
        yield (
            "missing",
            f"{metric.reduce} gives {shown} when nothing was recorded, but `missing` says otherwise",
            f"write missing = {shown}",
        )


def _may_declare(metric: Metric, value: int) -> bool:
    try:
        metric.values.declared(value)
    except (InvalidParameter, InvalidValue):
        return False
    return True


def _reach(
    metric: Metric, devices: int | None, min_batch_of: Callable[[Metric], int] | None
) -> Iterator[tuple[str, str, str]]:
    """A batch below its minimum is discarded, so a metric that never reaches the minimum yields no result."""
    needed = metric.min_batch if min_batch_of is None or devices is None else min_batch_of(metric)
    if devices is None or needed is None or not metric.enabled:
        return
    expected = math.floor(devices * metric.share)
    if expected < needed:
        least = math.ceil(needed / metric.share)
        yield (
            "min_batch",
            f"{devices} devices send about {expected} reports a period, but a release needs {needed}: "
            "every batch would be discarded",
            f"reach {least} devices, take a longer period, raise share, or relax the release target",
        )
