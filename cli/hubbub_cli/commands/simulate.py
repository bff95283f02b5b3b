"""`hubbub simulate`: estimates that a codebook would give for data whose truth is known."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from hubbub.errors import InvalidParameter
from hubbub_cli import plot_option
from hubbub_cli.compile_codebook import read_codebook
from hubbub_cli.terminal import estimate_bars
from hubbub_cli.terminal.wrapped_text import say
from hubbub_service_common.process.clock_and_entropy import below

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub.codebook import Codebook
    from hubbub.simulation import Crowd
    from hubbub_cli.simulator.csv_data import Data
    from hubbub_cli.simulator.outcome_text_and_json import Outcome

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


class _Asked(NamedTuple):
    """How the simulation is run and scored, on either path."""

    repeat: int
    seed: int
    confidence: float
    top: int


@click.command()
@click.option("--codebook", "book", type=_FILE, required=True, help="The metrics.toml to try.")
@click.option(
    "--data",
    "table",
    type=_FILE,
    required=True,
    help="CSV, also gzipped: one row per device, one column per metric; an empty cell where nothing was recorded.",
)
@click.option(
    "--devices",
    type=click.IntRange(min=1),
    help="Devices that take part. If there are more than rows, each draws a row; if fewer, different rows are drawn. "
    "Default: one per row.",
)
@click.option("--repeat", default=1, show_default=True, type=click.IntRange(min=1), help="Periods to simulate.")
@click.option("--seed", type=click.IntRange(min=0), help="Repeat an earlier run. Default: a new seed each time.")
@click.option(
    "--path",
    type=click.Choice(["fast", "full"]),
    default="fast",
    show_default=True,
    help="fast: draw all counts from their distribution. full: send every report through SDK, shuffler and aggregator.",
)
@click.option(
    "--confidence",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Confidence of the intervals.",
)
@click.option(
    "--top",
    default=10,
    show_default=True,
    type=click.IntRange(min=1),
    help="Number of largest values to look for and to list.",
)
@plot_option.option("Draw truth and estimates with their intervals")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def simulate(
    book: Path,
    table: Path,
    devices: int | None,
    repeat: int,
    seed: int | None,
    path: str,
    confidence: float,
    top: int,
    plot: str | None,
    as_json: bool,
) -> None:
    """Try a codebook on data like your own.

    Shows how accurate the estimates are, how wide their intervals, and what they cost. Each row of the data plays a
    device. Its values follow the same rules as in the SDK, are randomized and estimated, and the estimates are shown
    next to the truth. Every repeat is a period in which the same devices report again.

    Nothing here is private: the data is read as it is, and the seed repeats the noise.
    """
    picture = plot_option.target(plot)
    from hubbub.simulation import Column, Crowd, InsecureBulkRandomness
    from hubbub_cli.simulator.csv_data import read

    codebook = read_codebook(book)
    metrics = [metric for metric in codebook.in_file_order if metric.enabled]
    if not metrics:
        raise InvalidParameter(f"{book}: no metric is enabled, so there is nothing to simulate")
    if seed is None:
        seed = below(2**32)
        say(f"--seed {seed} repeats this run")
    data = read(table, metrics)
    crowd = Crowd([Column.of(metric, data.values[metric.name]) for metric in metrics])
    for line in _remarks(crowd, data, devices):
        say(line)
    weights = crowd.draw(devices, InsecureBulkRandomness(_seed(seed, "crowd")))
    asked = _Asked(repeat, seed, confidence, top)
    if path == "fast":
        outcomes = list(_fast(codebook, crowd, weights, asked))
    else:
        outcomes = _full(book, codebook, crowd, data, weights, asked)
    if as_json:
        for outcome in outcomes:
            if not outcome.verdict.released:
                say(outcome.unreleased())
        click.echo(json.dumps({"metrics": {o.metric.name: o.document() for o in outcomes}}, indent=2))
    else:
        estimate_bars.echo("\n\n".join(outcome.text() for outcome in outcomes))
    if picture:
        from hubbub_cli.simulator.plot import draw

        draw(outcomes, picture)
        say(f"drew {picture}")


def _fast(codebook: Codebook, crowd: Crowd, weights: NDArray[np.int64], asked: _Asked) -> Iterator[Outcome]:
    """Every metric by itself: its numbers do not depend on the other metrics."""
    from hubbub.simulation import InsecureBulkRandomness, Scores, run
    from hubbub_cli.simulator.outcome_text_and_json import Outcome
    from hubbub_cli.simulator.release_prediction import verdict

    with click.progressbar(length=asked.repeat * len(crowd.columns), label="simulating", file=sys.stderr) as shown:
        for column in crowd.columns:
            rng = InsecureBulkRandomness(_seed(asked.seed, f"metric {column.metric.name}"))
            scores, held = Scores(column.metric, asked.top), column.held(weights)
            for _ in range(asked.repeat):
                trial = run(column, held, rng, asked.confidence)
                scores.add(trial)
                shown.update(1)
            found = verdict(column.metric, codebook, (scores.first or trial).reports)
            yield Outcome(column.metric, scores, found, asked.confidence, "fast")


def _full(
    book: Path,
    codebook: Codebook,
    crowd: Crowd,
    data: Data,
    weights: NDArray[np.int64],
    asked: _Asked,
) -> list[Outcome]:
    """Every report by the full path. A metric that the shuffler discards gets labelled results of the fast path."""
    from hubbub.simulation import Crowd, InsecureRandomness
    from hubbub_cli.simulator.full_path_trials import everyone, through

    values = {column.metric.name: everyone(column.metric, data, weights) for column in crowd.columns}
    total = asked.repeat * sum(map(len, values.values()))
    say(f"{total:,} reports are randomized, sealed, shuffled, opened and counted ...")
    with click.progressbar(length=total, label="devices report", file=sys.stderr) as shown:
        rng = InsecureRandomness(_seed(asked.seed, "devices"))
        found = through(book, values, rng, asked.repeat, asked.confidence, asked.top, progress=shown.update)
    missing = [column for column in crowd.columns if column.metric.name not in found]
    if missing:
        instead = _fast(codebook, Crowd(missing), weights, asked)
        found |= {outcome.metric.name: replace(outcome, path="full") for outcome in instead}
    return [found[column.metric.name] for column in crowd.columns]


def _remarks(crowd: Crowd, data: Data, devices: int | None) -> Iterator[str]:
    """Remarks on how the data was read, where that may surprise."""
    if data.ignored:
        yield f"not a metric, and left out: {', '.join(data.ignored)}"
    if devices is not None and devices != crowd.rows:
        how = "each draws one" if devices > crowd.rows else "each has a different one, drawn at random,"
        yield f"{devices:,} devices: {how} of {crowd.rows:,} rows"
    for column in crowd.columns:
        metric, silent = column.metric, int((column.places < 0).sum())
        if column.refused:
            instead = "they report `missing`" if metric.missing is not None else "they stay silent"
            cure = "; add them to `values`, or name an `other`" if metric.values.listed() else ""
            yield f"{metric.name}: {column.refused:,} devices hold what the SDK refuses, so {instead}{cure}"
        if column.clamped:
            yield f"{metric.name}: {column.clamped:,} of {crowd.rows:,} values are out of bounds and clamped"
        if silent:
            yield f"{metric.name}: {silent:,} of {crowd.rows:,} devices have nothing to report, and that is visible"


def _seed(seed: int, purpose: str) -> int:
    """A seed for each purpose, so that one of them can change without the others."""
    return int.from_bytes(hashlib.sha256(f"{seed} {purpose}".encode()).digest()[:16])
