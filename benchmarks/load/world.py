"""State of the one run of this Locust process: plan, stock and counts, from the folder that `run.py` prepared."""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path

from benchmarks.load.plan import Plan, refuse_other_hosts
from benchmarks.load.receipts import Receipts
from benchmarks.load.stock import Stock
from benchmarks.load.tally import Tally

__all__ = ["FOLDER", "RUN", "World"]

FOLDER = "HUBBUB_LOAD_FOLDER"
"""Environment variable that names the folder."""


class World:
    """The state, each part loaded at first use, so that importing Locust's file does nothing."""

    @cached_property
    def folder(self) -> Path:
        try:
            return Path(os.environ[FOLDER])
        except KeyError:
            raise SystemExit("use `make load`: it starts the services, seals reports ahead and checks them") from None

    @cached_property
    def plan(self) -> Plan:
        return Plan.load(self.folder / "plan.json")

    @cached_property
    def addresses(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / "addresses.json").read_text())
        for address in found.values():
            refuse_other_hosts(address)
        return found

    @cached_property
    def stock(self) -> Stock:
        return Stock(self.plan, self.folder / "stock")

    @cached_property
    def receipts(self) -> Receipts:
        return Receipts(self.plan)

    @cached_property
    def tally(self) -> Tally:
        return Tally()


RUN = World()
