"""The operations page: is it running, what is late, what was deleted or refused and why, and what to do about it.

Only what a person has to act on is an alarm. An app that nobody uses, and questions that people mistype, are not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hubbub.refusals import REFUSALS
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.pages.page_context import Site, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hubbub.codebook import Codebook
    from hubbub_aggregator.operations.status import DiscardedBucket, FullStatus

__all__ = ["INVALID", "OperationsPage", "operations_page"]

INVALID = {
    "cannot-open": "It does not open with the key of its period: damaged, or sealed for another aggregator.",
    "wrong-period": "Its content names another period than its envelope: a broken or dishonest device.",
    "malformed": "Its content is not a report of this metric: a broken or dishonest device.",
    "duplicate": "The same device-period was counted already: a report that was sent twice, counted once.",
}
"""Why a report inside a batch does not count; docs/reference/problems.md shows the same, and a test compares."""

UNWANTED = {
    "revoked-key": "Sealed to a key that was revoked, by hand or by a restore without keys. No one can open these "
    "reports: they are lost. Nothing in the codebook has to change: the keys below say which periods have a live one.",
    "switched-off": "The metric is switched off, by a command or in its codebook.",
}
"""Why the shuffler deletes a bucket of any size."""


_TO_DO = {
    "batch-too-small": "Collect from more devices, over longer periods, or with a larger release target: `hubbub plan` "
    "says how many devices are enough.",
    "batch-too-late": "Nothing: the batch is lost. If this aggregator was down for that long, make `forward_horizon` "
    "longer.",
    "batch-conflict": "Look for a shuffler whose state was copied or restored from a backup.",
    "malformed-batch": "Look for something between the two services that cuts bodies.",
}
"""What to do about a refused batch, in short; docs/reference/problems.md has all of it."""

_QUESTIONS = frozenset({"invalid-query", "method-not-allowed", "not-found", "nothing-released", "unauthorized"})
_INTERNAL = "internal-error"
_OWN_FAULTS = frozenset({"no-bundle", "not-ready", "overloaded", "storage-full"})
_KEYS_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Reason:
    name: str
    count: int
    meaning: str
    to_do: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is going on. If it is bad, a person has to do something."""

    title: str
    words: str
    to_do: str = ""
    is_bad: bool = False


class Key(NamedTuple):
    id: int
    first: str
    last: str
    state: str
    age: str


class Discard(NamedTuple):
    """Crowds of one metric that were deleted for one reason."""

    metric: str
    reason: str
    periods: int
    newest: str
    least: int | None


@dataclass(frozen=True, slots=True)
class OperationsPage:
    status: FullStatus
    now: float
    findings: list[Finding]
    """What is bad comes first."""
    due: str
    """When the period closes whose numbers come next."""
    refused_batches: list[Reason]
    invalid_reports: list[Reason]
    questions: list[Reason]
    """Refused requests that someone mistyped, or asked too early or without a token."""
    other_requests: list[Reason]
    keys: list[Key]
    """The newest."""
    older_keys: list[Key]
    discards: list[Discard]
    unwanted: list[Discard]
    why_unwanted: list[Reason]
    storage: str
    last_batch: str
    length: str

    @property
    def alarms(self) -> int:
        return sum(finding.is_bad for finding in self.findings)


async def operations_page(site: Site) -> OperationsPage:
    status, codebook, listing = await site.status(), await site.codebook(), await site.listing()
    least = {metric.name: metric.versions[-1].min_batch for metric in listing.metrics}
    unwanted = [one for one in status.discarded if one.reason in UNWANTED]
    requests = _reasons(status.refused_requests)
    now = seconds_of(status)
    calendar = codebook.collection.calendar
    newest_closed = calendar.index_at(max(0.0, now - codebook.collection.grace)) - 1
    newest = (
        newest_closed if status.last_release is None else max(newest_closed, calendar.boundary(status.last_release))
    )
    following = calendar.period(newest + 1)
    keys = [
        Key(key.id, key.first_period, key.last_period, key.state, _age(key.age_seconds))
        for key in sorted(status.keys, key=lambda one: (one.age_seconds, -one.id))
    ]
    return OperationsPage(
        status=status,
        now=now,
        findings=sorted(_findings(status, codebook, newest_closed), key=lambda finding: not finding.is_bad),
        due=formatting.moment(following.closes_at(codebook.collection.grace), now),
        refused_batches=_reasons(status.refused_batches),
        invalid_reports=[
            Reason(name, number, INVALID.get(name, "")) for name, number in status.invalid_reports.items()
        ],
        questions=[one for one in requests if one.name in _QUESTIONS],
        other_requests=[one for one in requests if one.name not in _QUESTIONS],
        keys=keys[:_KEYS_SHOWN],
        older_keys=keys[_KEYS_SHOWN:],
        discards=_grouped((one for one in status.discarded if one.reason not in UNWANTED), least),
        unwanted=_grouped(unwanted, least),
        why_unwanted=[
            Reason(name, number, UNWANTED[name])
            for name, number in sorted(Counter(one.reason for one in unwanted).items())
        ],
        storage=formatting.size(status.storage.bytes),
        last_batch="none yet" if status.last_batch_seconds is None else formatting.ago(status.last_batch_seconds),
        length=formatting.length(listing.period),
    )


def _findings(status: FullStatus, codebook: Codebook, newest_closed: int) -> list[Finding]:
    found = [
        Finding(f"Warning: {warning.name}", formatting.sentence(warning.detail) + ".", is_bad=True)
        for warning in status.warnings
    ]
    if not any(key.state == "active" for key in status.keys):
        found.append(
            Finding("No sealing key is in use", "Devices can't seal reports.", "The log says why.", is_bad=True)
        )
    if status.storage_errors:
        times = "once" if status.storage_errors == 1 else f"{formatting.count(status.storage_errors)} times"
        found.append(
            Finding(
                "The storage failed",
                f"It failed {times} since this process started. No batch is lost: the shuffler sends it again.",
                "The log names the cause: often a full disk, or a Redis that can't be reached.",
                is_bad=True,
            )
        )
    if broken := status.refused_requests.get(_INTERNAL, 0):
        times = "Once" if broken == 1 else f"{formatting.count(broken)} times"
        found.append(
            Finding(
                "Internal errors",
                f"{times} since this process started, an error inside this service left a request without an answer.",
                'Look at the log: each has a line "internal error" that names its place. Report it if it happens '
                "again.",
                is_bad=True,
            )
        )
    failed = sum(number for name, number in status.refused_requests.items() if name in _OWN_FAULTS)
    if failed:
        found.append(
            Finding(
                "Requests that this service could not answer",
                f"{formatting.count(failed)} since this process started.",
                "The table of refused requests below says why; the log says more.",
            )
        )
    if pending := status.batches["pending"]:
        words = "1 batch waits" if pending == 1 else f"{formatting.count(pending)} batches wait"
        found.append(Finding(f"{words} to be opened", "Reload in a minute: the number should fall."))
    return [*found, _late(status, codebook, newest_closed)]


def _late(status: FullStatus, codebook: Codebook, newest_closed: int) -> Finding:
    """Whether numbers are missing that could be there. The aggregator can't tell a quiet app from a broken path."""
    calendar, last = codebook.collection.calendar, status.last_release
    closed = formatting.date(calendar.period(max(0, newest_closed)).label)
    if last is None:
        return Finding(
            "No number yet",
            f"Nothing has been released. The newest period that has closed is {closed}.",
            "The overview says what a first number needs.",
        )
    newest = formatting.date(last)
    if any(warning.name == "clock" for warning in status.warnings):
        return Finding(
            "Whether numbers are late is unknown",
            f"This clock is in doubt. By it, {closed} is the newest period that has closed; {newest} is the newest "
            "that is released.",
        )
    behind = newest_closed - calendar.boundary(last)
    if behind <= 0:
        return Finding("Numbers are up to date", f"{newest} is released, and no later period has closed.")
    periods = "One period has" if behind == 1 else f"{formatting.count(behind)} periods have"
    since = f"{periods} closed since {newest}, the newest with a number."
    small = sorted({one.metric for one in status.discarded if calendar.boundary(one.period) > calendar.boundary(last)})
    if small:
        return Finding(
            "The crowd was too small",
            f"{since} Reports came, but too few of {_listed(small)}, so the shuffler deleted them.",
            "See below what makes a smaller crowd enough.",
        )
    if behind == 1:
        return Finding("The next numbers are on their way", f"{since} Batches may be in transit.")
    return Finding(
        "Nothing has arrived for a while",
        f"{since} No batch and no notice came for them.",
        "If nobody used the app, that is all. If it was in use, check that the shuffler runs and gets through: its "
        "/readyz says so.",
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more metrics"


def _age(seconds: int) -> str:
    if seconds >= 0:
        return f"began {formatting.ago(seconds)}"
    return f"begins in {formatting.ago(-seconds).removesuffix(' ago')}"


def _grouped(found: Iterable[DiscardedBucket], least: Mapping[str, int | None]) -> list[Discard]:
    """By metric and reason; what was deleted last comes first."""
    periods: dict[tuple[str, str], list[str]] = {}
    for one in found:  # the newest first
        periods.setdefault((one.metric, one.reason), []).append(one.period)
    return [
        Discard(metric, reason, len(labels), labels[0], least.get(metric))
        for (metric, reason), labels in periods.items()
    ]


def _reasons(found: Mapping[str, int]) -> list[Reason]:
    return [
        Reason(name, number, REFUSALS[name].title if name in REFUSALS else "", _TO_DO.get(name, ""))
        for name, number in found.items()
    ]
