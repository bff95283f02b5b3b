"""What every metric type has in common whose number falls into bins: values, words, and a curve of shares.

Lower edges belong to their bins. A number outside of the bins is counted in the nearest one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.errors import InvalidValue
from hubbub.mechanisms import Bins
from hubbub.metric_types._bin_edges import are_log
from hubbub.metric_types._exact_numbers import decimal_text, exact
from hubbub.metric_types._recorded_numbers import is_number, kept
from hubbub.metric_types.base import MetricType
from hubbub.number_format import amount
from hubbub.result_shapes import Axis, Curve

if TYPE_CHECKING:
    from hubbub.bins_summary import Asked, Summary
    from hubbub.canonical import Json
    from hubbub.mechanisms import Mechanism, Tally

__all__ = ["BinnedNumber"]

_LONGEST_TEXT = 12
"""Digits with which two edges are told apart."""


@dataclass(frozen=True, slots=True)
class BinnedNumber(MetricType):
    """A number in one of the bins between `edges`."""

    edges: tuple[Fraction, ...]
    unit: str = ""
    is_whole: ClassVar[bool] = False
    """Whether only whole numbers from 0 are recorded, so that each bin ends one below the next."""

    @classmethod
    def restored(cls, table: dict[str, Any]) -> dict[str, Any]:
        table["edges"] = [Decimal(text) for text in table["edges"]]
        if "missing" in table:
            table["missing"] = Decimal(table["missing"])
        return table

    def document(self) -> dict[str, Json]:
        return {"edges": [decimal_text(edge) for edge in self.edges]}

    def remarks(self) -> dict[str, Json]:
        return {"unit": self.unit} if self.unit else {}

    @property
    def domain(self) -> Bins:
        return Bins(len(self.edges) - 1)

    @property
    def chosen(self) -> str:
        return "edges of the bins"

    @property
    def remedy(self) -> str:
        return "fewer bins"

    # -- on the device --------------------------------------------------------------------------

    def recorded(self, value: object) -> float:
        return kept(value, self.type, float(self.edges[0]), float(self.edges[-1]))

    def takes(self, value: object) -> bool:
        return is_number(value)

    def clamps(self, value: object) -> bool:
        return self.takes(value) and not self.edges[0] <= Fraction(self.recorded(value)) <= self.edges[-1]

    def input_of(self, value: object) -> int:
        number = value if isinstance(value, Fraction) else Fraction(self.recorded(value))
        return bisect_right(self.edges, number, 1, len(self.edges) - 1) - 1

    def declared(self, value: object) -> Fraction:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | Fraction):
            raise InvalidValue(f"expected a number, got {value!r}", self._within())
        number = value if isinstance(value, Fraction) else exact(value)
        if not self.edges[0] <= number <= self.edges[-1]:
            raise InvalidValue(f"{value} is outside of the bins", self._within())
        return number

    def _within(self) -> str:
        return f"write a number from {decimal_text(self.edges[0])} to {decimal_text(self.edges[-1])}"

    def value_for(self, held: int | Fraction) -> float:
        return float(sum(self.inside(int(held))) / 2)

    def inside(self, index: int) -> tuple[Fraction, Fraction]:
        """The least and the largest number of a bin, or what they come near to."""
        return self.edges[index], self.edges[index + 1]

    # -- examples -------------------------------------------------------------------------------

    def example(self) -> float:
        return self.value_for(len(self.edges) // 3)

    def made_up(self, part: float, age: int) -> float:
        """A hump among the lower bins, by the inverse of P[at most x] = 1 - (1 - x^2)^(4 + age), with x a place."""
        up = math.sqrt(1 - (1 - part) ** (1 / (4 + age)))
        return self.value_for(min(int(up * self.domain.size), self.domain.size - 1))

    def unusual(self) -> Sequence[object]:
        return (-1e300, 1e-9, 1e300, 7)

    def from_text(self, cell: str) -> float:
        return float(cell)

    # -- in words -------------------------------------------------------------------------------

    def takes_in_words(self) -> str:
        return "numbers other than NaN"

    @property
    def cell_in_words(self) -> str:
        return "a number"

    def in_words(self, value: object) -> str:
        return amount(float(value) if isinstance(value, int | float | Fraction) else None)

    def input_in_words(self, held: int | Fraction) -> str:
        return repr(self.bin_labels()[int(held)])

    def _ends(self) -> tuple[str, str, str]:
        """Lower and upper end, and the unit behind a space."""
        return amount(float(self.edges[0])), amount(float(self.edges[-1])), self.unit and f" {self.unit}"

    # -- results --------------------------------------------------------------------------------

    def edge_texts(self) -> list[str]:
        """The edges with as few digits as tell them apart."""
        for digits in range(3, _LONGEST_TEXT):
            texts = [plain(float(edge), digits) for edge in self.edges]
            if len(set(texts)) == len(texts):
                return texts
        return [decimal_text(edge) for edge in self.edges]

    def bin_labels(self) -> list[str]:
        """A name for each bin. The first and the last one also hold what is beyond."""
        texts = self.edge_texts()
        middle = [f"{texts[place]} to {texts[place + 1]}" for place in range(1, len(texts) - 2)]
        return [f"below {texts[1]}", *middle, f"{texts[-2]} or more"]

    @property
    def shape(self) -> Curve:
        edges = [float(edge) for edge in self.edges]
        places = [self.value_for(place) for place in range(self.domain.size)]
        axis = Axis("value", self.bin_labels(), places, self.unit, edges, "log" if are_log(self.edges) else "linear")
        return Curve(axis, "share of devices", whole=True)

    def summary(self, mechanism: Mechanism[Any], tally: Tally, asked: Asked) -> Summary:
        from hubbub.bins_summary import summarise

        inside = [(float(low), float(high)) for low, high in map(self.inside, range(self.domain.size))]
        edges = [float(edge) for edge in self.edges]
        return summarise(mechanism, tally, edges, inside, asked, is_whole=self.is_whole)


def plain(number: float, digits: int) -> str:
    """A number with so many significant digits, without an exponent where that is short."""
    text = f"{number:.{digits}g}"
    if "e" in text and 1e-4 <= abs(number) < 1e12:
        text = f"{float(text):f}".rstrip("0").rstrip(".")
    return text
