"""Simulated periods by the full path, scored by what the aggregator publishes."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.accounting import Guarantee
from hubbub.simulation import Column, Scores, Trial
from hubbub_cli.simulator.bins_outcome import summary_of
from hubbub_cli.simulator.in_process_services import Pipeline
from hubbub_cli.simulator.outcome_text_and_json import Outcome
from hubbub_cli.simulator.release_prediction import Verdict, parts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hubbub.codebook import Metric
    from hubbub.randomness import Randomness
    from hubbub_cli.simulator.csv_data import Data

__all__ = ["everyone", "through"]


def everyone(metric: Metric, data: Data, weights: NDArray[np.int64]) -> list[object]:
    """The value that each device records, row by row; None where the SDK keeps nothing."""
    kept = [value if metric.values.takes(value) else None for value in data.values[metric.name]]
    return [kept[row] for row in np.repeat(np.arange(len(kept)), weights).tolist()]


def through(
    codebook: Path,
    values: Mapping[str, Sequence[object]],
    rng: Randomness,
    repeat: int,
    confidence: float,
    top: int = 10,
    progress: Callable[[int], None] = lambda _done: None,
) -> dict[str, Outcome]:
    """Every metric that was released, scored over the repeats in which it was."""
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="hubbub-simulate-") as home, Pipeline(Path(home), codebook) as pipeline:
        for _ in range(repeat):
            for name, (answer, held) in pipeline.period(values, rng, confidence, progress).items():
                if answer is None:
                    continue
                metric = pipeline.codebook.metric(name)
                if name not in outcomes:
                    outcomes[name] = Outcome(metric, Scores(metric, top), _verdict(metric, answer), confidence, "full")
                outcomes[name].scores.add(trial(metric, answer, held))
    return outcomes


def trial(metric: Metric, answer: Any, held: Sequence[object]) -> Trial:
    """The published estimates, with the truth of the devices whose reports were taken."""
    column = Column.of(metric, held)
    found = {
        name: np.array([math.nan if row[name] is None else row[name] for row in answer["values"]])
        for name in ("estimate", "stderr", "low", "high")
    }
    # a missing limit counts as infinite
    low, high = np.nan_to_num(found["low"], nan=-math.inf), np.nan_to_num(found["high"], nan=math.inf)
    truth = column.truth(column.held(np.ones(len(held), np.int64)))
    bins = answer.get("bins")
    summary = None if bins is None else summary_of(bins)
    return Trial(answer["reports"], truth, found["estimate"], found["stderr"], low, high, summary)


def _verdict(metric: Metric, answer: Any) -> Verdict:
    """The guarantee as the aggregator states it."""
    told = answer["privacy"]
    promise = Guarantee(told["epsilon"], told["delta"], told["honest_reports"], told["method"], told["local_epsilon"])
    needed = metric.min_batch
    return Verdict(answer["reports"], needed, parts_of(answer["reports"], needed), promise)
