"""Faults planted in a run on purpose. A check that does not find each of them proves nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from benchmarks.load.plan import METRICS, Plan
from benchmarks.load.receipts import Fate, Receipts
from benchmarks.load.stock import reseal
from hubbub.wire import REPORT_HEADER_BYTES

__all__ = ["PLANTS", "Plant", "plant_in_receipts", "plant_in_stock"]

Plant: TypeAlias = Literal["lost", "doubled"]
PLANTS: tuple[Plant, ...] = get_args(Plant)


def _places(plan: Plan) -> tuple[int, int, int]:
    """The first three reports of the first metric that have no twin, which would be counted in their place. The first
    is sent again instead of the second; the third is ruined."""
    first = -(-plan.twins // METRICS) * METRICS
    return first, first + METRICS, first + 2 * METRICS


def plant_in_stock(what: Plant, plan: Plan, stock: Path, period: int, bundle: bytes, anchor: str) -> None:
    """`doubled`: the value of one report is sent again under another nonce, as if the report had been counted twice.
    `lost`: one report is acknowledged by the shuffler, since its header is right, but never counted."""
    twice, instead, ruined = _places(plan)
    again = reseal(plan, bundle, anchor, period, twice)
    with (stock / str(period)).open("r+b") as file:
        if what == "doubled":
            file.seek(instead * len(again))
            file.write(again)
        else:
            file.seek(ruined * len(again) + REPORT_HEADER_BYTES)
            file.write(os.urandom(len(again) - REPORT_HEADER_BYTES))


def plant_in_receipts(what: Plant, receipts: Receipts) -> None:
    """`doubled`: forget the report that was replaced, so that it does not count as lost."""
    if what == "doubled":
        _, instead, _ = _places(receipts.plan)
        receipts.of(min(receipts.fates))[instead] = Fate.UNUSED
