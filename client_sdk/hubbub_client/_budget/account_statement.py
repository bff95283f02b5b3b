"""The account of a device: what it has spent, on what, and what its limits are. For people to read."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.period import DAY
from hubbub_client._budget.ledger import Decision, spent_ever, spent_on
from hubbub_client._display.phrases import phrase
from hubbub_client._display.report_in_words import in_lines, moment, number
from hubbub_client._state.errors import NoDurableState

if TYPE_CHECKING:
    from hubbub_client._budget.device_limits import Limits
    from hubbub_client._state.database import State

__all__ = ["Account", "Entry", "MetricAccount", "account_of", "read_account"]

_LAST_PERIODS = 10
_IN_WORDS = {
    Decision.CHARGED: "charged, not randomized yet",
    Decision.IN_DOUBT: "charged; in doubt whether it was randomized, as the file is an older copy",
    Decision.OUT_OF_SHARE: "left out by the metric's share",
    Decision.SPENT: "reported",
    Decision.REFUSED: "not reported, as a limit was reached",
    Decision.CLOSED: "closed, not reported",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """The decision for a metric and a span of time, from `start` up to `end` (Unix seconds)."""

    start: int
    end: int
    decision: Decision
    epsilon: float
    """The charge: 0 unless `decision` is `charged` or `spent`."""

    def document(self) -> dict[str, Any]:
        return {
            "start": moment(self.start),
            "end": moment(self.end),
            "decision": self.decision.value,
            "epsilon": self.epsilon,
        }


@dataclass(frozen=True, slots=True)
class MetricAccount:
    """The account of one metric, by name: an edit that gives the metric a new id opens no new account."""

    name: str
    spent: float
    """Ever."""
    reports: int
    """How many reports were randomized, ever."""
    periods: tuple[Entry, ...]
    """The last ones, newest first."""

    def document(self) -> dict[str, Any]:
        periods = [entry.document() for entry in self.periods]
        return {"name": self.name, "spent": self.spent, "reports": self.reports, "periods": periods}


@dataclass(frozen=True, slots=True)
class Account:
    """The whole account. `str()` is for people, `document()` for JSON."""

    metrics: tuple[MetricAccount, ...]
    spent: float
    """Ever, over all metrics. Spends that were lost with a damaged file are missing here: see `complete`."""
    spent_today: float
    """On this UTC day."""
    max_epsilon: float | None = None
    """The device's limit per UTC day. None: no limit, or unknown because only the file was read."""
    lifetime_epsilon: float | None = None
    complete: bool = True
    """False: more may have been spent, because a state file was damaged or cannot be read now."""
    closed_before: float | None = None
    """After such damage: periods that began before this moment, and its UTC day, are not reported."""

    def metric(self, name: str) -> MetricAccount | None:
        return next((metric for metric in self.metrics if metric.name == name), None)

    def document(self) -> dict[str, Any]:
        return {
            "spent": self.spent,
            "spent_today": self.spent_today,
            "max_epsilon": self.max_epsilon,
            "lifetime_epsilon": self.lifetime_epsilon,
            "complete": self.complete,
            "closed_before": None if self.closed_before is None else moment(self.closed_before),
            "metrics": [metric.document() for metric in self.metrics],
        }

    def __str__(self) -> str:
        lines = [
            phrase(
                "spent",
                today=number(self.spent_today),
                of_day=_of(self.max_epsilon),
                ever=number(self.spent),
                of_ever=_of(self.lifetime_epsilon),
            )
        ]
        if not self.complete:
            lines.append(phrase("incomplete"))
        for metric in self.metrics:
            made = {0: phrase("no report"), 1: phrase("one report")}.get(metric.reports)
            made = made or phrase("reports", count=metric.reports)
            charged = phrase("charged", epsilon=number(metric.spent)) if metric.spent else phrase("nothing charged")
            lines.append(phrase("account", name=metric.name, charged=charged, made=made))
            for entry in metric.periods:
                epsilon = phrase("decision's epsilon", epsilon=number(entry.epsilon)) if entry.epsilon else ""
                span = {"start": moment(entry.start), "end": moment(entry.end)}
                lines.append(phrase("decision", **span, decision=_IN_WORDS[entry.decision], epsilon=epsilon))
        return in_lines(lines)


def account_of(state: State, limits: Limits, now: float) -> Account:
    """The account in a state file, with the given limits; empty if there is no file. That is the whole account only if
    there never was one: after a cycle has put a damaged file aside, the next one makes its successor."""
    if state.exists():
        with suppress(NoDurableState), state.reading() as connection:
            return read_account(connection, now, limits)
    return Account(
        (), 0.0, 0.0, _float(limits.max_epsilon), _float(limits.lifetime_epsilon), complete=not state.ever_existed()
    )


def read_account(connection: sqlite3.Connection, now: float, limits: Limits | None = None) -> Account:
    totals = {name: (epsilon, reports) for name, epsilon, reports in connection.execute("SELECT * FROM totals")}
    names = {name for (name,) in connection.execute("SELECT DISTINCT metric FROM ledger")}
    facts = dict(
        connection.execute("SELECT name, value FROM facts WHERE name IN ('closed_before', 'lifetime_unknown')")
    )
    return Account(
        tuple(_metric(connection, name, *totals.get(name, ("0", 0))) for name in sorted(names | totals.keys())),
        float(spent_ever(connection)),
        float(spent_on(connection, int(now // DAY))),
        _float(limits.max_epsilon) if limits else None,
        _float(limits.lifetime_epsilon) if limits else None,
        "lifetime_unknown" not in facts,
        facts.get("closed_before"),
    )


def _metric(connection: sqlite3.Connection, name: str, epsilon: str, reports: int) -> MetricAccount:
    rows = connection.execute(
        "SELECT start, end, decision, epsilon FROM ledger WHERE metric = ? ORDER BY end DESC LIMIT ?",
        (name, _LAST_PERIODS),
    )
    entries = tuple(
        Entry(start, end, Decision(decision), float(Fraction(spent)) if spent else 0.0)
        for start, end, decision, spent in rows
    )
    return MetricAccount(name, float(Fraction(epsilon)), reports, entries)


def _float(limit: Fraction | None) -> float | None:
    return None if limit is None else float(limit)


def _of(limit: float | None) -> str:
    return "" if limit is None else phrase("limit", limit=number(limit))
