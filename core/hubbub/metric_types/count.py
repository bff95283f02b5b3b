"""The `count` type: how often something happened on a device. Its mean, total and distribution come from one report."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.errors import InvalidParameter, InvalidValue
from hubbub.metric_types._bin_edges import BINS, USUAL_BINS, number_of_bins, whole_number_edges
from hubbub.metric_types._binned_number import BinnedNumber
from hubbub.metric_types._exact_numbers import UNIT, a_unit
from hubbub.metric_types._registry import register
from hubbub.metric_types.base import Key

if TYPE_CHECKING:
    from hubbub.canonical import Json
    from hubbub.codebook._toml_table import Table

__all__ = ["CappedCount"]

LARGEST_CAP = 10**9


@register("count")
@dataclass(frozen=True, slots=True)
class CappedCount(BinnedNumber):
    """A whole number from 0 to a cap, in bins of one number each or, for a large cap, wider ones at the upper end."""

    meaning: ClassVar[str] = "a count with a cap; its mean, total and distribution"
    keys: ClassVar[tuple[Key, ...]] = (
        Key(
            "cap",
            "a whole number of at least 1, such as 20",
            "required for count",
            "Count only: a device that counts more is counted as this many. Take it from domain knowledge.",
        ),
        BINS,
        UNIT,
    )
    is_whole: ClassVar[bool] = True
    reducers: ClassVar[tuple[str, ...]] = ("sum", "first", "last", "max", "min", "count", "reservoir")

    @classmethod
    def read(cls, table: Table) -> Self | None:
        cap = table.need("cap", _a_cap)
        bins = table.take("bins", number_of_bins, USUAL_BINS)
        unit = table.take("unit", a_unit, "")
        return None if cap is None else cls(whole_number_edges(cap, bins), unit)

    @classmethod
    def of_size(cls, size: int | None) -> Self:
        return cls(whole_number_edges((size or USUAL_BINS) - 1, USUAL_BINS))

    @classmethod
    def restored(cls, table: dict[str, Any]) -> dict[str, Any]:
        edges = table.pop("edges")
        table |= {"cap": int(edges[-1]) - 1, "bins": len(edges) - 1}
        if "missing" in table:
            table["missing"] = Decimal(table["missing"])
        return table

    def document(self) -> dict[str, Json]:
        return {"edges": [str(int(edge)) for edge in self.edges]}

    @property
    def cap(self) -> int:
        """The largest count."""
        return int(self.edges[-1]) - 1

    @property
    def chosen(self) -> str:
        return "cap"

    @property
    def remedy(self) -> str:
        return "a lower cap"

    def declared(self, value: object) -> Fraction:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | Fraction) or not 0 <= value <= self.cap:
            raise InvalidValue(f"{value!r} is no count", f"write a whole number from 0 to {self.cap}")
        return Fraction(value)

    def inside(self, index: int) -> tuple[Fraction, Fraction]:
        return self.edges[index], self.edges[index + 1] - 1

    def holds_in_words(self) -> str:
        return f"a count from 0 to {self.cap:,}{self.unit and ' ' + self.unit}; more counts as {self.cap:,}"

    def to_the_person(self) -> str:
        return f"A count from 0 to {self.cap:,}{self.unit and ' ' + self.unit}; more is reported as {self.cap:,}."

    def bin_labels(self) -> list[str]:
        ends = [(int(low), int(high)) for low, high in map(self.inside, range(self.domain.size))]
        labels = [f"{low:,}" if low == high else f"{low:,} to {high:,}" for low, high in ends]
        return [*labels[:-1], f"{ends[-1][0]:,} or more"]


def _a_cap(value: object) -> int:
    number = 0 if isinstance(value, bool) or not isinstance(value, int) else value
    if not 1 <= number <= LARGEST_CAP:
        raise InvalidParameter(f"expected a whole number from 1 to {LARGEST_CAP:,}, got {value!r}")
    return number
