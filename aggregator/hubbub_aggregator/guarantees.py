"""The guarantee of an answer: that of its one release, or the composition of all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hubbub_aggregator.models import Collusion, PeriodPrivacy, Privacy
from hubbub_aggregator.publish import UNIT

if TYPE_CHECKING:
    from hubbub.mechanisms import Mechanism

__all__ = ["Released", "privacy"]

ASSUMPTIONS = [
    "the shuffler hides who sent which report and does not work together with the aggregator",
    "at least honest_reports of the reports are honest: an assumption that nothing enforces",
    "whether, when and for which metrics a device reports is not protected",
]
ONE_OPERATOR = (
    "epsilon and delta hold only if different parties run the shuffler and the aggregator; "
    "here one party runs both, and what it promises is if_collusion"
)
_MOST_SIZES = 8
"""Each different batch size costs a loss distribution, about a third of a second."""
_KEPT_BITS = (7, 5, 4, 3)


class Released(NamedTuple):
    """What accounting needs of one release."""

    mechanism: Mechanism[Any]
    period: int
    label: str
    record: dict[str, Any]


def privacy(releases: Sequence[Released], *, single_operator: bool) -> Privacy:
    """The guarantee for a device that is in all of these releases, with each period's beside it."""
    periods = _worst_of_each(releases)
    first = periods[0].record
    epsilon, delta, method = first["epsilon"], first["delta"], first["method"]
    local, unit = first["local_epsilon"], UNIT
    if len(periods) > 1:
        epsilon, delta, method = _together(periods)
        local = _sum_above([release.record["local_epsilon"] for release in periods])
        unit = f"one device's reports to this metric in these {len(periods)} periods"
    return Privacy(
        unit=unit,
        local_epsilon=local,
        epsilon=min(epsilon, local),
        delta=delta,
        honest_reports=min(release.record["honest_reports"] for release in periods),
        method=method,
        per_period=[
            PeriodPrivacy(
                period=release.label,
                **{name: release.record[name] for name in ("epsilon", "delta", "honest_reports", "method")},
            )
            for release in periods
        ],
        if_collusion=Collusion(epsilon=local, delta=0.0),
        assumptions=ASSUMPTIONS,
        note=ONE_OPERATOR if single_operator else None,
    )


def _worst_of_each(releases: Sequence[Released]) -> list[Released]:
    """One release per metric id and period: a device is in one of the batches, and no one knows in which."""
    worst: dict[tuple[str, int], Released] = {}
    for release in releases:
        place = (release.record["metric_id"], release.period)
        if place not in worst or release.record["epsilon"] > worst[place].record["epsilon"]:
            worst[place] = release
    return sorted(worst.values(), key=lambda release: (release.period, release.record["metric_id"]))


def _together(periods: Sequence[Released]) -> tuple[float, float, str]:
    """Composed loss distributions where that is quick enough, and never worse than the plain sums."""
    delta = math.fsum(release.record["delta"] for release in periods)
    plain = _sum_above([release.record["epsilon"] for release in periods])
    sizes = [(release.mechanism, release.record["honest_reports"]) for release in periods]
    for bits in (64, *_KEPT_BITS):
        # a batch counted as slightly smaller is worse, so this stays an upper bound
        counted = Counter((mechanism, _leading(reports, bits)) for mechanism, reports in sizes)
        if len(counted) <= _MOST_SIZES:
            key = tuple(sorted(((m, n, t) for (m, n), t in counted.items()), key=lambda c: (c[0].fingerprint, c[1])))
            epsilon, method = _composed(key, delta)
            if epsilon < plain:
                return epsilon, delta, f"composed: {method}"
            break
    return plain, math.nextafter(delta, math.inf), "composed: sum of epsilon, sum of delta"


@lru_cache(maxsize=512)
def _composed(batches: tuple[tuple[Mechanism[Any], int, int], ...], delta: float) -> tuple[float, str]:
    from hubbub.accounting import compose

    found = compose(batches, delta)
    return found.epsilon, found.method


def _leading(number: int, bits: int) -> int:
    drop = max(0, number.bit_length() - bits)
    return number >> drop << drop


def _sum_above(numbers: Sequence[float]) -> float:
    return math.nextafter(math.fsum(numbers), math.inf)
