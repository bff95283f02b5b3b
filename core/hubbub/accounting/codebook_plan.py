"""The plan of a codebook: its batch sizes, errors and guarantees, computed before anything is collected.

Everything here follows from the codebook and a number of devices. No data is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING

from hubbub.accounting.budget_split import Asked
from hubbub.accounting.compose import Composition, compose
from hubbub.accounting.guarantee import Guarantee, guarantee, min_reports
from hubbub.accounting.honest_reports import honest_reports
from hubbub.accounting.release_target import Target
from hubbub.accounting.share_credit import ShareCredit, credit_of
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import REPORT_BYTES, explain
from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON

if TYPE_CHECKING:
    from hubbub.accounting.release_choice import ReleaseChoice
    from hubbub.codebook import Codebook, Metric

_USUAL_CONFIDENCE = 0.95
_LARGE_ERROR = 0.05
"""A standard error above five points, or a twentieth of the range, gets a word of advice."""


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """One metric at the planned number of devices. Errors are in the metric's own unit (a share for categories)."""

    metric: Metric
    reports: int
    """Reports expected per period: devices times `share`."""
    min_batch: int | None
    """Fewest reports that may be released. None: no batch size meets the release target."""
    released: bool
    guarantee: Guarantee | None
    """The guarantee per period, for the honest part of the reports. None if there would be no honest report."""
    composed: Composition | None
    """The guarantee after all planned periods."""
    credit: ShareCredit | None
    """What one release promises those who do not know which devices reported. None without `share` or `missing`."""
    stderr: float
    interval: float
    """Full width of a 95 % interval."""
    advice: tuple[str, ...]
    why: str
    """Why the metric has this mechanism, or what would be chosen by default."""
    at_equal_certificate: ReleaseChoice | None = None
    """What the release target and this crowd would allow at best, up to the metric's cap. None: not asked for."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All enabled metrics, and the privacy loss of a device that takes part in everything."""

    codebook: Codebook
    devices: int
    periods: int
    metrics: tuple[MetricPlan, ...]
    device_period: Composition | None
    """The loss over all metrics in one period."""
    device_total: Composition | None
    """The loss over all metrics in all periods."""


def plan(
    codebook: Codebook,
    devices: int,
    periods: int = 1,
    *,
    floor: int = 0,
    is_frozen: bool = False,
    compare: bool = False,
) -> Plan:
    """Plan every enabled metric of the codebook, for a number of devices in each of a number of periods.

    `floor` is the fewest reports that the shuffler forwards together, whatever the codebook says. `is_frozen`: the
    codebook was read in its compiled form, so advice is about the metrics.toml that it is compiled from. `compare`:
    also find the best mechanism at equal certificate, which takes up to a second for each metric.
    """
    for what, number in (("devices", devices), ("periods", periods)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InvalidParameter(f"{what} must be a whole number of at least 1, got {number!r}")
    planned = tuple(
        _plan_metric(codebook, metric, devices, periods, floor, is_frozen=is_frozen, compare=compare)
        for metric in codebook.in_file_order
        if metric.enabled
    )
    delta = codebook.collection.release_delta
    released = [(p.metric.mechanism, p.guarantee.reports) for p in planned if p.released and p.guarantee]
    once = compose([(mechanism, honest, 1) for mechanism, honest in released], delta) if released else None
    total = once  # of one period
    if released and periods > 1:
        total = compose([(mechanism, honest, periods) for mechanism, honest in released], delta)
    return Plan(codebook, devices, periods, planned, once, total)


def min_batch(metric: Metric, codebook: Codebook) -> int:
    """ceil(n0 / h), the fewest reports whose honest part meets the release target, or a larger explicit `min_batch`."""
    collection = codebook.collection
    least = min_reports(metric.mechanism, collection.release_epsilon, collection.release_delta)
    needed = max(2, math.ceil(least / collection.honest_fraction))
    return max(needed, metric.min_batch or 0)


def _plan_metric(
    codebook: Codebook, metric: Metric, devices: int, periods: int, floor: int, *, is_frozen: bool, compare: bool
) -> MetricPlan:
    collection, mechanism = codebook.collection, metric.mechanism
    reports = int(devices * metric.share)
    delta = collection.release_delta
    honest = honest_reports(reports, collection.honest_fraction)
    try:
        needed: int | None = max(min_batch(metric, codebook), floor)
    except InvalidParameter:
        needed = None
    released = needed is not None and reports >= needed
    stderr = metric.expected_error(reports)
    return MetricPlan(
        metric=metric,
        reports=reports,
        min_batch=needed,
        released=released,
        guarantee=guarantee(mechanism, honest, delta) if honest else None,
        composed=compose([(mechanism, honest, periods)], delta) if honest else None,
        credit=None if needed is None else credit_of(metric, collection, needed),
        stderr=stderr,
        interval=2 * NormalDist().inv_cdf((1 + _USUAL_CONFIDENCE) / 2) * stderr,
        advice=tuple(_advice(codebook, metric, reports, needed, stderr, floor, is_frozen=is_frozen)),
        why=explain(mechanism),
        at_equal_certificate=asked_of(metric, codebook, reports).choose(cap_of(metric)) if compare and honest else None,
    )


def asked_of(metric: Metric, codebook: Codebook, reports: int) -> Asked:
    """What a metric asks of the accountant if its epsilon were open and it had so many reports."""
    collection = codebook.collection
    honest = honest_reports(reports, collection.honest_fraction)
    target = Target(collection.release_epsilon, collection.release_delta, honest, reports)
    limit = max(REPORT_BYTES, metric.mechanism.report_bytes)
    importance = Fraction(1) if metric.wish is None else metric.wish.importance
    return Asked(metric.values.domain, target, cap_of(metric), limit, None, importance)


def cap_of(metric: Metric) -> Fraction:
    """The largest local epsilon that the codebook allows this metric."""
    if metric.chosen_for is not None and metric.chosen_for.cap is not None:
        return metric.chosen_for.cap
    return LARGEST_EPSILON if metric.wish is None or metric.wish.cap is None else metric.wish.cap


def _advice(
    codebook: Codebook, metric: Metric, reports: int, needed: int | None, stderr: float, floor: int, *, is_frozen: bool
) -> list[str]:
    """What to change when the target or a useful error cannot be met."""
    found = []
    if needed is None or reports < needed:
        wants = f"needs {needed:,} reports a period" if needed else "has no batch size that meets the release target"
        found.append(f"{wants}; {reports:,} are expected, so every period would be discarded")
        found += _smaller_batch(codebook, metric, reports, floor, is_frozen=is_frozen)
        longer = "a longer period lets more devices report in each"
        if reports < floor:
            found.append(f"{longer}; the shuffler forwards no fewer than {floor:,} reports (min_batch_floor)")
        else:
            found.append(f"{longer}; a larger release.epsilon needs fewer reports")
        if metric.share < 1:
            found.append(
                f"share = {float(metric.share):g} leaves out devices; 1 would give {int(reports / metric.share):,}"
            )
    if stderr / metric.values.span > _LARGE_ERROR:
        more = f", {metric.values.remedy}" if metric.values.remedy else ""
        unit = metric.values.shape.unit and f" {metric.values.shape.unit}"
        cure = f"more devices, a longer period{more} or a larger epsilon help"
        found.append(f"expect a standard error of {stderr:.2g}{unit}: {cure}")
    return found


def _smaller_batch(codebook: Codebook, metric: Metric, reports: int, floor: int, *, is_frozen: bool) -> list[str]:
    """How the expected reports could be enough. The `min_batch` of a compiled codebook is worked out anew, unless it is
    above what the target needs: then a person wrote it, and it holds whatever the epsilon is."""
    if reports < floor:
        return []
    try:
        computed: int | None = min_batch(replace(metric, min_batch=None), codebook)
    except InvalidParameter:
        computed = None
    again = " and compile it again" if is_frozen else ""
    found, also = [], ""
    if computed is not None and max(computed, reports) < (written := metric.min_batch or 0):
        target = f"its min_batch of {written:,} is above the {max(computed, floor):,} that the release target needs"
        found.append(f"{target}: lower it in metrics.toml{again}")
        also = f" and min_batch of at most {reports:,}"
    if computed is None or reports < computed:
        smaller = _largest_epsilon_that_fits(codebook, metric, reports)
        if smaller is not None:
            said = f"with epsilon = {smaller:g} instead of {float(metric.epsilon):g}{also} it would be released"
            found.append(said + (": edit metrics.toml and compile it again" if is_frozen else ""))
    return found


def _largest_epsilon_that_fits(codebook: Codebook, metric: Metric, reports: int) -> float | None:
    """The largest two-digit epsilon below the metric's own at which the expected reports are enough."""
    collection = codebook.collection
    honest = honest_reports(reports, collection.honest_fraction)
    if not honest or metric.mechanism.needs_options:  # a mechanism that a person designed has its own epsilon
        return None
    low, high = 0, int(metric.epsilon * 100)
    while high - low > 1:
        middle = (low + high) // 2
        trial = type(metric.mechanism).calibrate(Fraction(middle, 100), metric.mechanism.domain)
        met = guarantee(trial, honest, collection.release_delta).epsilon <= collection.release_epsilon
        low, high = (middle, high) if met else (low, middle)
    return low / 100 if low else None
