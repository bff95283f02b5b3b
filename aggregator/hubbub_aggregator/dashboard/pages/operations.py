"""The operations page: whether batches arrive, what was refused and why, how old keys are, and what to change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hubbub.refusals import REFUSALS
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.pages.page_context import Site, seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hubbub.codebook import Codebook
    from hubbub_aggregator.operations.status import FullStatus

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


@dataclass(frozen=True, slots=True)
class Reason:
    name: str
    count: int
    meaning: str


class Key(NamedTuple):
    id: int
    periods: str
    state: str
    age: str


class Discard(NamedTuple):
    """A crowd that was too small."""

    metric: str
    period: str
    least: int | None


class Unwanted(NamedTuple):
    """A crowd of any size that was deleted for another reason."""

    metric: str
    period: str
    reason: str


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the newest release lags behind what could have been released."""

    words: str
    is_behind: bool


@dataclass(frozen=True, slots=True)
class OperationsPage:
    status: FullStatus
    lag: Lag
    refused_batches: list[Reason]
    invalid_reports: list[Reason]
    refused_requests: list[Reason]
    keys: list[Key]
    discards: list[Discard]
    unwanted: list[Unwanted]
    why_unwanted: list[Reason]
    storage: str
    last_batch: str
    length: str


async def operations_page(site: Site) -> OperationsPage:
    status, codebook, listing = await site.status(), await site.codebook(), await site.listing()
    least = {metric.name: metric.versions[-1].min_batch for metric in listing.metrics}
    unwanted = [one for one in status.discarded if one.reason in UNWANTED]
    return OperationsPage(
        status=status,
        lag=_lag(status, codebook),
        refused_batches=_reasons(status.refused_batches),
        invalid_reports=[
            Reason(name, number, INVALID.get(name, "")) for name, number in status.invalid_reports.items()
        ],
        refused_requests=_reasons(status.refused_requests),
        keys=[
            Key(
                key.id,
                key.first_period if key.first_period == key.last_period else f"{key.first_period} to {key.last_period}",
                key.state,
                f"began {formatting.ago(key.age_seconds)}"
                if key.age_seconds >= 0
                else f"begins in {formatting.ago(-key.age_seconds).removesuffix(' ago')}",
            )
            for key in status.keys
        ],
        discards=[
            Discard(one.metric, one.period, least.get(one.metric))
            for one in status.discarded
            if one.reason not in UNWANTED
        ],
        unwanted=[Unwanted(one.metric, one.period, one.reason) for one in unwanted],
        why_unwanted=[
            Reason(name, number, UNWANTED[name])
            for name, number in sorted(Counter(one.reason for one in unwanted).items())
        ],
        storage=formatting.size(status.storage.bytes),
        last_batch="none yet" if status.last_batch_seconds is None else formatting.ago(status.last_batch_seconds),
        length=formatting.length(listing.period),
    )


def _lag(status: FullStatus, codebook: Codebook) -> Lag:
    collection = codebook.collection
    calendar, now = collection.calendar, seconds_of(status)
    newest = calendar.index_at(max(0.0, now - collection.grace)) - 1
    label = calendar.period(max(0, newest)).label
    if status.last_release is None:
        return Lag(f"Nothing has been released yet. The newest period that has closed is {label}.", False)
    if any(warning.name == "clock" for warning in status.warnings):
        return Lag(
            f"Unknown while this clock is in doubt: by this clock, {label} is the newest period that has closed. "
            f"{status.last_release} is the newest that is released.",
            True,
        )
    behind = newest - calendar.boundary(status.last_release)
    if behind <= 0:
        return Lag(f"Up to date: {status.last_release} is released, and no later period has closed.", False)
    noun = "period has" if behind == 1 else "periods have"
    return Lag(
        f"{behind} {noun} closed since the newest release, {status.last_release}: batches may be on their way, or "
        "crowds were too small.",
        behind > 1,
    )


def _reasons(found: Mapping[str, int]) -> list[Reason]:
    return [Reason(name, number, REFUSALS[name].title if name in REFUSALS else "") for name, number in found.items()]
