"""Data of the devices in `hubbub demo`: real flights, or made-up values for the user's own codebook."""

from __future__ import annotations

import csv
import gzip
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubbub.codebook import Metric

MORE_LATE = 0.08
"""By this much the share of flights replaced by late ones grows each period, so that there is a trend to see."""


def flights_codebook() -> str:
    """The codebook that goes with the flights."""
    return (resources.files("hubbub_cli") / "data" / "flights.toml").read_text()


def flights() -> list[Mapping[str, Any]]:
    """One row per device."""
    packed = (resources.files("hubbub_cli") / "data" / "flights.csv.gz").read_bytes()
    return [
        {**row, "late": row["late"] == "true", "departure_delay": float(row["departure_delay"])}
        for row in csv.DictReader(gzip.decompress(packed).decode().splitlines())
    ]


def in_a_hurry(codebook: str, period: str, grace: str) -> str:
    """The same codebook with short periods and delays, so that a demo ends while the user still watches."""
    head, found, rest = codebook.partition("[collection]")
    section, marker, tail = rest.partition("\n[")
    kept = [line for line in section.split("\n") if not re.match(r"\s*(period|grace|delay|forward_horizon)\s*=", line)]
    short = [f'\nperiod = "{period}"', f'grace = "{grace}"', 'delay = "5s"', 'forward_horizon = "1h"']
    return head + found + "\n".join(short + kept) + marker + tail


def crowd(rows: Sequence[Mapping[str, Any]], devices: int, age: int) -> list[Mapping[str, Any]]:
    """The flights of a period that lies `age` periods back; more of them are late in newer ones."""
    generator = random.Random(age)  # noqa: S311  which flights take part is not secret, and a demo should repeat
    late = [row for row in rows if row["late"]]
    extra = max(0.0, 2 * MORE_LATE - age * MORE_LATE)
    return [generator.choice(late if generator.random() < extra else rows) for _ in range(devices)]


def made_up(metric: Metric, devices: int, age: int) -> list[Any]:
    """Made-up values for a metric that the flights data does not have."""
    generator = random.Random(f"{metric.name} {age}")  # noqa: S311  made-up values, not secrets
    return [metric.values.made_up(generator.random(), age) for _ in range(devices)]


def truth(metric: Metric, values: Sequence[Any]) -> list[float]:
    """What an estimate should be: the share of each value, or the mean of the clamped numbers."""
    held = Counter(metric.input_of(metric.recorded(value)) for value in values)
    found: list[float] = metric.values.truth(metric.mechanism.domain.inputs(list(held)), list(held.values())).tolist()
    return found
