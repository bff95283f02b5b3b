"""A metric type that the product does not know: two attributes together, shown as a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, InvalidValue
from hubbub.mechanisms import Categories
from hubbub.metric_types import Key, MetricType
from hubbub.result_shapes import Axis, Grid

if TYPE_CHECKING:
    from hubbub.canonical import Json
    from hubbub.codebook._toml_table import Table
    from hubbub.metric_types import Declared


@dataclass(frozen=True, slots=True)
class PairOfAttributes(MetricType):
    """Two attributes together, recorded as a mapping; the share of each pair, as a grid."""

    meaning: ClassVar[str] = "two attributes together; the share of each pair"
    keys: ClassVar[tuple[Key, ...]] = (
        Key("attributes", "two pairs of a name and a list of strings", "required for pair", "What is looked at."),
    )
    reducers: ClassVar[tuple[str, ...]] = ("first", "last", "most_common")

    first: tuple[str, tuple[str, ...]]
    second: tuple[str, tuple[str, ...]]

    @classmethod
    def read(cls, table: Table) -> Self | None:
        return table.need("attributes", cls._of)

    @classmethod
    def _of(cls, written: object) -> Self:
        match written:
            case [[str(one), [*a]], [str(two), [*b]]]:
                return cls((one, tuple(map(str, a))), (two, tuple(map(str, b))))
        raise InvalidParameter(f"expected two attributes, got {written!r}")

    @classmethod
    def of_size(cls, size: int | None) -> Self:
        names = tuple(f"v{place}" for place in range((size or 4) // 2))
        return cls(("a", ("x", "y")), ("b", names))

    def document(self) -> dict[str, Json]:
        return {"attributes": [[name, list(values)] for name, values in (self.first, self.second)]}

    @property
    def domain(self) -> Categories:
        return Categories(len(self.first[1]) * len(self.second[1]))

    def _pair(self, value: object) -> tuple[str, str] | None:
        if isinstance(value, Mapping):
            value = [value.get(self.first[0]), value.get(self.second[0])]
        match value:
            case [str(a), str(b)] if a in self.first[1] and b in self.second[1]:
                return a, b
        return None

    def recorded(self, value: object) -> list[Any]:
        found = self._pair(value)
        if found is None:
            raise InvalidValue(f"a pair metric takes {self.takes_in_words()}")
        return list(found)

    def takes(self, value: object) -> bool:
        return self._pair(value) is not None

    def input_of(self, value: object) -> int:
        a, b = self.recorded(value)
        return self.first[1].index(a) * len(self.second[1]) + self.second[1].index(b)

    def declared(self, value: object) -> Declared:
        return self.recorded(value)

    def value_for(self, held: int | Fraction) -> dict[str, str]:
        a, b = divmod(int(held), len(self.second[1]))
        return {self.first[0]: self.first[1][a], self.second[0]: self.second[1][b]}

    def example(self) -> dict[str, str]:
        return self.value_for(0)

    def made_up(self, part: float, age: int) -> dict[str, str]:  # noqa: ARG002  the same at any time
        return self.value_for(int(part * self.domain.size))

    def from_text(self, cell: str) -> dict[str, str]:
        a, b = cell.split("/")
        return {self.first[0]: a, self.second[0]: b}

    def takes_in_words(self) -> str:
        return f"a mapping with {self.first[0]} and {self.second[0]}"

    def holds_in_words(self) -> str:
        return f"{self.first[0]} and {self.second[0]} together"

    def to_the_person(self) -> str:
        return f"Both {self.first[0]} and {self.second[0]}."

    def in_words(self, value: object) -> str:
        return " and ".join(self.recorded(value))

    @property
    def shape(self) -> Grid:
        return Grid(Axis(*self.first), Axis(*self.second))
