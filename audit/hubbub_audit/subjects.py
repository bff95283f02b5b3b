"""What is attacked: a metric with a mechanism, as the SDK holds it, and reports that the SDK's own draw made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hubbub.codebook import Codebook, Collection, Metric
from hubbub.codebook._values import Category, Number, Values
from hubbub.mechanisms import Bounds, Categories, Domain, Mechanism, registered
from hubbub.period import Calendar
from hubbub.randomness import Randomness, SystemRandomness
from hubbub_client._draw import draw

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AnyMechanism", "Subject", "codebook_of", "spread", "subject_of", "truth_of", "usual"]

AnyMechanism = Mechanism[Any]

_RANGE = Bounds(Fraction(0), Fraction(100))
_PERIOD, _GRACE = "1h", 4_096 * 3_600
"""A long grace: thousands of periods are open at a time, each a crowd of its own."""


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
        domain = self.mechanism.domain
        shape = f"{domain.size} values" if isinstance(domain, Categories) else "a number"
        name = (
            self.mechanism.name if self.metric.collection == "audit" else f"{self.metric.name}, {self.mechanism.name}"
        )
        return f"{name}, epsilon {self.epsilon:g}, {shape}"

    def value_of(self, held: Any) -> object:
        """What an app records, so that the mechanism's input is `held`."""
        values = self.metric.values
        if isinstance(values, Number):
            return float(held)
        return bool(held) if values.type == "boolean" else values.labels()[held]

    def payloads(self, held: Any, count: int, rng: Randomness | None = None) -> NDArray[np.uint8]:
        """Encoded reports of one input, one a row, by the SDK's own draw from the operating system's generator."""
        rng, value = rng or SystemRandomness(), self.value_of(held)
        joined = b"".join(draw(self.metric, value, rng).payload for _ in range(count))
        return np.frombuffer(joined, np.uint8).reshape(count, self.mechanism.report_bytes)

    def likelihoods(self, payloads: NDArray[np.uint8], inputs: Sequence[Any]) -> NDArray[np.float64]:
        """Declared P[report | input], one column an input; each different report is asked about once."""
        size = payloads.shape[1]
        cells, of = np.unique(np.ascontiguousarray(payloads).view(f"V{size}").ravel(), return_inverse=True)
        table = np.empty((len(cells), len(inputs)))
        for row, cell in enumerate(cells):
            report = self.mechanism.decode(cell.tobytes())
            table[row] = [self.mechanism.likelihood(report, value) for value in inputs]
        return np.asarray(table[of])

    def worst_pair(self, looks: int = 64, most: int = 24) -> tuple[Any, Any]:
        """The two inputs that reports tell apart best, by the declared likelihood of reports of several inputs.

        Of many inputs a spread-out selection is tried, ends included. By the largest ratio first, and among equals by
        how far the laws are apart.
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
        """Inputs whose law is checked: both ends, and for numbers two between that must be rounded."""
        inputs = list(self.mechanism.inputs())
        found = [inputs[0], inputs[-1]]
        if isinstance(self.mechanism.domain, Bounds):
            low, width = self.mechanism.domain.lower, self.mechanism.domain.width
            found += [Fraction(float(low + width * part)) for part in (Fraction(3, 14), Fraction(5, 8))]
        return found


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most so many of them, evenly, with the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def truth_of(mechanism: AnyMechanism, held: Any) -> NDArray[np.float64]:
    """What the estimates are to come out as where every device holds this input."""
    domain = mechanism.domain
    if not isinstance(domain, Categories):
        return np.array([float(held)])
    truth = np.zeros(domain.size)
    truth[held] = 1
    return truth


def usual(name: str, epsilon: float, size: int = 16) -> Subject:
    """A mechanism at a usual size; one that needs options only a person can give, by the last of its examples."""
    cls = registered()[name]
    domains: list[Domain] = [Categories(size), Categories(2), _RANGE]
    for domain in domains:
        if cls.automatic and cls.fits(domain):
            return subject_of(cls.calibrate(epsilon, domain))
    return subject_of(cls.examples(epsilon)[-1])


def codebook_of(subjects: Sequence[Subject], period: str = _PERIOD, grace: int = _GRACE) -> Codebook:
    """A codebook that collects what the subjects collect, for a real client and real services."""
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
    domain = mechanism.domain
    values: Values = (
        Category(tuple(f"value {index}" for index in range(domain.size)))
        if isinstance(domain, Categories)
        else Number(domain)
    )
    return Subject(Metric("audit", Calendar.parse(_PERIOD), "m000", values, mechanism, "first", min_batch=2))
