"""Check after a run: compares what devices were told with what was published, and finds lost and doubled reports.

Every report has its own value, so the published estimate of that value is the count of the report (as in tests/e2e).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.load.plan import METRICS, Plan
from benchmarks.load.receipts import Fate, Receipts
from hubbub.period import Calendar
from hubbub_cli.api_client import Refusal, ask

__all__ = ["Bucket", "Reckoning", "published", "reckon"]

_EXAMPLES = 5
"""Most examples that are named of each kind of fault."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is published for one metric and period: the `state` as in a series, and counts by value if released."""

    state: str
    reports: int = 0
    counts: Sequence[int] = ()


@dataclass
class Reckoning:
    """Numbers of reports by fate, and all contradictions to what was published."""

    acknowledged: int = 0
    counted: int = 0
    discarded: int = 0
    """Acknowledged, but in a bucket that the shuffler discarded as too small."""
    unsure: int = 0
    """Sent without an answer. Counting it once or not at all is right."""
    unsure_counted: int = 0
    lost: int = 0
    doubled: int = 0
    uncalled_for: int = 0
    """Counted although refused or never sent."""
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled or self.uncalled_for or self.wrong)

    def document(self) -> dict[str, Any]:
        return asdict(self)


def reckon(
    receipts: Receipts, buckets: Mapping[tuple[int, int], Bucket], invalid: Mapping[str, int] | None = None
) -> Reckoning:
    """Compare every report of every (metric number, period) with its count; then check what must not count at all."""
    found, examples = Reckoning(), Counter[str]()

    def fault(kind: str, what: str) -> None:
        examples[kind] += 1
        if examples[kind] <= _EXAMPLES:
            found.wrong.append(f"{kind}: {what}")

    for period in sorted(receipts.fates.keys() | {period for _, period in buckets}):
        fates = receipts.fates.get(period, bytearray(receipts.plan.reports))
        for metric in range(METRICS):
            bucket = buckets.get((metric, period), Bucket("missing"))
            ours = fates[metric::METRICS]
            counts = bucket.counts or [0] * len(ours)
            gone = bucket.state == "discarded"
            for value, (fate, count) in enumerate(zip(ours, counts, strict=True)):
                where = metric, period, value, fate, count
                found.acknowledged += fate == Fate.ACKNOWLEDGED
                found.unsure += fate == Fate.SENT
                if count > 1:
                    found.doubled += 1
                    fault("doubled", _told(*where))
                elif count < 0:
                    fault("negative", _told(*where))
                elif fate == Fate.ACKNOWLEDGED:
                    found.counted += count
                    found.discarded += gone
                    if not count and not gone:
                        found.lost += 1
                        fault("lost", _told(*where))
                elif count and fate != Fate.SENT:
                    found.uncalled_for += 1
                    fault("uncalled for", _told(*where))
                elif count:
                    found.unsure_counted += 1
            if bucket.counts and bucket.reports != sum(counts):
                fault(
                    "total",
                    f"metric {metric}, period {period}: {bucket.reports} reports, values add up to {sum(counts)}",
                )
    _beside(receipts, dict(invalid or {}), fault)
    return found


def _told(metric: int, period: int, value: int, fate: int, count: int) -> str:
    return f"metric {metric}, period {period}, value {value}: {Fate(fate).name.lower()}, counted {count} times"


def _beside(receipts: Receipts, invalid: dict[str, int], fault: Any) -> None:
    """Check that only garbage and twins are invalid, no more than were sent. (Discarded buckets hide both.)"""
    most = receipts.garbage["acknowledged"] + receipts.garbage["unsure"]
    if invalid.get("cannot-open", 0) > most:
        fault("invalid", f"{invalid['cannot-open']} reports could not be opened, {most} were garbage")
    if invalid.get("duplicate", 0) > receipts.plan.twins * len(receipts.fates):
        fault("invalid", f"{invalid['duplicate']} duplicates, more than there are twins")
    for reason in invalid.keys() - {"cannot-open", "duplicate"}:
        fault("invalid", f"{invalid[reason]} reports were invalid: {reason}")


def published(plan: Plan, aggregator: str, periods: Sequence[int]) -> dict[tuple[int, int], Bucket]:
    """All that an analyst can see of these periods."""
    calendar = Calendar(plan.period)
    found = {}
    for metric, name in enumerate(plan.metrics):
        for period in periods:
            found[metric, period] = _bucket(plan, aggregator, name, calendar, period)
    return found


def _bucket(plan: Plan, aggregator: str, name: str, calendar: Calendar, period: int) -> Bucket:
    span = {"from": calendar.period(period).label, "to": calendar.period(period + 1).label}
    try:
        (segment,) = ask(aggregator, f"/v1/metrics/{name}/estimate", span)["segments"]
    except Refusal as refusal:
        if refusal.name != "nothing-released":
            raise
        return Bucket(_state(aggregator, name, span))
    counts = [0] * plan.values
    for row in segment["values"]:
        counts[int(row["value"].removeprefix("v"))] = round(row["estimate"] * segment["reports"])
    return Bucket("released", segment["reports"], counts)


def _state(aggregator: str, name: str, span: dict[str, str]) -> str:
    """State of a period without a release."""
    try:
        (point,) = ask(aggregator, f"/v1/metrics/{name}/series", {**span, "composed": "false"})["points"]
    except Refusal as refusal:
        if refusal.name != "nothing-released":
            raise
        return "missing"
    return str(point["state"])
