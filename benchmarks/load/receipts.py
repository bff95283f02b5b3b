"""What became of every report on the devices' side: the acknowledged set that the check is held against."""

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
    """Of one report, as the device that sent it knows it."""

    UNUSED = 0
    SENT = 1
    """Tried, and no answer says what became of it: it may count once, or not at all."""
    ACKNOWLEDGED = 2
    REFUSED = 3
    """Refused for good, and no earlier try is in doubt."""


@dataclass
class Receipts:
    """By period, the fate of each report; and what was sent beside honest reports."""

    plan: Plan
    fates: dict[int, bytearray] = field(default_factory=dict)
    garbage: Counter[str] = field(default_factory=Counter)
    """Reports that cannot be opened: `acknowledged`, or `unsure`."""
    twins: int = 0
    """Second sealings of a report that were acknowledged."""

    def of(self, period: int) -> bytearray:
        return self.fates.setdefault(period, bytearray(self.plan.reports))

    def sending(self, period: int, identities: Iterable[int]) -> list[int]:
        """Note before the first byte leaves; returns those that were never tried before."""
        fates = self.of(period)
        fresh = [one for one in identities if fates[one] == Fate.UNUSED]
        for one in fresh:
            fates[one] = Fate.SENT
        return fresh

    def acknowledged(self, period: int, identity: int) -> bool:
        """Note it; whether that is news."""
        fates = self.of(period)
        news = fates[identity] != Fate.ACKNOWLEDGED
        fates[identity] = Fate.ACKNOWLEDGED
        return news

    def refused(self, period: int, identity: int, *, first_try: bool) -> None:
        """After an earlier try without an answer, a refusal proves nothing: that try may have been taken."""
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
