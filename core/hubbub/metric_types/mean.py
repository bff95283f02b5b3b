"""The `mean` type: a number between two bounds, whose mean is estimated. Numbers outside are clamped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, InvalidValue
from hubbub.mechanisms import Bounds
from hubbub.metric_types._exact_numbers import UNIT, a_unit, decimal_text, exact
from hubbub.metric_types._recorded_numbers import BOUNDS, NUMBER_REDUCERS, is_number, kept, two_bounds
from hubbub.metric_types._registry import register
from hubbub.metric_types.base import Key, MetricType
from hubbub.number_format import amount
from hubbub.result_shapes import Number

if TYPE_CHECKING:
    from hubbub.canonical import Json
    from hubbub.codebook._toml_table import Table
    from hubbub.mechanisms import Domain

__all__ = ["Mean"]


@register("mean")
@dataclass(frozen=True, slots=True)
class Mean(MetricType):
    """A number between two bounds."""

    meaning: ClassVar[str] = "a number between two bounds; its mean"
    keys: ClassVar[tuple[Key, ...]] = (
        BOUNDS,
        UNIT,
    )
    reducers: ClassVar[tuple[str, ...]] = NUMBER_REDUCERS

    bounds: Bounds
    unit: str = ""
    """The unit in which numbers are shown. It does not change what a report means."""

    @classmethod
    def read(cls, table: Table) -> Self | None:
        bounds = table.need("bounds", two_bounds)
        unit = table.take("unit", a_unit, "")
        return None if bounds is None else cls(bounds, unit)

    @classmethod
    def of_size(cls, size: int | None) -> Self:
        if size is not None:
            raise InvalidParameter("a mean has no list of values: leave the size out")
        return cls(Bounds(Fraction(-1), Fraction(1)))

    @classmethod
    def around(cls, domain: Domain) -> Self | None:
        return cls(domain) if isinstance(domain, Bounds) else None

    @classmethod
    def restored(cls, table: dict[str, Any]) -> dict[str, Any]:
        table["bounds"] = [Decimal(text) for text in table["bounds"]]
        if "missing" in table:
            table["missing"] = Decimal(table["missing"])
        return table

    def document(self) -> dict[str, Json]:
        return {"bounds": [decimal_text(self.bounds.lower), decimal_text(self.bounds.upper)]}

    def remarks(self) -> dict[str, Json]:
        return {"unit": self.unit} if self.unit else {}

    @property
    def domain(self) -> Bounds:
        return self.bounds

    @property
    def chosen(self) -> str:
        return "bounds"

    @property
    def remedy(self) -> str:
        return "tighter bounds"

    def recorded(self, value: object) -> float:
        """A finite float. Only infinity is clamped here, because a sum may be in bounds although its parts are not."""
        return kept(value, self.type, *self.bounds.limits)

    def takes(self, value: object) -> bool:
        return is_number(value)

    def clamps(self, value: object) -> bool:
        return self.takes(value) and self.input_of(value) != value

    def input_of(self, value: object) -> Fraction:
        number = value if isinstance(value, Fraction) else Fraction(self.recorded(value))
        return min(max(number, self.bounds.lower), self.bounds.upper)

    def declared(self, value: object) -> Fraction:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | Fraction):
            raise InvalidValue(f"expected a number, got {value!r}", self._within())
        number = value if isinstance(value, Fraction) else exact(value)
        if not self.bounds.lower <= number <= self.bounds.upper:
            raise InvalidValue(f"{value} is outside `bounds`", self._within())
        return number

    def _within(self) -> str:
        return f"write a number from {decimal_text(self.bounds.lower)} to {decimal_text(self.bounds.upper)}"

    def value_for(self, held: int | Fraction) -> float:
        return float(held)

    def example(self) -> float:
        return float(self.bounds.lower + self.bounds.width / 2)

    def made_up(self, part: float, age: int) -> float:
        """A hump near the lower bound, by the inverse of P[at most x] = 1 - (1 - x^2)^(4 + age)."""
        up = math.sqrt(1 - (1 - part) ** (1 / (4 + age)))
        return float(self.bounds.lower) + float(self.bounds.width) * up

    def unusual(self) -> Sequence[object]:
        return (-1e300, 1e-9, 1e300, 7)

    def from_text(self, cell: str) -> float:
        return float(cell)

    def takes_in_words(self) -> str:
        return "numbers other than NaN"

    def holds_in_words(self) -> str:
        low, high = (decimal_text(bound) for bound in (self.bounds.lower, self.bounds.upper))
        return f"a number from {low} to {high}{self.unit and ' ' + self.unit}; numbers outside are clamped"

    def to_the_person(self) -> str:
        low, high = map(amount, self.bounds.limits)
        unit = self.unit and f" {self.unit}"
        return f"A number from {low} to {high}{unit}; a number outside is reported as the nearer end."

    @property
    def cell_in_words(self) -> str:
        return "a number"

    def in_words(self, value: object) -> str:
        return amount(float(value) if isinstance(value, int | float | Fraction) else None)

    def input_in_words(self, held: int | Fraction) -> str:
        return f"{float(held):.4g}"

    @property
    def shape(self) -> Number:
        return Number("mean", self.bounds.limits, self.unit)

    @property
    def span(self) -> float:
        return self.bounds.span  # from the exact bounds: as floats, both ends may be equal

    def value_of(self, index: int) -> None:  # noqa: ARG002  there is only one
        return None
