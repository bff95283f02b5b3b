"""`hubbub demo`: randomize real data on simulated devices and compare what comes out with the truth."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import click

from hubbub.codebook import Codebook
from hubbub.randomness import BulkRandomness, SystemBulkRandomness
from hubbub_cli.table import table

if TYPE_CHECKING:
    from hubbub.codebook import Metric

CONFIDENCE = 0.95


@click.command()
@click.option("--devices", default=20_000, show_default=True, type=click.IntRange(100, 10_000_000))
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def demo(devices: int, as_json: bool) -> None:
    """Collect four metrics from 20,000 flights, privately, and show the estimates beside the truth.

    Every device randomizes on its own, with the randomness and the integers that a real one uses. For now all of it
    happens in this process: the shuffler and the aggregator are not part of the demo yet.
    """
    data = resources.files("hubbub_cli") / "data"
    codebook = Codebook.from_toml((data / "flights.toml").read_text(), file="flights.toml")
    rows = _read(gzip.decompress((data / "flights.csv.gz").read_bytes()).decode(), devices)
    rng = SystemBulkRandomness()
    answers: dict[str, dict[str, Any]] = {}
    with click.progressbar(codebook.metrics, label="randomizing", file=sys.stderr) as metrics:
        for metric in metrics:
            answers[metric.name] = collect(metric, [row[metric.name] for row in rows], rng)
    if as_json:
        click.echo(json.dumps({"metrics": answers}, indent=2))
        return
    for metric in codebook.metrics:
        click.echo(_render(metric, answers[metric.name]))
    click.echo(
        "Each row shows the truth, which nobody sees, beside what can be told from randomized reports alone.\n"
        "About one interval in twenty is expected to miss the truth.",
        err=True,
    )


def collect(metric: Metric, values: Sequence[Any], rng: BulkRandomness) -> dict[str, Any]:
    """Randomize one value of each device, estimate, and put the truth beside it."""
    import numpy as np

    mechanism = metric.mechanism
    inputs = np.array([float(metric.input_of(value)) for value in values])
    number = metric.type == "mean"
    tally = mechanism.tally(mechanism.randomize_many(inputs if number else inputs.astype(np.int64), rng))
    estimate = mechanism.estimate(tally)
    interval = mechanism.interval(tally, CONFIDENCE)
    items: list[str | None] = [None] if number else [metric.label_of(i) for i in range(len(estimate.values))]
    truth = [inputs.mean()] if number else [(inputs == i).mean() for i in range(len(items))]
    rows = zip(items, truth, estimate.values, estimate.stderr, interval.low, interval.high, strict=True)
    keys = ("value", "truth", "estimate", "stderr", "low", "high")
    return {
        "type": metric.type,
        "mechanism": mechanism.name,
        "reports": tally.reports,
        "privacy": {"local_epsilon": mechanism.realised_epsilon},
        "confidence": interval.confidence,
        "interval": interval.kind,
        "values": [dict(zip(keys, (row[0], *map(float, row[1:])), strict=True)) for row in rows],
    }


def _read(text: str, devices: int) -> list[Mapping[str, Any]]:
    """One row a device; more devices than rows go round again."""
    parsed: list[Mapping[str, Any]] = [
        {**row, "late": row["late"] == "true", "departure_delay": float(row["departure_delay"])}
        for row in csv.DictReader(io.StringIO(text))
    ]
    return [parsed[i % len(parsed)] for i in range(devices)]


def _render(metric: Metric, answer: Mapping[str, Any]) -> str:
    """A heading, and a row a value with its interval drawn as a bar."""
    number = answer["type"] == "mean"
    heading = (
        f"{metric.name}: {metric.description}\n"
        f"{answer['reports']:,} reports by {answer['mechanism']}, local epsilon {float(metric.epsilon):g}"
    )

    def text(share: float) -> str:
        return f"{share:.2f}" if number else f"{100 * share:.1f}%"

    rows = [
        [
            row["value"] or "mean",
            text(row["truth"]),
            text(row["estimate"]),
            text(row["low"]),
            text(row["high"]),
            "" if number else _bar(row["low"], row["estimate"], row["high"]),
        ]
        for row in answer["values"]
    ]
    return f"{heading}\n{table(['value', 'truth', 'estimate', 'low', 'high', ''], rows)}\n"


def _bar(low: float, estimate: float, high: float, width: int = 40) -> str:
    """Filled up to the estimate, shaded over the interval; one row of blocks is 100 %."""
    low_at, at, high_at = (round(width * min(max(share, 0.0), 1.0)) for share in (low, estimate, high))
    return "█" * low_at + "▓" * (at - low_at) + "░" * (high_at - at)
