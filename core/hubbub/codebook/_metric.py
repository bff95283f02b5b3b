"""A metric and the collection it belongs to: resolved, frozen, identified by a hash."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.canonical import Json, digest
from hubbub.metric_types._exact_numbers import decimal_text
from hubbub.randomness import WORD
from hubbub.reduce import REDUCERS, Reducer

if TYPE_CHECKING:
    from hubbub.bins_summary import Asked, Summary
    from hubbub.codebook._open_epsilon import ChosenFor, Wish
    from hubbub.codebook._total import Total
    from hubbub.mechanisms import Estimate, Interval, Mechanism, Tally
    from hubbub.mechanisms.base import Population
    from hubbub.metric_types import Declared, MetricType
    from hubbub.period import Calendar
    from hubbub.reduce import Value

__all__ = ["Collection", "Metric", "total_epsilon"]

ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class Collection:
    """What all metrics of a deployment share."""

    name: str
    calendar: Calendar
    grace: int
    """Seconds after a period's end during which its reports are still taken."""
    forward_horizon: int
    """Seconds after the grace during which its batches are still taken."""
    device_epsilon: Fraction
    """The most that one device may spend in one period, over all enabled metrics."""
    release_epsilon: Fraction
    release_delta: Fraction
    honest_fraction: Fraction
    """Share of the distinct valid reports that is assumed honest. Nothing enforces this."""
    delay: int | None = None
    """The most seconds that a due report waits, at random, before it is sent. None: half the grace."""
    total: Total | None = None
    """The cap over time. It stands in `notes`: devices ignore it, the aggregator enforces it."""

    @property
    def longest_delay(self) -> int:
        """The most milliseconds that a due report waits before it is sent."""
        return 500 * self.grace if self.delay is None else 1_000 * self.delay

    def document(self) -> dict[str, Json]:
        """The compiled form. Members that a later version added are left out at their default, so that ids stay."""
        delay: dict[str, Json] = {} if self.delay is None else {"delay": self.delay}
        return {
            "name": self.name,
            "period": self.calendar.seconds,
            "grace": self.grace,
            **delay,
            "forward_horizon": self.forward_horizon,
            "device_epsilon": decimal_text(self.device_epsilon),
            "release": {"epsilon": decimal_text(self.release_epsilon), "delta": decimal_text(self.release_delta)},
            "honest_fraction": decimal_text(self.honest_fraction),
        }


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric whose mechanism is resolved, so that the meaning of its reports is fixed."""

    collection: str
    calendar: Calendar
    name: str
    values: MetricType
    """What the metric may hold, and everything else that depends on its type."""
    mechanism: Mechanism[Any]
    reduce: str
    share: Fraction = Fraction(1)
    missing: Declared | None = None
    """What a device reports when nothing was recorded. None: it sends nothing, which others can see."""
    min_batch: int | None = None
    enabled: bool = True
    description: str = ""
    owner: str = ""
    expires: date | None = None
    public: bool = False
    """Whether the aggregator shows what is released to everyone. Devices ignore it."""
    chosen_for: ChosenFor | None = field(default=None, compare=False)
    """What its epsilon was worked out for. None: a person wrote it."""
    wish: Wish | None = field(default=None, compare=False, repr=False)
    """What metrics.toml says of its epsilon, beside the number. None in a compiled codebook."""
    id: bytes = field(init=False)
    """Sixteen bytes of a hash of everything that gives a report its meaning."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", digest("hubbub-01 metric", self.identity())[:ID_BYTES])

    @property
    def type(self) -> str:
        return self.values.type

    @property
    def epsilon(self) -> Fraction:
        return self.mechanism.epsilon

    @property
    def reducer(self) -> Reducer:
        return REDUCERS[self.reduce]

    @property
    def share_threshold(self) -> int:
        """A device reports when a private 64-bit draw is below this. `share` times 2^64, rounded down, at least 1."""
        return max(1, int(self.share * WORD))

    def recorded(self, value: object) -> Value:
        """What the device keeps of one recorded value, to be reduced. InvalidValue says what to do instead."""
        return self.values.recorded(value)

    def input_of(self, value: object) -> int | Fraction:
        """The mechanism's input for a recorded or reduced value, or for `missing`."""
        return self.values.input_of(value)

    def estimate(self, tally: Tally) -> Estimate:
        """The values of the result, unbiased, with their variances. `values.shape` says what each one means."""
        return self.values.estimate(self.mechanism, tally)

    def interval(
        self,
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,
    ) -> Interval:
        """Limits for each value of the result."""
        return self.values.interval(self.mechanism, tally, confidence, population=population, simultaneous=simultaneous)

    def step(self) -> float:
        """Like `Mechanism.step`, for the values of the result."""
        return self.values.influence(self.mechanism) if self.mechanism.step() else 0.0

    def summary(self, tally: Tally, asked: Asked) -> Summary | None:
        """Quantiles, ranges and mean of a number in bins. None for every other type."""
        return self.values.summary(self.mechanism, tally, asked)

    def expected_error(self, reports: int) -> float:
        """Expected standard error of a value of the result from `reports` reports. Needs no data."""
        return self.values.expected_error(self.mechanism, reports)

    def label_of(self, index: int) -> str:
        """Name of the estimated value of this index."""
        return self.values.labels()[index]

    def identity(self) -> dict[str, Json]:
        """Everything that gives a report its meaning, and nothing else."""
        parameters: Json = json.loads(json.dumps(self.mechanism.parameters()))  # plain lists, as a reader sees them
        return {
            "collection": self.collection,
            "period": self.calendar.seconds,
            "name": self.name,
            "type": self.type,
            **self.values.document(),
            "epsilon": decimal_text(self.epsilon),
            "mechanism": {"name": self.mechanism.name, "parameters": parameters},
            "report_bytes": self.mechanism.report_bytes,
            "reduce": self.reduce,
            "share": decimal_text(self.share),
            "share_threshold": str(self.share_threshold),
            "missing": _plain(self.missing),
            "memoize": False,
        }

    def remarks(self) -> dict[str, Json]:
        """What may be edited without changing the id."""
        return {
            **self.values.remarks(),
            "min_batch": self.min_batch,
            "enabled": self.enabled,
            "description": self.description,
            "owner": self.owner,
            "expires": self.expires.isoformat() if self.expires else None,
        }

    def document(self) -> dict[str, Json]:
        """The metric as it stands in a compiled codebook, whose `collection` holds the rest of the identity."""
        identity = self.identity()
        del identity["collection"], identity["period"]
        written = self.notes()
        notes: dict[str, Json] = {"notes": written} if written else {}
        return {"id": self.id.hex(), **identity, **self.remarks(), **notes}

    def notes(self) -> dict[str, Json]:
        """What is written beside the metric for people and for the aggregator's pages. Devices ignore it."""
        found: dict[str, Json] = {} if self.chosen_for is None else {"chosen_for": self.chosen_for.document()}
        return found | ({"public": True} if self.public else {})


def _plain(declared: Declared | None) -> Json:
    """As JSON, with numbers as their shortest decimal text."""
    if isinstance(declared, list):
        return [_plain(one) for one in declared]
    return decimal_text(declared) if isinstance(declared, Fraction) else declared


def total_epsilon(metrics: Iterable[Metric]) -> Fraction:
    """What a device spends in a period on the enabled metrics, by plain composition."""
    return sum((metric.epsilon for metric in metrics if metric.enabled), Fraction(0))
