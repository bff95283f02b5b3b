"""The values a metric may take, one class per metric type, and how each becomes a mechanism's input.

Taking part must say nothing about the value, so as little as possible is refused on the device: numbers out of
bounds are clamped and, where the codebook names an `other`, unknown categories map to it.
"""

from __future__ import annotations

import math
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from hubbub.codebook._numbers import decimal_text, exact
from hubbub.mechanisms import Bounds, Categories, Domain
from hubbub.problems import InvalidParameter, InvalidValue, did_you_mean

if TYPE_CHECKING:
    from hubbub.canonical import Json
    from hubbub.reduce import Value, ValueKind

__all__ = ["Boolean", "Category", "Declared", "Number", "Values", "label_faults"]

Declared: TypeAlias = bool | str | Fraction
"""A value written in a codebook: exact."""

LONGEST_LABEL = 200
_FORBIDDEN = {"Cc": "a control character", "Cs": "half a character", "Zl": "a line break", "Zp": "a line break"}


class Values(ABC):
    """What a metric may hold."""

    __slots__ = ()

    type: ClassVar[str]
    """As written in a codebook."""
    kind: ClassVar[ValueKind]
    default_reduce: ClassVar[str]

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """What the mechanism sees of it."""

    @abstractmethod
    def recorded(self, value: object) -> Value:
        """What the device keeps of a recorded value, for reducing; InvalidValue if it can keep nothing."""

    @abstractmethod
    def takes(self, value: object) -> bool:
        """Whether `recorded` keeps it. Quick: nothing is searched for what was meant, nor asked how it is written."""

    @abstractmethod
    def input_of(self, value: object) -> int | Fraction:
        """The mechanism's input for a recorded, reduced or declared value."""

    @abstractmethod
    def declared(self, value: object) -> Declared:
        """A value written in a codebook; unlike a recorded one it must be in the domain as it stands."""

    @abstractmethod
    def labels(self) -> Sequence[str]:
        """Names of the estimated values, by index."""

    @abstractmethod
    def document(self) -> dict[str, Json]:
        """The members of a compiled metric that describe the domain."""


@dataclass(frozen=True, slots=True)
class Boolean(Values):
    """True or false; the estimate is the frequency of each."""

    type: ClassVar[str] = "boolean"
    kind: ClassVar[ValueKind] = "boolean"
    default_reduce: ClassVar[str] = "first"

    @property
    def domain(self) -> Domain:
        return Categories(2)

    def recorded(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise InvalidValue(f"a boolean metric takes True or False, got {value!r}: pass bool(...)")
        return value

    def takes(self, value: object) -> bool:
        return isinstance(value, bool)

    def input_of(self, value: object) -> int:
        return int(self.recorded(value))

    def declared(self, value: object) -> bool:
        return self.recorded(value)

    def labels(self) -> Sequence[str]:
        return ("false", "true")

    def document(self) -> dict[str, Json]:
        return {}


@dataclass(frozen=True, slots=True)
class Category(Values):
    """One of a closed list of strings, compared in Unicode's composed form (NFC)."""

    type: ClassVar[str] = "category"
    kind: ClassVar[ValueKind] = "category"
    default_reduce: ClassVar[str] = "first"

    values: tuple[str, ...]
    other: str | None = None
    """Where values that are not in the list go."""
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for _, fault, _ in label_faults(self.values):
            raise InvalidParameter(fault)
        values = tuple(unicodedata.normalize("NFC", value) for value in self.values)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_index", {value: index for index, value in enumerate(values)})
        Categories(len(values))  # refuses lists too short or too long
        if self.other is not None:
            object.__setattr__(self, "other", self.declared(self.other))

    @property
    def domain(self) -> Domain:
        return Categories(len(self.values))

    def recorded(self, value: object) -> str:
        if not isinstance(value, str):
            raise InvalidValue(f"a category metric takes strings, got {value!r}: pass one of its values")
        known = unicodedata.normalize("NFC", value)
        if known in self._index:
            return known
        if self.other is None:
            hint = did_you_mean(known, self._index) or "record one of its values"
            raise InvalidValue(
                f"{value!r} is not a value of this metric: {hint} (or give the metric an `other` for the rest)"
            )
        return self.other

    def takes(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        return self.other is not None or unicodedata.normalize("NFC", value) in self._index

    def input_of(self, value: object) -> int:
        return self._index[self.recorded(value)]

    def declared(self, value: object) -> str:
        if not isinstance(value, str) or unicodedata.normalize("NFC", value) not in self._index:
            hint = did_you_mean(value, self._index) if isinstance(value, str) else ""
            raise InvalidValue(f"{value!r} is not in `values`" + (f": {hint}" if hint else ""))
        return unicodedata.normalize("NFC", value)

    def labels(self) -> Sequence[str]:
        return self.values

    def document(self) -> dict[str, Json]:
        return {"values": list(self.values), "other": self.other}


@dataclass(frozen=True, slots=True)
class Number(Values):
    """A number between two bounds, of which the mean is estimated. What lies outside is clamped."""

    type: ClassVar[str] = "mean"
    kind: ClassVar[ValueKind] = "number"
    default_reduce: ClassVar[str] = "mean"

    bounds: Bounds

    @property
    def domain(self) -> Domain:
        return self.bounds

    def recorded(self, value: object) -> float:
        """A finite float. Only infinity is clamped here: a sum may be in bounds though its parts are not."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidValue(f"a mean metric takes int or float, got {value!r}: pass float(...), or record nothing")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
        if math.isnan(number):
            raise InvalidValue("a mean metric takes numbers, got NaN: check the value, or record nothing")
        if math.isinf(number):
            return float(self.bounds.upper if number > 0 else self.bounds.lower)
        return number

    def takes(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return isinstance(value, int) or not math.isnan(value)  # an integer may be too large to ask

    def input_of(self, value: object) -> Fraction:
        number = value if isinstance(value, Fraction) else Fraction(self.recorded(value))
        return min(max(number, self.bounds.lower), self.bounds.upper)

    def declared(self, value: object) -> Fraction:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | Fraction):
            raise InvalidValue(f"expected a number, got {value!r}")
        number = value if isinstance(value, Fraction) else exact(value)
        if not self.bounds.lower <= number <= self.bounds.upper:
            raise InvalidValue(f"{value} is outside `bounds`")
        return number

    def labels(self) -> Sequence[str]:
        return ("mean",)

    def document(self) -> dict[str, Json]:
        return {"bounds": [decimal_text(self.bounds.lower), decimal_text(self.bounds.upper)]}


def label_faults(values: Sequence[object]) -> list[tuple[int, str, str]]:
    """(position, what is wrong, how to fix it) of every category value that cannot be used."""
    faults: list[tuple[int, str, str]] = []
    seen: set[str] = set()
    for position, written in enumerate(values):
        if not isinstance(written, str):
            faults.append((position, f"{written!r} is not a string", f'write it in quotes: "{written}"'))
            continue
        value = unicodedata.normalize("NFC", written)
        if not value:
            faults.append((position, "the value is empty", 'give it a name, such as "none"'))
        elif len(value) > LONGEST_LABEL:
            faults.append((position, f"the value has {len(value)} characters", f"use at most {LONGEST_LABEL}"))
        # what is printable holds none of those, and that is quickly seen: a device reads 65,536 values at every start
        elif not value.isprintable() and (
            bad := [_FORBIDDEN[c] for c in map(unicodedata.category, value) if c in _FORBIDDEN]
        ):
            faults.append((position, f"{value!r} contains {bad[0]}", "use printable characters only"))
        elif value in seen:
            faults.append((position, f"{value!r} is given twice", "remove one (equal after Unicode NFC is equal)"))
        seen.add(value)
    return faults
