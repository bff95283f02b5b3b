"""Auto epsilon: the local epsilons and mechanisms of a codebook that leaves them open, from target, crowd and budget.

    Codebook.load("metrics.toml", solve_open_epsilons)

`error` is served first, with the smallest epsilon that reaches it. The metrics with "auto" share what is left of
`device_epsilon`. Everything is worked out for the reports that `devices_margin` leaves, and certified for the honest
fraction of them. What cannot be met becomes a finding that says what would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from hubbub.accounting.budget_split import Asked, split
from hubbub.accounting.honest_reports import honest_reports
from hubbub.accounting.largest_epsilon import rounded_down
from hubbub.accounting.release_target import Target
from hubbub.codebook import Collection, Metric, decimal_text
from hubbub.codebook._metric import total_epsilon
from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON, SMALLEST_EPSILON

if TYPE_CHECKING:
    from hubbub.codebook._open_epsilon import OpenMetric
    from hubbub.codebook._toml_table import Findings
    from hubbub.mechanisms import Mechanism
    from hubbub.metric_types import MetricType

    AnyMechanism = Mechanism[Any]

__all__ = ["half_width", "in_unit", "solve_open_epsilons", "what_caps_buy"]

_CAPS = (1, 2, 4, 8)
"""Caps whose error is shown where none was written."""
_USUAL = 0.95


def solve_open_epsilons(
    collection: Collection, metrics: Sequence[Metric], opened: Sequence[OpenMetric], findings: Findings
) -> Mapping[str, AnyMechanism]:
    """The mechanism of each open metric, by name. What cannot be met is noted in `findings`."""
    asked = {one.name: request for one in opened if (request := _asked(collection, one, findings)) is not None}
    if findings.found:
        return {}
    found: dict[str, AnyMechanism] = {}
    for one in opened:
        if one.wish.error is not None:
            smallest = _smallest(one, asked.pop(one.name), findings)
            found |= {} if smallest is None else {one.name: smallest}
    if findings.found:
        return {}
    is_on = {one.name for one in opened if one.enabled}
    spent = total_epsilon(metrics) + sum((made.epsilon for name, made in found.items() if name in is_on), Fraction(0))
    off = {name: asked.pop(name) for name in list(asked) if name not in is_on}
    try:
        made = split(asked, collection.device_epsilon - spent) if asked else {}
    except InvalidParameter as error:
        fix = error.fix or "raise device_epsilon, or lower an epsilon"
        findings.add(
            "collection.device_epsilon",
            f'the metrics without "auto" spend {decimal_text(spent)} of {decimal_text(collection.device_epsilon)}, '
            f"and the rest: {error.problem}",
            fix,
        )
        return {}
    made |= {name: one.choose(one.cap) for name, one in off.items()}
    return found | {name: choice.mechanism for name, choice in made.items()}


def half_width(values: MetricType, mechanism: AnyMechanism, reports: int, confidence: float = _USUAL) -> float:
    """Half of an interval from so many reports, in the unit of the metric. Needs no data."""
    return NormalDist().inv_cdf((1 + confidence) / 2) * values.expected_error(mechanism, reports)


def in_unit(values: MetricType, half: float) -> str:
    """Half of an interval as people write it: points of a share, or a number in its unit."""
    shape = values.shape
    return f"±{100 * half:.2g}%" if shape.measure == "share" else f"±{half:.3g}{shape.unit and ' ' + shape.unit}"


def what_caps_buy(values: MetricType, asked: Asked) -> str:
    """The error that each cap on the local epsilon would allow."""
    said = []
    for cap in (*map(Fraction, _CAPS), LARGEST_EPSILON):
        made = asked.choose(cap)
        error = in_unit(values, half_width(values, made.mechanism, asked.target.reports))
        if cap == LARGEST_EPSILON:
            said.append(f"none, which comes to {decimal_text(made.mechanism.epsilon)}: {error}")
        elif made.is_capped:
            said.append(f"{decimal_text(cap)}: {error}")
    return "; ".join(said)


def _asked(collection: Collection, one: OpenMetric, findings: Findings) -> Asked | None:
    """What an open metric asks for, or a finding that says what it lacks."""
    if one.wish.devices is None:
        problem = "the epsilon follows from the crowd, and the file does not say how many devices are expected"
        findings.add(f"{one.key}.devices", problem, "add devices = 50000, or your number, here or in [collection]")
        return None
    honest = honest_reports(one.reports, collection.honest_fraction)
    if not honest:
        problem = f"{one.wish.devices:,} devices would send {one.reports} reports, none of them surely honest"
        findings.add(f"{one.key}.devices", problem, "expect more devices, raise share, or take a longer period")
        return None
    target = Target(collection.release_epsilon, collection.release_delta, honest, one.reports)
    asked = Asked(
        one.values.domain, target, one.wish.cap or LARGEST_EPSILON, one.report_bytes, one.only, one.wish.importance
    )
    try:
        if one.wish.cap is None and one.wish.error is None:
            crowd = f"95 % intervals from {one.reports:,} reports, by cap: {what_caps_buy(one.values, asked)}"
            problem = f'"auto" needs a cap: all that holds if shuffler and aggregator collude. {crowd}'
            findings.add(f"{one.key}.epsilon", problem, "add local_epsilon_cap = 4.0, here or in [collection]")
            return None
        asked.locally_best(min(asked.cap, Fraction(1)))
    except InvalidParameter as error:
        findings.add(f"{one.key}.epsilon", error.problem, error.fix or "leave the mechanism out, or write an epsilon")
        return None
    return asked


def _smallest(one: OpenMetric, asked: Asked, findings: Findings) -> AnyMechanism | None:
    """The mechanism with the smallest local epsilon that reaches the error and meets the target."""
    wanted, confidence = float(one.wish.error or 0), float(one.wish.confidence)

    def reaches(mechanism: AnyMechanism) -> bool:
        return half_width(one.values, mechanism, one.reports, confidence) <= wanted

    top = asked.choose(asked.cap)
    if not reaches(top.mechanism):
        least = in_unit(one.values, half_width(one.values, top.mechanism, one.reports, confidence))
        limit = f"the cap of {decimal_text(asked.cap)}" if top.is_capped else "the release target"
        findings.add(
            f"{one.key}.error",
            f"{in_unit(one.values, wanted)} is out of reach with {one.reports:,} reports: {limit} allows {least}",
            "ask for that, expect more devices, " + ("raise the cap" if top.is_capped else "raise release.epsilon"),
        )
        return None
    low, high = Fraction(0), top.mechanism.epsilon
    best = top.mechanism
    # no mechanism of a smaller epsilon reaches it, whatever a release reveals
    while (middle := rounded_down((low + high) / 2)) > max(low, SMALLEST_EPSILON) and middle < high:
        local = asked.locally_best(middle)
        low, high, best = (low, middle, local) if reaches(local) else (middle, high, best)
    if asked.target.meets(best):
        return best
    low, high, best = high, top.mechanism.epsilon, top.mechanism
    while (middle := rounded_down((low + high) / 2)) > low and middle < high:
        made = asked.choose(middle).mechanism
        low, high, best = (low, min(middle, made.epsilon), made) if reaches(made) else (middle, high, best)
    return best
