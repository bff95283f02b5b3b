"""Fate of every report as the devices know it; the check compares it with what was counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Self

from benchmarks.load.plan import Plan

__all__ = ["Fate", "Receipts"]


class Fate(IntEnum):
    """Fate of one report, as its device knows it."""

    UNUSED = 0
    SENT = 1
    """Sent, but no answer came: it may count once, or not at all."""
    ACKNOWLEDGED = 2
    REFUSED = 3
    """Refused for good, and no earlier try without an answer."""


@dataclass
class Receipts:
    """By period, the fate of each report; and counts of what was sent besides honest reports."""

    plan: Plan
    fates: dict[int, bytearray] = field(default_factory=dict)
    garbage: Counter[str] = field(default_factory=Counter)
    """Reports that cannot be opened: `acknowledged`, or `unsure`."""
    twins: int = 0
    """Acknowledged reports that were a second sealing of another report."""

    def of(self, period: int) -> bytearray:
        return self.fates.setdefault(period, bytearray(self.plan.reports))

    def sending(self, period: int, identities: Iterable[int]) -> list[int]:
        """Note these as sent, before the first byte leaves; return those that were never sent before."""
        fates = self.of(period)
        fresh = [one for one in identities if fates[one] == Fate.UNUSED]
        for one in fresh:
            fates[one] = Fate.SENT
        return fresh

    def acknowledged(self, period: int, identity: int) -> bool:
        """Note the acknowledgement; return whether it is new."""
        fates = self.of(period)
        news = fates[identity] != Fate.ACKNOWLEDGED
        fates[identity] = Fate.ACKNOWLEDGED
        return news

    def refused(self, period: int, identity: int, *, first_try: bool) -> None:
        """Note a refusal. After an earlier try without an answer it proves nothing: that try may have been taken."""
        if first_try:
            self.of(period)[identity] = Fate.REFUSED

    def count(self, fate: Fate) -> int:
        return sum(fates.count(fate) for fates in self.fates.values())

    def save(self, path: Path) -> None:
        document = {
            "fates": {str(period): fates.hex() for period, fates in sorted(self.fates.items())},
            "garbage": self.garbage,
            "twins": self.twins,
        }
        path.write_text(json.dumps(document))

    @classmethod
    def load(cls, path: Path, plan: Plan) -> Self:
        document = json.loads(path.read_text())
        fates = {int(period): bytearray.fromhex(text) for period, text in document["fates"].items()}
        return cls(plan, fates, Counter(document["garbage"]), document["twins"])
