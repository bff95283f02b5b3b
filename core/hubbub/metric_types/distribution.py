"""The `distribution` type: a number in bins, whose histogram, quantiles and mean are estimated from one report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Bins, Bounds
from hubbub.metric_types._bin_edges import BINS, LINEAR, LOG, USUAL_BINS, edges_between, listed_edges, number_of_bins
from hubbub.metric_types._binned_number import BinnedNumber
from hubbub.metric_types._exact_numbers import UNIT, a_unit
from hubbub.metric_types._recorded_numbers import BOUNDS, NUMBER_REDUCERS, two_bounds
from hubbub.metric_types._registry import register
from hubbub.metric_types.base import Key, Unwise

if TYPE_CHECKING:
    from hubbub.codebook._toml_table import Table
    from hubbub.mechanisms import Domain

__all__ = ["Distribution"]


@register("distribution")
@dataclass(frozen=True, slots=True)
class Distribution(BinnedNumber):
    """A number in bins between two bounds, or between edges that the codebook lists."""

    meaning: ClassVar[str] = "a number in bins; its histogram, quantiles, ranges and mean"
    keys: ClassVar[tuple[Key, ...]] = (
        BOUNDS,
        BINS,
        Key(
            "edges",
            '"linear" or "log", or a list of rising numbers, such as [0, 100, 250, 1000]',
            '"linear"',
            "Distribution only: where bins end. Log bins suit latencies and money, and need a lower bound above 0.",
        ),
        UNIT,
    )
    reducers: ClassVar[tuple[str, ...]] = NUMBER_REDUCERS

    @classmethod
    def read(cls, table: Table) -> Self | None:
        unit = table.take("unit", a_unit, "")
        if isinstance(table.content.get("edges"), list):
            for name in ("bounds", "bins"):
                if name in table.content:
                    table.fault(name, "a list of edges says this already", "remove it, or the list")
            edges = table.take("edges", listed_edges, None)
        else:
            edges = _between(table)
        return None if edges is None else cls(edges, unit)

    @classmethod
    def of_size(cls, size: int | None) -> Self:
        return cls(edges_between(Bounds(Fraction(0), Fraction(1)), USUAL_BINS if size is None else size, LINEAR))

    @classmethod
    def around(cls, domain: Domain) -> Self | None:
        return cls.of_size(domain.size) if isinstance(domain, Bins) else None

    def lint(self) -> Iterator[Unwise]:
        if self.edges[0] > 0 and self.edges[-1] > 100 * self.edges[0] and self.shape.axis.scale == LINEAR:
            first = float(self.edges[1] / self.edges[0])
            if first > 3:
                yield Unwise(
                    "edges",
                    f"the first bin spans a factor of {first:.3g}, so nothing is told apart within it",
                    'write edges = "log"',
                )

    def holds_in_words(self) -> str:
        low, high, unit = self._ends()
        return f"a number in {self.domain.size} bins from {low} to {high}{unit}; numbers outside are clamped"

    def to_the_person(self) -> str:
        low, high, unit = self._ends()
        return (
            f"A number from {low} to {high}{unit}, as one of {self.domain.size} bins; a number outside is reported as "
            "the nearer end."
        )


def _between(table: Table) -> tuple[Fraction, ...] | None:
    bounds = table.need("bounds", two_bounds)
    bins = table.take("bins", number_of_bins, USUAL_BINS)
    scale = table.take("edges", _scale, LINEAR)
    if bounds is None:
        return None
    try:
        return edges_between(bounds, bins, scale)
    except InvalidParameter as error:
        table.fault("bounds" if scale == LOG else "bins", error.problem, error.fix)
        return None


def _scale(value: object) -> str:
    if value not in (LINEAR, LOG):
        raise InvalidParameter(f"expected linear, log or a list of numbers, got {value!r}")
    return str(value)
