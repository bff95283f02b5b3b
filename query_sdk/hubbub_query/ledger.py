"""The privacy ledger: what all releases cost together."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub_query.columns import Columns, stacked
from hubbub_query.frame import Tabular
from hubbub_query.privacy import Collusion
from hubbub_query.values import PeriodRange

__all__ = ["Ledger", "LedgerEntry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """The loss of a device that took part in everything that this entry covers."""

    name: str
    """The metric, the period, or the last period covered."""
    epsilon: float
    delta: float
    method: str
    releases: int
    honest_reports: int
    if_collusion: Collusion


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger(Tabular):
    """What has been spent: everything composed, never understated."""

    collection: str
    unit: str
    periods: PeriodRange | None
    opened_and_refused: int
    total: LedgerEntry | None
    per_metric: tuple[LedgerEntry, ...]
    per_period: tuple[LedgerEntry, ...]
    over_time: tuple[LedgerEntry, ...]
    assumptions: tuple[str, ...]
    note: str | None = None

    def columns(self) -> Columns:
        groups = {
            "total": (self.total,) if self.total else (),
            "metric": self.per_metric,
            "period": self.per_period,
            "through": self.over_time,
        }
        return stacked(
            {
                "covers": [covers],
                "name": entry.name,
                "epsilon": entry.epsilon,
                "delta": entry.delta,
                "collusion_epsilon": entry.if_collusion.epsilon,
                "releases": entry.releases,
                "honest_reports": entry.honest_reports,
                "opened_and_refused": self.opened_and_refused,
                "collection": self.collection,
            }
            for covers, entries in groups.items()
            for entry in entries
        )
