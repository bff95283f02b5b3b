"""The base class of every metric type: its codebook keys, what may be recorded, and what its results look like.

An instance describes the values of one metric. Taking part must reveal nothing about the value, so the device refuses
as little as possible: numbers out of bounds are clamped and, where the codebook names an `other`, unknown categories
map to it.

Only the estimating methods load numpy. The device half is plain Python.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from hubbub.bins_summary import Asked, Summary
    from hubbub.canonical import Json
    from hubbub.codebook._toml_table import Table
    from hubbub.mechanisms import Domain, Estimate, Interval, Mechanism, Tally
    from hubbub.mechanisms.base import Population
    from hubbub.reduce import Value
    from hubbub.result_shapes import Shape

__all__ = ["Declared", "Key", "MetricType", "Unwise"]

Declared: TypeAlias = "bool | str | Fraction | list[Declared]"
"""A value written in a codebook, exactly."""


class Key(NamedTuple):
    """One key of a codebook. `form` completes "write ..." in an error."""

    name: str
    form: str
    default: str
    meaning: str


class Unwise(NamedTuple):
    """A warning about something allowed but unwise: the key, the problem, the fix."""

    key: str
    problem: str
    fix: str


class MetricType(ABC):
    """What a metric may hold, and everything that depends on its type. Subclasses are frozen dataclasses."""

    __slots__ = ()

    type: ClassVar[str]
    """As written in a codebook; set by `register`."""
    meaning: ClassVar[str]
    """What is measured and estimated, in half a line."""
    keys: ClassVar[tuple[Key, ...]] = ()
    """Codebook keys of this type. Another type may have the same key only with the same text."""
    reducers: ClassVar[tuple[str, ...]]
    """The reducers of `hubbub.reduce` that make sense for this type. The first is the default."""

    # -- in a codebook --------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def read(cls, table: Table) -> Self | None:
        """The type as its keys describe it. Faults become findings of the table, and the result is None."""

    @classmethod
    @abstractmethod
    def of_size(cls, size: int | None) -> Self:
        """A typical instance for planning. `size` is the length of its list of values, for a type that has one.

        InvalidParameter says whether `size` is missing or superfluous.
        """

    @classmethod
    def around(cls, domain: Domain) -> Self | None:  # noqa: ARG003  overridden by types that a domain alone determines
        """An instance with this domain and made-up values, or None if the domain does not determine one."""
        return None

    @classmethod
    def restored(cls, table: dict[str, Any]) -> dict[str, Any]:
        """The members of a compiled metric as they would be in TOML. In the compiled form numbers are text."""
        return table

    @abstractmethod
    def document(self) -> dict[str, Json]:
        """The members of a compiled metric that describe the domain. They are part of its id."""

    def remarks(self) -> dict[str, Json]:
        """Members that may be edited without changing the id. Left out while they have their default."""
        return {}

    def lint(self) -> Iterator[Unwise]:
        """Warnings about what is allowed but unwise."""
        yield from ()

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What the mechanism sees of the metric."""

    @property
    def chosen(self) -> str:
        """What a person must choose from knowledge of the domain, such as "list of values". Empty if nothing."""
        return ""

    @property
    def remedy(self) -> str:
        """What makes the error smaller, such as "fewer values". Empty if there is nothing specific to this type."""
        return ""

    # -- on the device --------------------------------------------------------------------------

    @abstractmethod
    def recorded(self, value: object) -> Value:
        """What the device keeps of a recorded value, to be reduced. InvalidValue if the value cannot be kept.

        The device stores it, so it is JSON and no longer than the codebook. What was kept once is kept unchanged.
        """

    @abstractmethod
    def takes(self, value: object) -> bool:
        """Whether `recorded` would keep the value. Fast: it makes no suggestion and formats no value."""

    def clamps(self, value: object) -> bool:  # noqa: ARG002  most types take a value as it is, or not at all
        """Whether a recorded value is moved to the nearest one in the domain."""
        return False

    @abstractmethod
    def input_of(self, value: object) -> int | Fraction:
        """The mechanism's input for a recorded, reduced or declared value."""

    @abstractmethod
    def declared(self, value: object) -> Declared:
        """A value written in a codebook. Unlike a recorded one, it must be in the domain as written."""

    @abstractmethod
    def value_for(self, held: int | Fraction) -> object:
        """A value that an app can record so that the mechanism's input is `held`."""

    # -- examples -------------------------------------------------------------------------------

    @abstractmethod
    def example(self) -> object:
        """A value to record, for a snippet."""

    @abstractmethod
    def made_up(self, part: float, age: int) -> object:
        """For a demo: what a device might have held `age` periods ago. `part` in [0, 1) is its place in the crowd."""

    def unusual(self) -> Sequence[object]:
        """Values that an app may record although they are not in the domain as they are."""
        return ()

    @abstractmethod
    def from_text(self, cell: str) -> object:
        """The value in a cell of a CSV file, or ValueError if the cell holds none."""

    # -- in words -------------------------------------------------------------------------------

    @abstractmethod
    def takes_in_words(self) -> str:
        """What an app may record. Completes "takes ..."."""

    @abstractmethod
    def holds_in_words(self) -> str:
        """What the metric may hold, for the reviewer of a codebook: "true or false"."""

    @abstractmethod
    def to_the_person(self) -> str:
        """The same as a sentence, for the person whose device it is. `listed` is shown after it."""

    @property
    def cell_in_words(self) -> str:
        """What a cell of a CSV file must be. Completes "is not ..."."""
        return "a value of this metric"

    def listed(self) -> Sequence[str]:
        """The values to list one by one for a person."""
        return ()

    @abstractmethod
    def in_words(self, value: object) -> str:
        """A recorded, reduced or declared value, for a person."""

    def input_in_words(self, held: int | Fraction) -> str:
        """A mechanism's input, in quotes if it is a word."""
        return repr(self.in_words(self.value_for(held)))

    # -- results --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """How results are laid out."""

    def labels(self) -> Sequence[str]:
        """Names of the estimated values, by index."""
        return self.shape.labels

    def value_of(self, index: int) -> bool | str | None:
        """The value that the estimate of this index is about. None if it is about all values, as a mean is."""
        return self.labels()[index]

    @classmethod
    def publishes_as_estimated(cls) -> bool:
        """Whether the values of the result are the mechanism's estimates, unchanged."""
        return cls.estimate is MetricType.estimate

    def estimate(self, mechanism: Mechanism[Any], tally: Tally) -> Estimate:
        """The values of the result, unbiased, with their variances."""
        return mechanism.estimate(tally)

    def interval(
        self,
        mechanism: Mechanism[Any],
        tally: Tally,
        confidence: float = 0.95,
        *,
        population: Population = "reports",
        simultaneous: bool = False,
    ) -> Interval:
        """Limits for each value of the result."""
        return mechanism.interval(tally, confidence, population=population, simultaneous=simultaneous)

    def influence(self, mechanism: Mechanism[Any]) -> float:
        """Largest change of any value of the result when one report of n is replaced, times n."""
        return mechanism.influence()

    def expected_error(self, mechanism: Mechanism[Any], reports: int) -> float:
        """Standard error of a value of the result from this many reports: typical for shares, worst case for a mean.

        It is for planning and uses no data. A type with its own `estimate` has its own error, too.
        """
        return math.sqrt(mechanism.typical_variance() / reports) * self.domain.unit_of_variance if reports else math.inf

    @property
    def span(self) -> float:
        """How far apart the values of a result can lie. Errors are compared with it."""
        low, high = self.shape.limits
        return high - low

    def summary(self, mechanism: Mechanism[Any], tally: Tally, asked: Asked) -> Summary | None:  # noqa: ARG002
        """Quantiles, ranges and mean of a number in bins. None for every other type."""
        return None

    def truth(self, inputs: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
        """The true values of the result when `counts[i]` devices hold `inputs[i]`."""
        return self.domain.truth(inputs, counts)
