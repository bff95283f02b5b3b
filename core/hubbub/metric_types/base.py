"""The base class of every metric type: its codebook keys, what may be recorded, and what its results look like.

An instance holds what one metric may take. Taking part must say nothing about the value, so as little as possible is
refused on the device: numbers out of bounds are clamped and, where the codebook names an `other`, unknown categories
map to it.

Only what estimates loads numpy, inside its methods: the device half is plain Python.
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

    from hubbub.canonical import Json
    from hubbub.codebook._table import Table
    from hubbub.mechanisms import Domain, Estimate, Interval, Mechanism, Tally
    from hubbub.mechanisms.base import Population
    from hubbub.reduce import Value
    from hubbub.result_shapes import Shape

__all__ = ["Declared", "Key", "MetricType", "Unwise"]

Declared: TypeAlias = "bool | str | Fraction | list[Declared]"
"""A value written in a codebook: exact."""


class Key(NamedTuple):
    """One key of a codebook. `form` completes "write ..." in an error."""

    name: str
    form: str
    default: str
    meaning: str


class Unwise(NamedTuple):
    """What is allowed but unwise: the key, what is wrong, how to mend it."""

    key: str
    problem: str
    fix: str


class MetricType(ABC):
    """What a metric may hold, and all that is particular to metrics of its type. Subclasses are frozen dataclasses."""

    __slots__ = ()

    type: ClassVar[str]
    """As written in a codebook; set by `register`."""
    meaning: ClassVar[str]
    """What is measured and estimated, in half a line."""
    keys: ClassVar[tuple[Key, ...]] = ()
    """Keys of a codebook that only this type has, or that it shares with another one under the same words."""
    reducers: ClassVar[tuple[str, ...]]
    """Those of `hubbub.reduce` whose result means something; the first is the default."""

    # -- in a codebook --------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def read(cls, table: Table) -> Self | None:
        """From its keys; what is wrong becomes a finding of the table, and None."""

    @classmethod
    @abstractmethod
    def of_size(cls, size: int | None) -> Self:
        """A typical one for planning, with `size` values where it has a list; InvalidParameter says what is missing."""

    @classmethod
    def around(cls, domain: Domain) -> Self | None:  # noqa: ARG003  for types that are nothing but their domain
        """A metric of this type with made-up values around a domain; None where the domain does not tell."""
        return None

    @classmethod
    def restored(cls, table: dict[str, Any]) -> dict[str, Any]:
        """The members of a compiled metric as TOML writes them: numbers are text there."""
        return table

    @abstractmethod
    def document(self) -> dict[str, Json]:
        """The members of a compiled metric that describe the domain: part of its id."""

    def remarks(self) -> dict[str, Json]:
        """Members that may be edited under the same id; left out while they have their default."""
        return {}

    def lint(self) -> Iterator[Unwise]:
        """What is allowed but unwise."""
        yield from ()

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What the mechanism sees of it."""

    @property
    def chosen(self) -> str:
        """What a person has to choose from knowledge of the domain, such as "list of values"; empty: nothing."""
        return ""

    @property
    def remedy(self) -> str:
        """What makes the error smaller, such as "fewer values"; empty: nothing of this type's own."""
        return ""

    # -- on the device --------------------------------------------------------------------------

    @abstractmethod
    def recorded(self, value: object) -> Value:
        """What the device keeps of a recorded value, for reducing; of what it kept, the same. InvalidValue if nothing.

        It is JSON, and no longer than the codebook: a device keeps it.
        """

    @abstractmethod
    def takes(self, value: object) -> bool:
        """Whether `recorded` keeps it. Quick: nothing is searched for what was meant, nor asked how it is written."""

    def clamps(self, value: object) -> bool:  # noqa: ARG002  most take a value as it is, or not at all
        """Whether a recorded value is moved to the nearest one that the domain holds."""
        return False

    @abstractmethod
    def input_of(self, value: object) -> int | Fraction:
        """The mechanism's input for a recorded, reduced or declared value."""

    @abstractmethod
    def declared(self, value: object) -> Declared:
        """A value written in a codebook; unlike a recorded one it must be in the domain as it stands."""

    @abstractmethod
    def value_for(self, held: int | Fraction) -> object:
        """What an app records so that the mechanism's input is this."""

    # -- examples -------------------------------------------------------------------------------

    @abstractmethod
    def example(self) -> object:
        """A value to record, for a snippet."""

    @abstractmethod
    def made_up(self, part: float, age: int) -> object:
        """What the device at this part of the crowd, from 0 up to 1, might hold `age` periods ago: for a demo."""

    def unusual(self) -> Sequence[object]:
        """Values that an app may record and that are not in the domain as they stand."""
        return ()

    @abstractmethod
    def from_text(self, cell: str) -> object:
        """The value in a cell of a CSV file; ValueError if it is none."""

    # -- in words -------------------------------------------------------------------------------

    @abstractmethod
    def takes_in_words(self) -> str:
        """What an app may record, to complete "takes ..."."""

    @abstractmethod
    def holds_in_words(self) -> str:
        """What the metric may hold, for those who review a codebook: "true or false"."""

    @abstractmethod
    def to_the_person(self) -> str:
        """The same as a sentence, for the person whose device it is; `listed` is shown behind it."""

    @property
    def cell_in_words(self) -> str:
        """What a cell of a CSV file must be, to complete "is not ..."."""
        return "a value of this metric"

    def listed(self) -> Sequence[str]:
        """The values that a person would want to read, one by one."""
        return ()

    @abstractmethod
    def in_words(self, value: object) -> str:
        """A recorded, reduced or declared value, for a person."""

    def input_in_words(self, held: int | Fraction) -> str:
        """A mechanism's input, in quotes where it is a word."""
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
        """The value that an estimate of this index is about; None where it is about all, as a mean is."""
        return self.labels()[index]

    @classmethod
    def publishes_as_estimated(cls) -> bool:
        """Whether the values of the result are the mechanism's estimates as they stand."""
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
        """Standard error of a value of the result from so many reports: typical for shares, the worst case for a mean.

        For planning, so no data is looked at. A type with an `estimate` of its own has its own error, too.
        """
        return math.sqrt(mechanism.typical_variance() / reports) * self.domain.unit_of_variance if reports else math.inf

    @property
    def span(self) -> float:
        """What an error is compared with: how far apart the values of a result can lie."""
        low, high = self.shape.limits
        return high - low

    def truth(self, inputs: ArrayLike, counts: ArrayLike) -> NDArray[np.float64]:
        """What the values of the result are to come out as where `counts[i]` devices hold `inputs[i]`."""
        return self.domain.truth(inputs, counts)
