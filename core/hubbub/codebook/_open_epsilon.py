"""Open epsilons: metrics whose local epsilon a codebook leaves to be worked out, and what it is worked out from.

    epsilon = "auto"     the least error that release target, crowd, budget and `local_epsilon_cap` allow
    error = 0.01         the smallest epsilon that reaches this half-width

Only `hubbub codebook compile` and what plans with a codebook work them out (`hubbub.accounting.auto_epsilon`). A device
or a service meets numbers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from hubbub.codebook._toml_table import whole_number
from hubbub.codebook._toml_values import above_zero, at_most_one, below_one
from hubbub.errors import InvalidParameter
from hubbub.mechanisms._exact_arithmetic import exact_epsilon
from hubbub.metric_types._exact_numbers import decimal_text, exact

if TYPE_CHECKING:
    from hubbub.canonical import Json
    from hubbub.codebook._metric import Collection, Metric
    from hubbub.codebook._toml_table import Findings, Table
    from hubbub.mechanisms import Mechanism
    from hubbub.metric_types import MetricType

__all__ = [
    "AUTO",
    "ChosenFor",
    "Expected",
    "OpenMetric",
    "Solve",
    "Solved",
    "Wish",
    "chosen_for",
    "is_open",
    "read_expected",
    "read_wish",
    "the_epsilon",
]

AUTO = "auto"
MOST_DEVICES = 10**10
DEFAULT_MARGIN = Fraction(4, 5)
DEFAULT_CONFIDENCE = Fraction(19, 20)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the collection says for all its metrics. It is used while compiling, and is not part of what is compiled."""

    devices: int | None = None
    margin: Fraction = DEFAULT_MARGIN
    cap: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a metric says of its epsilon, with the collection's word where it says nothing itself."""

    devices: int | None
    """Devices expected in a period."""
    margin: Fraction
    """The part of them that must be enough for a release."""
    cap: Fraction | None
    """The largest local epsilon allowed."""
    importance: Fraction
    """Where the budget of a device is short: twice as important is half the error."""
    error: Fraction | None
    """Half-width of an interval that is wanted, in the metric's own unit."""
    confidence: Fraction

    def reports(self, share: Fraction) -> int:
        """Reports of a period that must be enough for a release."""
        return int((self.devices or 0) * share * self.margin)


@dataclass(frozen=True, slots=True)
class OpenMetric:
    """A metric that lacks nothing but its mechanism."""

    name: str
    key: str
    """Path of its table in the file."""
    values: MetricType
    share: Fraction
    enabled: bool
    report_bytes: int | None
    only: str | None
    """The mechanism that the file names."""
    wish: Wish
    finish: Callable[[Mechanism[Any]], Metric]

    @property
    def reports(self) -> int:
        return self.wish.reports(self.share)


Solved: TypeAlias = "Mapping[str, Mechanism[Any]]"
Solve: TypeAlias = "Callable[[Collection, Sequence[Metric], Sequence[OpenMetric], Findings], Solved]"
"""(collection, metrics with an epsilon, the others, where to note what cannot be met) -> their mechanisms, by name."""


@dataclass(frozen=True, slots=True)
class ChosenFor:
    """What an epsilon was worked out for. It stands in the metric's `notes`, for people: no device reads it."""

    devices: int
    reports: int
    cap: Fraction | None
    error: Fraction | None
    confidence: Fraction

    @classmethod
    def of(cls, one: OpenMetric) -> ChosenFor:
        wish = one.wish
        return cls(wish.devices or 0, one.reports, wish.cap, wish.error, wish.confidence)

    def document(self) -> dict[str, Json]:
        found: dict[str, Json] = {"devices": self.devices, "reports": self.reports}
        if self.cap is not None:
            found["local_epsilon_cap"] = decimal_text(self.cap)
        if self.error is not None:
            found |= {"error": decimal_text(self.error), "confidence": decimal_text(self.confidence)}
        return found


def chosen_for(notes: object) -> ChosenFor | None:
    """What the notes of a compiled metric say, or None if they say nothing that can be used."""
    found = notes.get("chosen_for") if isinstance(notes, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    try:
        cap, error = (found.get(name) for name in ("local_epsilon_cap", "error"))
        return ChosenFor(
            devices=whole_number(1, MOST_DEVICES)(found["devices"]),
            reports=whole_number(1, MOST_DEVICES)(found["reports"]),
            cap=None if cap is None else Fraction(cap),
            error=None if error is None else Fraction(error),
            confidence=Fraction(found.get("confidence", DEFAULT_CONFIDENCE)),
        )
    except (InvalidParameter, LookupError, TypeError, ValueError, ArithmeticError):
        return None


def read_expected(table: Table) -> Expected:
    """The keys of the collection."""
    return Expected(
        devices=table.take("devices", whole_number(1, MOST_DEVICES), None),
        margin=table.take("devices_margin", at_most_one, DEFAULT_MARGIN),
        cap=table.take("local_epsilon_cap", the_epsilon, None),
    )


def is_open(content: Mapping[str, object]) -> bool:
    """Whether the metric leaves its epsilon to be worked out."""
    return content.get("epsilon") == AUTO or ("error" in content and "epsilon" not in content)


def read_wish(table: Table, expected: Expected) -> Wish:
    """The keys of a metric, and whether they go together."""
    wish = Wish(
        devices=table.take("devices", whole_number(1, MOST_DEVICES), expected.devices),
        margin=expected.margin,
        cap=table.take("local_epsilon_cap", the_epsilon, expected.cap),
        importance=table.take("importance", above_zero, Fraction(1)),
        error=table.take("error", above_zero, None),
        confidence=table.take("confidence", below_one, DEFAULT_CONFIDENCE),
    )
    if is_open(table.content):
        if isinstance(written := table.content.get("mechanism"), Mapping) and set(written) != {"name"}:
            table.fault("mechanism", "options are chosen together with the epsilon", "name the mechanism only")
    elif wish.error is not None:
        table.fault("error", "epsilon and error cannot both decide", 'remove one of them, or write epsilon = "auto"')
    elif "confidence" in table.content:
        table.fault("confidence", "without error there is nothing to be confident of", "remove it, or add error = 0.01")
    return wish


def refuse_above_cap(table: Table, epsilon: Fraction, cap: Fraction | None) -> None:
    """A cap holds for an epsilon that was written by hand, too."""
    if cap is not None and epsilon > cap:
        said = f"{decimal_text(epsilon)} is above the local_epsilon_cap of {decimal_text(cap)}"
        table.fault("epsilon", said, f"lower it to {decimal_text(cap)}, or raise the cap")


def the_epsilon(value: object) -> Fraction:
    """A local epsilon as a number."""
    return exact_epsilon(exact(value))
