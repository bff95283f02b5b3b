"""The guarantee of an answer: that of its one release, or the composition of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hubbub_aggregator.intake.batch_record import UNIT
from hubbub_aggregator.models.privacy import Collusion, PeriodPrivacy, Privacy

if TYPE_CHECKING:
    from hubbub.accounting import Composition
    from hubbub.mechanisms import Mechanism

__all__ = ["ASSUMPTIONS", "ONE_OPERATOR", "Released", "noise_delta", "privacy", "smallest", "whole_delta"]

ASSUMPTIONS = [
    "the shuffler hides who sent which report and does not work together with the aggregator",
    "at least honest_reports of the reports are honest: an assumption that nothing enforces",
    "the honest fraction is a share of the distinct valid reports; invalid ones and duplicates are not counted on",
    "whether, when and for which metrics a device reports is not protected",
]
ONE_OPERATOR = (
    "epsilon and delta hold only if different parties run the shuffler and the aggregator; "
    "here one party runs both, so only the figures for collusion (if_collusion) are promised"
)
_MOST_SIZES = 8
"""Most different batch sizes in one answer. Each costs a loss distribution, up to a second: too long for a year."""


class Released(NamedTuple):
    """What accounting needs of one release."""

    mechanism: Mechanism[Any]
    period: int
    label: str
    record: dict[str, Any]


def privacy(releases: Sequence[Released], *, single_operator: bool) -> Privacy:
    """The guarantee for a device that is in all of these releases, with each period's beside it."""
    periods = smallest(releases)
    first = periods[0].record
    epsilon, delta, method = first["epsilon"], first["delta"], first["method"]
    local, unit = first["local_epsilon"], UNIT
    if len(periods) > 1:
        together = _together(periods)
        delta = whole_delta([release.record for release in periods])
        epsilon, method = together.epsilon, f"composed: {together.method}"
        local, unit = together.local_epsilon, _unit(len({release.period for release in periods}))
    return Privacy(
        unit=unit,
        local_epsilon=local,
        epsilon=epsilon,
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


def smallest(releases: Sequence[Released]) -> list[Released]:
    """The smallest release of each period and metric id: if there are several, a device is in one, unknown which."""
    from_largest = sorted(releases, key=lambda release: (-release.record["honest_reports"], release.record["epsilon"]))
    found = {(release.period, release.record["metric_id"]): release for release in from_largest}
    return [found[place] for place in sorted(found)]


def _unit(periods: int) -> str:
    return "one device's reports to this metric in " + ("this period" if periods == 1 else f"these {periods} periods")


def _together(periods: Sequence[Released]) -> Composition:
    """All of them composed, at the sum of their deltas."""
    return _composed(
        tuple(
            (release.record["metric_id"], release.period, release.mechanism, release.record["honest_reports"])
            for release in periods
        ),
        noise_delta([release.record for release in periods]),
    )


def whole_delta(records: Sequence[dict[str, Any]]) -> float:
    """The δ of several releases together: the sum of theirs."""
    return min(1.0, math.fsum(one["delta"] for one in records))


def noise_delta(records: Sequence[dict[str, Any]]) -> Fraction:
    """What is left of that δ for the noise, after the failure probabilities of parts."""
    failures = (Fraction(part["failure_probability"]) for one in records if (part := one.get("part")) is not None)
    return max(Fraction(0), Fraction(whole_delta(records)) - sum(failures))


@lru_cache(maxsize=512)
def _composed(batches: tuple[tuple[str, int, Mechanism[Any], int], ...], delta: Fraction) -> Composition:
    from hubbub.accounting import Ledger

    ledger = Ledger(most_sizes=_MOST_SIZES)
    for batch in batches:
        ledger.add(*batch)
    return ledger.total(delta)
