"""The preview: exactly what will be sent, and why it does not show what was recorded. For people to read.

It shows the person's own values, as far as they are still on the device, so it is for that person's eyes only.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hubbub.errors import HubbubError, InvalidParameter
from hubbub.number_format import plain
from hubbub.period import duration_text
from hubbub_client._display.phrases import phrase
from hubbub_client._display.report_in_words import deniability, in_lines, moment, number, report_in_words
from hubbub_client._integrity.torn_rows import SOUND
from hubbub_client._randomizing.randomize import is_due_at_once
from hubbub_client._state.errors import NoDurableState

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub_client._codebooks.in_force import CodebooksInForce
    from hubbub_client._state.database import State

__all__ = ["CollectedMetric", "PendingValue", "Preview", "QueuedReport", "collected", "preview_of", "read_preview"]

_GONE = "a metric that is no longer in the codebook"


@dataclass(frozen=True, slots=True)
class QueuedReport:
    """A randomized report that waits to be sent."""

    metric: str
    period: str
    says: str
    """The randomized value, in words. It may or may not be what was recorded."""
    sends_at: str
    """The earliest time of sending, in UTC."""
    epsilon: float | None
    deniable: str
    """Why it proves nothing."""
    sealed: bool
    """Whether it is already sealed to the aggregator's key; otherwise that is done when it is sent."""


@dataclass(frozen=True, slots=True, repr=False)
class PendingValue:
    """A true value that will be randomized, and is still only on the device."""

    metric: str
    period: str
    reduce: str
    recorded: int
    """How many values were recorded so far."""
    value: bool | str | float | None
    """The reduced value so far. It is the person's own, and is shown nowhere but here."""
    randomized_at: str
    """The earliest time of randomization, in UTC."""
    unit: str = ""
    """The unit of a number, if the codebook names one."""

    def __repr__(self) -> str:
        return f"PendingValue(metric={self.metric!r}, period={self.period!r}, recorded={self.recorded})"


@dataclass(frozen=True, slots=True)
class CollectedMetric:
    """A metric of the codebook in force."""

    name: str
    description: str
    type: str
    mechanism: str
    epsilon: float
    period: str
    reduce: str
    share: float
    missing: str | None
    enabled: bool
    owner: str
    expires: str | None


@dataclass(frozen=True, slots=True)
class Preview:
    """The whole preview. `str()` is for people, `document()` for JSON."""

    taking_part: bool | None
    """Whether there is consent; None if only the state file was read."""
    queued: tuple[QueuedReport, ...]
    pending: tuple[PendingValue, ...]
    metrics: tuple[CollectedMetric, ...]
    """The questions of the codebook, whether or not there is consent."""
    refusal: str | None = None
    """Why this device does not use the codebook: `short_period`, `over_budget` or `not_pinned`. None if it does."""

    def document(self) -> dict[str, Any]:
        return {
            "taking_part": self.taking_part,
            "queued": [asdict(report) for report in self.queued],
            "pending": [asdict(value) for value in self.pending],
            "metrics": [asdict(metric) for metric in self.metrics],
            "refusal": self.refusal,
        }

    def __str__(self) -> str:
        lines = [phrase("queued", count=len(self.queued))]
        for report in self.queued:
            epsilon = "" if report.epsilon is None else phrase("report's epsilon", epsilon=number(report.epsilon))
            lines.append(
                phrase("report", metric=report.metric, period=report.period, says=report.says, epsilon=epsilon)
            )
            lines.append(phrase("report's time", time=report.sends_at, why=report.deniable))
        lines.append(phrase("pending", count=len(self.pending)))
        lines.extend(_pending_in_words(value) for value in self.pending)
        lines.append(self._heading())
        for metric in self.metrics:
            off = "" if metric.enabled else phrase("off")
            description = metric.description or phrase("no description")
            lines.append(phrase("metric", name=metric.name, off=off, description=description))
            lines.append(
                phrase(
                    "metric's settings",
                    type=metric.type,
                    reduce=metric.reduce,
                    period=metric.period,
                    mechanism=metric.mechanism,
                    epsilon=number(metric.epsilon),
                )
            )
        return in_lines(lines)

    def _heading(self) -> str:
        count = len(self.metrics)
        if not count and self.taking_part is not None:
            return phrase("collected", what=phrase("not known yet" if self.taking_part else "without consent"))
        if self.refusal is not None:
            return phrase("refused", why=self.refusal, count=count)
        return phrase("with consent", count=count) if self.taking_part is False else phrase("collected", what=count)


def preview_of(state: State, codebooks: CodebooksInForce | None, *, taking_part: bool | None) -> Preview:
    """The preview of a state file. Without one, it has the questions of the codebooks only."""
    if state.exists():
        with suppress(NoDurableState), state.reading() as connection:
            return read_preview(connection, codebooks, taking_part=taking_part)
    return Preview(taking_part, (), (), collected(codebooks), _refusal(codebooks))


def read_preview(
    connection: sqlite3.Connection, codebooks: CodebooksInForce | None, *, taking_part: bool | None = None
) -> Preview:
    metrics = codebooks.metrics() if codebooks else {}
    names = {metric.name: metric for metric in metrics.values()}
    outbox = connection.execute(
        "SELECT id, period, payload, send_at, sealed IS NOT NULL FROM outbox"  # noqa: S608  ours
        f" WHERE {SOUND['outbox']} ORDER BY send_at"
    )
    queued = tuple(_queued(metrics.get(row[0]), *row[1:]) for row in outbox.fetchall())
    reductions = connection.execute(
        "SELECT metric, period, state, at FROM reductions"  # noqa: S608  ours
        f" WHERE {SOUND['reductions']} ORDER BY period, metric"
    )
    pending = tuple(_pending(names.get(row[0]), *row[1:]) for row in reductions.fetchall())
    questions = collected(codebooks)
    place = {question.name: number for number, question in enumerate(questions)}
    in_order = sorted(pending, key=lambda value: (value.period, place.get(value.metric, len(place))))
    return Preview(taking_part, queued, tuple(in_order), questions, _refusal(codebooks))


def _queued(metric: Metric | None, period: int, payload: bytes, send_at: float, sealed: int) -> QueuedReport:
    if metric is None:
        return QueuedReport(
            _GONE, str(period), "unknown", moment(send_at), None, phrase("report of no metric"), bool(sealed)
        )
    try:
        says, why = report_in_words(metric, payload), deniability(metric, payload)
    except HubbubError:
        says, why = f"the bytes {payload.hex()}", "it will be refused, as it is damaged"
    label = metric.calendar.period(period).label
    return QueuedReport(metric.name, label, says, moment(send_at), float(metric.epsilon), why, bool(sealed))


def _pending(metric: Metric | None, period: int, state: str, at: float) -> PendingValue:
    try:
        kept = json.loads(state)
        count, value = int(kept["count"]), kept["value"]
    except (ValueError, LookupError, TypeError):
        count, value = 0, None
    try:
        span = None if metric is None else metric.calendar.period(period)
    except InvalidParameter:  # an index of the time when periods had another length
        span = None
    if metric is None or span is None:
        return PendingValue(_GONE, str(period), "none", count, value, "never: it will be deleted")
    due = at if is_due_at_once(metric) else span.end
    unit = metric.values.shape.unit
    return PendingValue(metric.name, span.label, metric.reduce, count, value, moment(due), unit)


def _refusal(codebooks: CodebooksInForce | None) -> str | None:
    newest = codebooks.newest_collecting if codebooks else None
    return newest.refusal if newest else None


def _pending_in_words(pending: PendingValue) -> str:
    value, unit = pending.value, pending.unit and f" {pending.unit}"
    shown = repr(value) if isinstance(value, bool | str) else "?" if value is None else f"{plain(value)}{unit}"
    return phrase(
        "value",
        metric=pending.metric,
        period=pending.period,
        reduce=pending.reduce,
        recorded=pending.recorded,
        value=shown,
        time=pending.randomized_at,
    )


def collected(codebooks: CodebooksInForce | None) -> tuple[CollectedMetric, ...]:
    """The questions of the newest codebook."""
    newest = codebooks.newest_collecting if codebooks else None
    if codebooks is None or newest is None:
        return ()
    metrics = newest.codebook.in_file_order if newest.codebook else ()
    return tuple(
        CollectedMetric(
            name=metric.name,
            description=metric.description,
            type=metric.type,
            mechanism=metric.mechanism.name,
            epsilon=float(metric.epsilon),
            period=duration_text(metric.calendar.seconds),
            reduce=metric.reduce,
            share=float(metric.share),
            missing=None if metric.missing is None else str(metric.missing),
            enabled=not codebooks.is_off(metric),
            owner=metric.owner,
            expires=metric.expires.isoformat() if metric.expires else None,
        )
        for metric in metrics
    )
