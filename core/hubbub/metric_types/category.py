"""The `category` type: one of a closed list of strings. The share of each is estimated."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from hubbub.errors import InvalidParameter, InvalidValue, did_you_mean
from hubbub.mechanisms import Bins, Categories
from hubbub.metric_types._registry import register
from hubbub.metric_types.base import Key, MetricType, Unwise
from hubbub.number_format import count
from hubbub.result_shapes import Shares

if TYPE_CHECKING:
    from hubbub.canonical import Json
    from hubbub.codebook._toml_table import Table
    from hubbub.mechanisms import Domain

__all__ = ["Category", "label_faults"]

LONGEST_LABEL = 200
_FORBIDDEN = {"Cc": "a control character", "Cs": "half a character", "Zl": "a line break", "Zp": "a line break"}
_SHOWN = 8
"""Most values that a sentence lists."""


@register("category")
@dataclass(frozen=True, slots=True)
class Category(MetricType):
    """One of a closed list of strings, compared in Unicode's composed form (NFC)."""

    meaning: ClassVar[str] = "one of a closed list of strings; the share of each"
    keys: ClassVar[tuple[Key, ...]] = (
        Key(
            "values",
            'a list of 2 to 65,536 strings, such as ["light", "dark", "other"]',
            "required for category",
            "The closed list. Take it from domain knowledge, never from the data.",
        ),
        Key("other", "one of `values`", "none", "Category only: counts every value that is not in the list."),
    )
    reducers: ClassVar[tuple[str, ...]] = ("first", "last", "most_common", "reservoir")

    values: tuple[str, ...]
    other: str | None = None
    """The value that stands for every value not in the list."""
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for _, fault, _ in label_faults(self.values):
            raise InvalidParameter(fault)
        values = tuple(unicodedata.normalize("NFC", value) for value in self.values)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "_index", {value: index for index, value in enumerate(values)})
        Categories(len(values))  # refuses a list that is too short or too long
        if self.other is not None:
            object.__setattr__(self, "other", self.declared(self.other))

    @classmethod
    def read(cls, table: Table) -> Self | None:
        written = table.need("values", _list)
        faults = label_faults(written or [])
        for position, problem, fix in faults:
            table.fault_at("values", position, problem, fix)
        if written is None or faults:
            return None
        closed = table.take("values", lambda values: cls(tuple(map(str, _list(values)))), None)
        return None if closed is None else cls(closed.values, table.take("other", closed.declared, None))

    @classmethod
    def of_size(cls, size: int | None) -> Self:
        if size is None:
            raise InvalidParameter("a category needs --size, the number of its values, such as --size 16")
        Categories(size)
        return cls(tuple(f"value {index}" for index in range(size)))

    @classmethod
    def around(cls, domain: Domain) -> Self | None:
        is_list = isinstance(domain, Categories) and not isinstance(domain, Bins)
        return cls.of_size(domain.estimates) if is_list else None

    def document(self) -> dict[str, Json]:
        return {"values": list(self.values), "other": self.other}

    def lint(self) -> Iterator[Unwise]:
        if self.other is None:
            known = "other" in self.values
            yield Unwise(
                "other",
                "a device with a value that is not in the list stays silent, which others can see",
                'add other = "other"' if known else 'add "other" to values, and add other = "other"',
            )

    @property
    def domain(self) -> Categories:
        return Categories(len(self.values))

    @property
    def chosen(self) -> str:
        return "list of values"

    @property
    def remedy(self) -> str:
        return "fewer values"

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
            raise InvalidValue(f"{value!r} is not in `values`", hint or "write one of `values`, in quotes")
        return unicodedata.normalize("NFC", value)

    def value_for(self, held: int | Fraction) -> str:
        return self.values[int(held)]

    def example(self) -> str:
        return self.values[0]

    def made_up(self, part: float, age: int) -> str:
        """Each value is held more often than the next, roughly in proportion to 1 / place."""
        front, size = 1 + age / 2, len(self.values)
        place = int(front * ((size + front) / front) ** part - front)
        return self.values[min(place, size - 1)]

    def from_text(self, cell: str) -> str:
        return cell

    def takes_in_words(self) -> str:
        return "its declared values as strings" + ("" if self.other is None else " (any string)")

    def holds_in_words(self) -> str:
        rest = f" and {len(self.values) - _SHOWN:,} more" if len(self.values) > _SHOWN else ""
        return f"{len(self.values):,} values: {', '.join(self.values[:_SHOWN])}{rest}"

    def to_the_person(self) -> str:
        return f"One of {count(len(self.values))} values:"

    def listed(self) -> Sequence[str]:
        return self.values

    def in_words(self, value: object) -> str:
        return str(value)

    @property
    def shape(self) -> Shares:
        return Shares(self.values)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise InvalidParameter(f"expected a list, got {value!r}")
    return value


def label_faults(values: Sequence[object]) -> list[tuple[int, str, str]]:
    """Position, problem and fix for every category value that cannot be used."""
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
        # printable text holds nothing forbidden, and this check is fast: a device reads 65,536 values at every start
        elif not value.isprintable() and (
            bad := [_FORBIDDEN[c] for c in map(unicodedata.category, value) if c in _FORBIDDEN]
        ):
            faults.append((position, f"{value!r} contains {bad[0]}", "use printable characters only"))
        elif value in seen:
            faults.append((position, f"{value!r} is given twice", "remove one (values are compared after Unicode NFC)"))
        seen.add(value)
    return faults
