"""The `boolean` type: true or false. The share of each is estimated; for people, they are yes and no."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from hubbub.errors import InvalidParameter, InvalidValue
from hubbub.mechanisms import Categories
from hubbub.metric_types._registry import register
from hubbub.metric_types.base import MetricType
from hubbub.result_shapes import Shares

if TYPE_CHECKING:
    from hubbub.canonical import Json
    from hubbub.codebook._toml_table import Table

__all__ = ["Boolean"]

_SHAPE = Shares(("no", "yes"), lead=1, lead_name="yes")
_CELLS: Mapping[str, bool] = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@register("boolean")
@dataclass(frozen=True, slots=True)
class Boolean(MetricType):
    """True or false."""

    meaning: ClassVar[str] = "true or false; the share of each"
    reducers: ClassVar[tuple[str, ...]] = ("first", "last", "max", "min", "most_common", "reservoir")

    @classmethod
    def read(cls, table: Table) -> Self:  # noqa: ARG003  it has no key of its own
        return cls()

    @classmethod
    def of_size(cls, size: int | None) -> Self:
        if size not in (None, 2):
            raise InvalidParameter("a boolean has no list of values: leave the size out")
        return cls()

    def document(self) -> dict[str, Json]:
        return {}

    @property
    def domain(self) -> Categories:
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
        if not isinstance(value, bool):
            raise InvalidValue(f"expected true or false, got {value!r}", "write true or false")
        return value

    def value_for(self, held: int | Fraction) -> bool:
        return bool(held)

    def example(self) -> bool:
        return True

    def made_up(self, part: float, age: int) -> bool:
        """A third say yes. The longer ago, the more, up to a half."""
        return part * (3 + age) >= 2 + age / 2

    def from_text(self, cell: str) -> bool:
        found = _CELLS.get(cell.strip().lower())
        if found is None:
            raise ValueError(cell)
        return found

    def takes_in_words(self) -> str:
        return "True or False"

    def holds_in_words(self) -> str:
        return "true or false"

    def to_the_person(self) -> str:
        return "Yes or no."

    @property
    def cell_in_words(self) -> str:
        return "true or false"

    def in_words(self, value: object) -> str:
        return "yes" if value else "no"

    def input_in_words(self, held: int | Fraction) -> str:
        return repr(_SHAPE.labels[int(held)])

    @property
    def shape(self) -> Shares:
        return _SHAPE

    def value_of(self, index: int) -> bool:
        return bool(index)
