"""The privacy curve of releases: composed like the ledger, and answered at any δ and for groups of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from hubbub_aggregator.analysis.answer_guarantee import (
    ASSUMPTIONS,
    ONE_OPERATOR,
    Released,
    noise_delta,
    smallest,
    whole_delta,
)
from hubbub_aggregator.analysis.ledger import UNIT, rounded
from hubbub_aggregator.models.privacy_curve import CurvePoint, ErrorPoint, PrivacyCurveAnswer

if TYPE_CHECKING:
    from hubbub.accounting import PrivacyCurve

__all__ = ["privacy_curve"]

_DEFAULT = 1e-8


def privacy_curve(
    collection: str,
    releases: Sequence[Released],
    *,
    metric: str | None,
    delta: float | None,
    group: int,
    single_operator: bool,
) -> PrivacyCurveAnswer:
    """What the releases reveal together of a group of devices. `metric`: of this name only."""
    counted = smallest([one for one in releases if one.record["valid"] != 0 and metric in (None, one.record["metric"])])
    records = [one.record for one in counted]
    asked = delta if delta is not None else whole_delta(records) if records else _DEFAULT
    failure = Fraction(whole_delta(records)) - noise_delta(records) if records else Fraction(0)
    batches = Counter((pair.release.mechanism, pair.counted) for pair in rounded(counted))
    made = _curve(frozenset(batches.items()), failure, group) if batches else None
    points, errors = _drawn(made) if made else ((), ())
    return PrivacyCurveAnswer(
        collection=collection,
        metric=metric,
        unit=UNIT,
        group=group,
        releases=len(counted),
        epsilon=_epsilon(made, asked) if made else None,
        delta=asked,
        local_epsilon=made.local_epsilon if made else None,
        points=[CurvePoint(epsilon=epsilon, delta=height) for epsilon, height in points],
        errors=[ErrorPoint(false_alarm=alarm, least_miss=miss) for alarm, miss in errors],
        assumptions=ASSUMPTIONS,
        note=ONE_OPERATOR if single_operator else None,
    )


@lru_cache(maxsize=256)
def _curve(batches: frozenset[tuple[tuple[object, int], int]], failure: Fraction, group: int) -> PrivacyCurve:
    from hubbub.accounting import PrivacyCurve

    ordered = sorted(((*batch, times) for batch, times in batches), key=lambda one: (str(one[0]), one[1]))
    return PrivacyCurve(tuple(ordered), failure, group)  # type: ignore[arg-type]  # mechanisms, as the ledger has them


@lru_cache(maxsize=256)
def _drawn(curve: PrivacyCurve) -> tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]:
    points = curve.points()
    return tuple(points), tuple(curve.errors(points))


@lru_cache(maxsize=1024)
def _epsilon(curve: PrivacyCurve, delta: float) -> float:
    return curve.epsilon(delta)
