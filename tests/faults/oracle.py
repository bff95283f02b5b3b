"""The oracle: what every device was told, held against every count that is published, value by value.

Each device has a value of its own and seals it as it is, so its count is 0 or 1 and can be read off the estimate.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load.receipts import Fate
from hubbub_cli.api_client import Refusal, ask
from tests.faults.plan import KEY, SMALL, Plan

__all__ = ["Judgement", "Receipts", "judge", "releases"]

_EXAMPLES = 12


class Receipts:
    """By metric and period, the fate of each value. For many threads."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        self.fates: dict[tuple[str, int], dict[int, Fate]] = {}

    def take(self, metric: str, period: int, count: int) -> list[int]:
        """Values that nobody has yet, noted as sent; fewer than asked for, or none, when they run out."""
        most = self._plan.values if metric == KEY else self._plan.most_small
        with self._lock:
            fates = self.fates.setdefault((metric, period), {})
            values = list(range(len(fates), min(len(fates) + count, most)))
            fates.update(dict.fromkeys(values, Fate.SENT))
        return values

    def acknowledged(self, metric: str, period: int, value: int) -> None:
        self.fates[metric, period][value] = Fate.ACKNOWLEDGED

    def safe(self) -> int:
        """Acknowledged in buckets that have the minimum, so that they must be counted."""
        with self._lock:
            buckets = [Counter(fates.values())[Fate.ACKNOWLEDGED] for key, fates in self.fates.items() if key[0] == KEY]
        return sum(number for number in buckets if number >= self._plan.least)

    def refused(self, metric: str, period: int, value: int) -> None:
        """For good, and no earlier try is in doubt."""
        self.fates[metric, period][value] = Fate.REFUSED


@dataclass
class Judgement:
    """The columns of a run. Everything from `lost` on must be 0, but for what a run allows."""

    acknowledged: int = 0
    counted: int = 0
    """Of the acknowledged ones."""
    unsure: int = 0
    """Sent, and no answer says what became of it: it may count once or not at all."""
    unsure_counted: int = 0
    periods: int = 0
    discarded: int = 0
    """Acknowledged, in a bucket that had fewer than the minimum and was discarded for it. Not in `acknowledged`."""
    lost: int = 0
    doubled: int = 0
    phantom: int = 0
    """Counted though never sent."""
    counted_though_refused: int = 0
    undersized: int = 0
    """Releases with fewer distinct devices than the metric's minimum."""
    small_released: int = 0
    """Releases of the metric whose crowd is always too small."""
    discarded_early: int = 0
    """Buckets that were discarded before their grace was over. Only looked for where a clock is wrong."""
    stuck: int = 0
    """Whether something was still on its way long after the faults."""
    ended: int = 0
    """Times that a service ended by itself."""
    wrong: list[str] = field(default_factory=list)
    """Some of them, in words."""
    notes: list[str] = field(default_factory=list)
    """What else one may want to know."""

    BAD = (
        *("lost", "doubled", "phantom", "counted_though_refused", "undersized", "small_released"),
        *("discarded_early", "stuck", "ended"),
    )

    @property
    def holds(self) -> bool:
        return not self.wrong and not any(getattr(self, name) for name in self.BAD)

    def fault(self, kind: str, what: str, times: int = 1) -> None:
        setattr(self, kind, getattr(self, kind) + times)
        if len(self.wrong) < _EXAMPLES:
            self.wrong.append(f"{kind}: {what}")


def judge(plan: Plan, receipts: Receipts, aggregator: str) -> Judgement:
    """Ask for every period that anything was sent for, and hold it against the receipts."""
    found = Judgement()
    _releases(plan, aggregator, found)
    for (metric, period), fates in sorted(receipts.fates.items()):
        counts = _counts(plan, aggregator, metric, period)
        if metric == KEY:
            _bucket(plan, period, fates, counts, found)
    return found


def _bucket(plan: Plan, period: int, fates: dict[int, Fate], counts: Counter[int] | None, found: Judgement) -> None:
    told = Counter(fates.values())
    found.periods += 1
    found.unsure += told[Fate.SENT]
    if counts is None:
        if told[Fate.ACKNOWLEDGED] < plan.least:
            found.discarded += told[Fate.ACKNOWLEDGED]
            if told[Fate.ACKNOWLEDGED]:
                found.notes.append(f"discarded: {told[Fate.ACKNOWLEDGED]} of period {period}")
            return
        found.acknowledged += told[Fate.ACKNOWLEDGED]
        found.fault("lost", f"all {told[Fate.ACKNOWLEDGED]} of period {period}", told[Fate.ACKNOWLEDGED])
        return
    found.acknowledged += told[Fate.ACKNOWLEDGED]
    for value in fates.keys() | counts.keys():
        fate, count = fates.get(value, Fate.UNUSED), counts[value]
        where = f"value {value} of period {period}, which was {fate.name.lower()}"
        if count > 1:
            found.fault("doubled", f"{where}: counted {count} times", count - 1)
        if fate == Fate.ACKNOWLEDGED:
            found.counted += count > 0
            if not count:
                found.fault("lost", where)
        elif count and fate == Fate.SENT:
            found.unsure_counted += 1
        elif count:
            found.fault("phantom" if fate == Fate.UNUSED else "counted_though_refused", where)


def _counts(plan: Plan, aggregator: str, metric: str, period: int) -> Counter[int] | None:
    """How often each value is counted; None where nothing is released."""
    span = {"from": plan.calendar.period(period).label, "to": plan.calendar.period(period + 1).label}
    try:
        (segment,) = ask(aggregator, f"/v1/metrics/{metric}/estimate", span)["segments"]
    except Refusal as refusal:
        if refusal.name != "nothing-released":
            raise
        return None
    return Counter({int(row["value"].removeprefix("v")): round(row["total"]) for row in segment["values"]})


def _releases(plan: Plan, aggregator: str, found: Judgement) -> None:
    for release in releases(aggregator):
        metric, valid = release["metric"], release["valid"]
        what = f"{metric} in {release['period']['label']}: {valid} devices, {release['reports']} reports"
        if valid < plan.minimum[metric]:
            found.fault("undersized", what)
        if metric == SMALL:
            found.fault("small_released", what)


def releases(aggregator: str, **query: str) -> Iterator[dict[str, Any]]:
    """Records of all releases, or of those that are asked for."""
    after: str | None = None
    while True:
        page = ask(aggregator, "/v1/releases", {**query, "after": after, "limit": "1000"})
        yield from page["releases"]
        after = page["next"]
        if after is None:
            return
