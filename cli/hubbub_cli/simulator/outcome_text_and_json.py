"""Result of a simulation for one metric, as JSON and as text for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from hubbub.shown import clipped
from hubbub_cli.simulator.bins_outcome import bins_document, bins_lines
from hubbub_cli.terminal import estimate_bars
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.wrapped_text import wrapped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hubbub.codebook import Metric
    from hubbub.simulation import Scores, Trial
    from hubbub_cli.simulator.release_prediction import Verdict

__all__ = ["Outcome"]

FEW = 20
"""Up to this many values are all listed; of more, only the largest."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One metric over all repeats."""

    metric: Metric
    scores: Scores
    verdict: Verdict
    confidence: float
    path: str

    @property
    def first(self) -> Trial:
        assert self.scores.first is not None  # noqa: S101  there is no outcome without a trial
        return self.scores.first

    @property
    def share(self) -> bool:
        """Whether the values are shares, rather than numbers with a unit."""
        return self.metric.values.shape.measure == "share"

    def document(self) -> dict[str, Any]:
        """The metric in the JSON answer."""
        known = {
            "type": self.metric.type,
            "mechanism": self.metric.mechanism.name,
            "reports": self.first.reports,
            "privacy": self.privacy(),
        }
        if self.first.summary is not None:
            return known | bins_document(self.metric, self.scores, self.first, self.first.summary)
        return known | {
            "values": self.rows(range(len(self.first.truth))),
            "coverage": self.scores.coverage,
        }

    def privacy(self) -> dict[str, Any]:
        """Both guarantees for a device's report to this metric in one period."""
        promise = self.verdict.guarantee
        return {name: getattr(promise, name) for name in ("local_epsilon", "epsilon", "delta", "method")}

    def promises(self) -> tuple[str, str]:
        """The same in words: while shuffler and aggregator do not collude, and if they do."""
        told = self.privacy()
        return (
            f"eps {above(told['epsilon'])} at delta {told['delta']:g} ({told['method']}) for one release",
            f"if shuffler and aggregator collude: eps {told['local_epsilon']:g}",
        )

    def rows(self, chosen: Any) -> list[dict[str, Any]]:
        """The values of the first repeat at these indexes."""
        trial, picked = self.first, np.asarray(chosen, np.intp)
        columns = (trial.truth, trial.estimate, trial.stderr, trial.low, trial.high)
        people = clipped(trial.estimate, trial.low, trial.high, self.metric.values.shape.limits)
        seen = zip(*(column[picked].tolist() for column in (people.values, people.low, people.high)), strict=True)
        return [
            dict(zip(("value", "truth", "estimate", "stderr", "low", "high", "shown"), row, strict=True))
            for row in zip(
                map(self.metric.values.value_of, picked.tolist()),
                *(_finite(c[picked]) for c in columns),
                [dict(zip(("value", "low", "high"), one, strict=True)) for one in seen],
                strict=True,
            )
        ]

    @property
    def is_curve(self) -> bool:
        return self.metric.values.shape.kind == "curve"

    def shown(self, most: int) -> list[int]:
        """Indexes of the values with the largest truth, or of evenly spaced ones of a curve; in order if all fit."""
        size = len(self.first.truth)
        if size <= most or self.is_curve:
            return estimate_bars.spread(size, most)
        found: list[int] = np.argsort(-self.first.truth, kind="stable")[:most].tolist()
        return found

    # -- as text --------------------------------------------------------------------------------

    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        metric, scores = self.metric, self.scores
        about = f": {metric.description}" if metric.description else ""
        yield wrapped(metric.name + about).replace(metric.name, click.style(metric.name, bold=True), 1)
        cut = f", cut into {self.verdict.parts} batches" if self.verdict.parts > 1 else ""
        unit = f", in {metric.values.shape.unit}" if metric.values.shape.unit else ""
        yield f"{metric.type} by {metric.mechanism.name}: {self.first.reports:,} reports{cut}{unit}"
        if not self.verdict.released:
            yield from map(wrapped, self._unreleased())
        chosen = self.shown(FEW if len(self.first.truth) <= FEW or self.is_curve else scores.top)
        names = [metric.label_of(index) for index in chosen]
        yield estimate_bars.estimates(self.rows(chosen), names, share=self.share, truth=True)
        if (left := len(self.first.truth) - len(chosen)) > 0:
            which = "places between them" if self.is_curve else "values that are truly rarer"
            yield f"and {left:,} {which}; --json lists all"
        yield ""
        yield wrapped(
            f"error: {self._number(scores.rms)} in root mean square, {self._number(scores.largest)} at most; "
            f"the estimates themselves state {self._number(scores.stated)}"
        )
        if scores.recall is not None:
            yield f"recall of the {scores.asked_top} largest: {scores.recall:.0%}"
        many = f"{scores.intervals:,}" + (f" in {scores.trials:,} repeats" if scores.trials > 1 else "")
        sure = f"{100 * self.confidence:.10g}% intervals, each value by itself"
        yield wrapped(f"{sure}: {scores.coverage:.1%} of {many} hold the truth")
        if self.first.summary is not None:
            yield from map(wrapped, bins_lines(self.metric, scores, self.first, self.first.summary))
        would = "" if self.verdict.released else "would be "
        shuffled, colluding = self.promises()
        yield f"privacy: {would}{shuffled}"
        yield f"         {colluding}"

    def unreleased(self) -> str:
        """Why nothing would be published, in one line."""
        return " ".join(self._unreleased())

    def _unreleased(self) -> Iterator[str]:
        needed = self.verdict.needed
        target = "release target" if needed is None else f"{needed:,} reports that a release needs"
        what = "no batch can meet the" if needed is None else f"{self.verdict.reports:,} reports are fewer than the"
        yield f"! {self.metric.name} would NOT be released: {what} {target}."
        yield "The figures below are what the release would have been" + (
            ", by the fast path: the shuffler discarded the reports." if self.path == "full" else "."
        )

    def _number(self, value: float) -> str:
        if not self.share:
            return f"{value:.3g}"
        return f"{100 * value:.2g} points" if value < 0.1 else f"{100 * value:.1f} points"


def _finite(numbers: NDArray[np.float64]) -> list[float | None]:
    """The numbers, with None for those that JSON cannot express."""
    return [number if math.isfinite(number) else None for number in numbers.tolist()]
