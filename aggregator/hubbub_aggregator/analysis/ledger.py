"""The ledger: what a device that took part in everything has lost, per metric, per period and over time.

It includes batches that were opened and refused: the aggregator has read them, and the shuffle guarantee is about what
the aggregator sees. Every number is composed from the laws of the single releases, at the sum of their deltas, and is
an upper bound. A law takes up to seconds to compute, and each different batch size needs one. So the sizes of a
metric's batches are rounded down to as many leading bits as leave eight sizes: a smaller batch hides less.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hubbub_aggregator.analysis.answer_guarantee import (
    ASSUMPTIONS,
    ONE_OPERATOR,
    Released,
    noise_delta,
    smallest,
    whole_delta,
)
from hubbub_aggregator.models.ledger import LedgerAnswer, LedgerEntry
from hubbub_aggregator.models.period_range import PeriodRange
from hubbub_aggregator.models.privacy import Collusion

if TYPE_CHECKING:
    from hubbub.accounting import Composition
    from hubbub.codebook import Metric
    from hubbub.mechanisms import Mechanism
    from hubbub.period import Calendar
    from hubbub_aggregator.storage import Release

__all__ = ["UNIT", "Noted", "ledger", "noted", "rounded"]

UNIT = "one device's reports to everything that an entry covers"
_SIZES = 8
_MOMENTS = 8


class Noted(NamedTuple):
    """One pair of metric id and period. A device is in it once."""

    name: str
    release: Released
    counted: int
    """Its honest reports, or fewer."""


def noted(releases: Iterable[Release], metrics: Mapping[bytes, Metric]) -> list[Released]:
    """What accounting needs of each release and of each batch that was only read; the rest is dropped at once."""
    kept = ("id", "metric", "metric_id", "epsilon", "delta", "honest_reports", "local_epsilon", "valid")
    found = []
    for release in releases:
        metric, record = metrics[release.metric], json.loads(release.record)
        label = metric.calendar.period(release.period).label
        rest = {"part": record.get("part"), "released": record.get("released", True)}
        found.append(Released(metric.mechanism, release.period, label, {name: record[name] for name in kept} | rest))
    return found


def ledger(
    collection: str,
    calendar: Calendar,
    releases: Sequence[Released],
    *,
    newest: int,
    single_operator: bool,
    order: Sequence[str] = (),
    delta: float | None = None,
) -> LedgerAnswer:
    """The whole ledger. `newest`: how many of the newest periods are listed one by one. `order`: names of the metrics,
    as they are to be listed. `delta`: at which every entry is answered, instead of the sum of its releases' own."""
    refused = [one for one in releases if not one.record["released"]]
    pairs = rounded(smallest([one for one in releases if one.record["valid"] != 0]))  # None: not known
    periods = sorted({pair.release.period for pair in pairs})
    label = {pair.release.period: pair.release.label for pair in pairs}
    kept = {pair.name for pair in pairs}
    names = [*(name for name in order if name in kept), *sorted(kept.difference(order))]
    # evenly spaced, the newest among them
    moments = sorted({periods[-1 - round(k * (len(periods) - 1) / (_MOMENTS - 1))] for k in range(_MOMENTS) if periods})
    return LedgerAnswer(
        collection=collection,
        unit=UNIT,
        periods=PeriodRange(
            start=label[periods[0]],
            end=calendar.period(periods[-1] + 1).label,
            length=str(calendar),
            released=len({one.period for one in releases if one.record["released"]}),
        )
        if periods
        else None,
        opened_and_refused=len(refused),
        total=_entry("everything", pairs, delta) if pairs else None,
        per_metric=[_entry(name, [pair for pair in pairs if pair.name == name], delta) for name in names],
        per_period=[
            _entry(label[period], [pair for pair in pairs if pair.release.period == period], delta)
            for period in periods[-newest:]
        ],
        over_time=[
            _entry(label[moment], [pair for pair in pairs if pair.release.period <= moment], delta)
            for moment in moments
        ],
        assumptions=ASSUMPTIONS,
        note=ONE_OPERATOR if single_operator else None,
    )


def rounded(releases: Sequence[Released]) -> list[Noted]:
    from hubbub.accounting.release_ledger import coarsened

    found: list[Noted] = []
    for metric_id in dict.fromkeys(release.record["metric_id"] for release in releases):
        mine = [release for release in releases if release.record["metric_id"] == metric_id]
        counted = coarsened([(one.mechanism, max(1, one.record["honest_reports"])) for one in mine], _SIZES)
        found += [Noted(one.record["metric"], one, size) for one, (_, size) in zip(mine, counted, strict=True)]
    return found


def _entry(name: str, pairs: Sequence[Noted], asked: float | None) -> LedgerEntry:
    records = [pair.release.record for pair in pairs]
    delta, local = whole_delta(records), records[0]["local_epsilon"]
    epsilon, method = records[0]["epsilon"], "the release's own"
    if not records[0]["released"]:
        method = "the refused batch's own"
    if len(pairs) > 1 or asked is not None:
        batches, for_noise = Counter((pair.release.mechanism, pair.counted) for pair in pairs), noise_delta(records)
        if asked is not None:
            failures = Fraction(delta) - for_noise
            delta, for_noise = asked, max(Fraction(0), Fraction(asked) - failures)
        found = _composed(frozenset(batches.items()), for_noise)
        epsilon, local, method = found.epsilon, found.local_epsilon, f"composed: {found.method}"
    return LedgerEntry(
        name=name,
        epsilon=epsilon,
        delta=delta,
        method=method,
        releases=len(pairs),
        honest_reports=min(one["honest_reports"] for one in records),
        if_collusion=Collusion(epsilon=local, delta=0.0),
    )


@lru_cache(maxsize=4096)
def _composed(batches: frozenset[tuple[tuple[Mechanism[Any], int], int]], delta: Fraction) -> Composition:
    from hubbub.accounting import Ledger

    # sizes are few already: nothing is rounded twice
    book = Ledger(most_sizes=max(_SIZES, len(batches)))
    for number, ((mechanism, reports), times) in enumerate(batches):
        for time in range(times):
            book.add(str(number), time, mechanism, reports)
    return book.total(delta)
