"""Faults planted in a run on purpose: the check after it must find each, or it is worth nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from hubbub.wire import REPORT_HEADER_BYTES
from tests.load.plan import METRICS, Plan
from tests.load.receipts import Fate, Receipts
from tests.load.stock import reseal

__all__ = ["PLANTS", "Plant", "plant_in_receipts", "plant_in_stock"]

Plant: TypeAlias = Literal["lost", "doubled"]
PLANTS: tuple[Plant, ...] = get_args(Plant)
_TWICE, _INSTEAD, _RUINED = 0, METRICS, 2 * METRICS
"""The first three reports of the first metric: in place of the second the first is sent again; the third is ruined."""


def plant_in_stock(what: Plant, plan: Plan, stock: Path, period: int, bundle: bytes, anchor: str) -> None:
    """`doubled`: what one report says is sent again under another nonce, as if it had been counted twice.
    `lost`: one is acknowledged by the shuffler, as its head is right, and never counted."""
    again = reseal(plan, bundle, anchor, period, _TWICE)
    with (stock / str(period)).open("r+b") as file:
        if what == "doubled":
            file.seek(_INSTEAD * len(again))
            file.write(again)
        else:
            file.seek(_RUINED * len(again) + REPORT_HEADER_BYTES)
            file.write(os.urandom(len(again) - REPORT_HEADER_BYTES))


def plant_in_receipts(what: Plant, receipts: Receipts) -> None:
    """`doubled`: nobody misses the report in whose place another was sent again."""
    if what == "doubled":
        receipts.of(min(receipts.fates))[_INSTEAD] = Fate.UNUSED
