"""Faults planted in a run on purpose: the check after it must find each, or it is worth nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, get_args

from tests.load.plan import METRICS, Plan
from tests.load.receipts import Fate, Receipts
from tests.load.stock import reseal

__all__ = ["PLANTS", "Plant", "plant_in_receipts", "plant_in_stock"]

Plant: TypeAlias = Literal["lost", "doubled"]
PLANTS: tuple[Plant, ...] = get_args(Plant)
_TWICE, _INSTEAD = 0, METRICS
"""The first report of the first metric, and the second, in whose place it is sent again."""


def plant_in_stock(plan: Plan, stock: Path, period: int, bundle: bytes, anchor: str) -> None:
    """`doubled`: what the first report says is sent again under another nonce, as if it had been counted twice."""
    again = reseal(plan, bundle, anchor, period, _TWICE)
    with (stock / str(period)).open("r+b") as file:
        file.seek(_INSTEAD * len(again))
        file.write(again)


def plant_in_receipts(what: Plant, receipts: Receipts) -> None:
    """`lost`: a report that never left is said to have been acknowledged. `doubled`: nobody misses the one replaced."""
    first = min(receipts.fates)
    if what == "lost":
        fates = receipts.of(first)
        fates[fates.rindex(Fate.UNUSED)] = Fate.ACKNOWLEDGED
    else:
        receipts.of(first)[_INSTEAD] = Fate.UNUSED
