"""A metric type that the product does not know: the share of devices at or below each edge, shown as a curve."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidValue
from hubbub.mechanisms import Categories
from hubbub.metric_types import Key
from hubbub.metric_types._exact_numbers import decimal_text, exact
from hubbub.result_shapes import Axis, Curve
from tests.core.metric_types.toy_sums import SumsOfShares

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hubbub.canonical import Json
    from hubbub.codebook._toml_table import Table


@dataclass(frozen=True, slots=True)
class Ladder(SumsOfShares):
    """A number that falls between edges; the share of devices at or below each edge, as a curve."""

    meaning: ClassVar[str] = "a number; the share of devices at or below each edge"
    keys: ClassVar[tuple[Key, ...]] = (Key("edges", "rising numbers", "required for ladder", "Where shares are told."),)
    reducers: ClassVar[tuple[str, ...]] = ("median", "first", "max")

    edges: tuple[Fraction, ...]

    @classmethod
    def read(cls, table: Table) -> Self | None:
        return table.need("edges", lambda value: cls(tuple(map(exact, value if isinstance(value, list) else []))))

    @classmethod
    def of_size(cls, size: int | None) -> Self:
        return cls(tuple(map(Fraction, range((size or 4) - 1))))

    @classmethod
    def restored(cls, table: dict[str, Any]) -> dict[str, Any]:
        table["edges"] = [Decimal(text) for text in table["edges"]]
        return table

    def document(self) -> dict[str, Json]:
        return {"edges": [decimal_text(edge) for edge in self.edges]}

    @property
    def domain(self) -> Categories:
        return Categories(len(self.edges) + 1)

    def recorded(self, value: object) -> float:
        if not self.takes(value):
            raise InvalidValue("a ladder metric takes finite numbers")
        return float(value)  # type: ignore[arg-type]  # as `takes` has just found

    def takes(self, value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300

    def input_of(self, value: object) -> int:
        return sum(self.recorded(value) > edge for edge in self.edges)

    def declared(self, value: object) -> Fraction:
        return exact(value)

    def value_for(self, held: int | Fraction) -> float:
        return float(self.edges[int(held)]) if held < len(self.edges) else float(self.edges[-1]) + 1

    def example(self) -> float:
        return float(self.edges[0])

    def made_up(self, part: float, age: int) -> float:
        return 2 * part * float(self.edges[-1]) + age

    def from_text(self, cell: str) -> float:
        return float(cell)

    def takes_in_words(self) -> str:
        return "finite numbers"

    def holds_in_words(self) -> str:
        return f"a number, by {len(self.edges)} edges"

    def to_the_person(self) -> str:
        return "A number."

    def in_words(self, value: object) -> str:
        return f"{value} ms"

    @property
    def shape(self) -> Curve:
        labels = [f"at most {decimal_text(edge)}" for edge in self.edges]
        axis = Axis("time to start", labels, [float(edge) for edge in self.edges], "ms")
        return Curve(axis, "devices at or below", lead=len(self.edges) // 2)

    def weights(self) -> NDArray[np.float64]:
        import numpy as np

        return np.tri(len(self.edges), len(self.edges) + 1)
