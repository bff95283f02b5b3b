"""Targets of attacks: a metric with a mechanism, as the SDK holds it, and reports made by the SDK's own draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.codebook import Codebook, Collection, Metric
from hubbub.mechanisms import Bounds, Mechanism, registered
from hubbub.metric_types import registered as registered_types
from hubbub.period import Calendar
from hubbub.randomness import Randomness, SystemRandomness
from hubbub_client._randomizing.draw import draw

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AnyMechanism", "Subject", "codebook_of", "spread", "subject_of", "truth_of", "usual"]

AnyMechanism = Mechanism[Any]

_RANGE = Bounds(Fraction(0), Fraction(100))
_PERIOD, _GRACE = "1h", 4_096 * 3_600
"""A long grace keeps thousands of periods open at once, each with its own crowd."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A metric under attack."""

    metric: Metric

    @property
    def mechanism(self) -> AnyMechanism:
        return self.metric.mechanism

    @property
    def epsilon(self) -> float:
        return float(self.mechanism.epsilon)

    @property
    def label(self) -> str:
        name = (
            self.mechanism.name if self.metric.collection == "audit" else f"{self.metric.name}, {self.mechanism.name}"
        )
        return f"{name}, epsilon {self.epsilon:g}, {self.mechanism.domain.in_words}"

    def value_of(self, held: Any) -> object:
        """The value that an app records so that the mechanism's input is `held`."""
        return self.metric.values.value_for(held)

    def payloads(self, held: Any, count: int, rng: Randomness | None = None) -> NDArray[np.uint8]:
        """Encoded reports of one input, one per row, by the SDK's own draw from the operating system's generator."""
        rng, value = rng or SystemRandomness(), self.value_of(held)
        joined = b"".join(draw(self.metric, value, rng).payload for _ in range(count))
        return np.frombuffer(joined, np.uint8).reshape(count, self.mechanism.report_bytes)

    def likelihoods(self, payloads: NDArray[np.uint8], inputs: Sequence[Any]) -> NDArray[np.float64]:
        """Declared P[report | input], one column per input; each distinct report is computed once."""
        size = payloads.shape[1]
        cells, of = np.unique(np.ascontiguousarray(payloads).view(f"V{size}").ravel(), return_inverse=True)
        table = np.empty((len(cells), len(inputs)))
        for row, cell in enumerate(cells):
            report = self.mechanism.decode(cell.tobytes())
            table[row] = [self.mechanism.likelihood(report, value) for value in inputs]
        return np.asarray(table[of])

    def worst_pair(self, looks: int = 64, most: int = 24) -> tuple[Any, Any]:
        """The two inputs that reports tell apart best, by the declared likelihood of reports of several inputs.

        If there are many inputs, an even selection with both ends is tried. Pairs are compared by their largest ratio,
        then by how far apart their laws are.
        """
        inputs = spread(list(self.mechanism.inputs()), most)
        seen = np.concatenate([self.payloads(value, looks) for value in inputs])
        chances = self.likelihoods(seen, inputs)
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(chances, 1e-300))
        best: tuple[float, float] = (-1.0, -1.0)
        pair = inputs[0], inputs[-1]
        for a in range(len(inputs)):
            for b in range(a):
                apart = np.abs(logs[:, a] - logs[:, b])
                score = round(float(apart.max()), 9), float(apart.mean())
                if score > best:
                    best, pair = score, (inputs[a], inputs[b])
        return pair

    def probes(self) -> list[Any]:
        """Inputs whose law is checked: both ends and, for numbers, two in between that must be rounded."""
        inputs = list(self.mechanism.inputs())
        found = [inputs[0], inputs[-1]]
        return [*found, *self.mechanism.domain.between()]


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most `most` of the items, evenly spaced, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def truth_of(mechanism: AnyMechanism, held: Any) -> NDArray[np.float64]:
    """The true estimates if every device holds this input."""
    return mechanism.domain.truth(mechanism.domain.inputs([held]), [1])


def usual(name: str, epsilon: float, size: int = 16) -> Subject:
    """A mechanism at a usual size. If only a person can choose its options, its last example is taken."""
    cls = registered()[name]
    if cls.needs_options:
        return subject_of(cls.examples(epsilon)[-1])
    domain = cls.usual_domain(size)
    return subject_of(cls.calibrate(epsilon, _RANGE if cls.fits(_RANGE) else domain))


def codebook_of(subjects: Sequence[Subject], period: str = _PERIOD, grace: int = _GRACE) -> Codebook:
    """A codebook with the subjects' metrics, for a real client and real services."""
    calendar = Calendar.parse(period)
    total = sum((subject.mechanism.epsilon for subject in subjects), Fraction(0))
    collection = Collection("audit", calendar, grace, grace, total, Fraction(1), Fraction(1, 10**8), Fraction(1))
    metrics = tuple(
        Metric("audit", calendar, f"m{i:03d}", subject.metric.values, subject.mechanism, "first", min_batch=2)
        for i, subject in enumerate(subjects)
    )
    return Codebook(collection, metrics)


def subject_of(mechanism: AnyMechanism) -> Subject:
    """A metric around a mechanism, with made-up values."""
    values = next(found for cls in registered_types().values() if (found := cls.around(mechanism.domain)) is not None)
    return Subject(Metric("audit", Calendar.parse(_PERIOD), "m000", values, mechanism, "first", min_batch=2))
