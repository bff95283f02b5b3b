"""The five shapes of a result: shares, a number, a curve, a grid, numbers by group.

A metric type turns tallies into one of them. Everything that shows a result (API, CSV, terminal, dashboard, report)
looks at the shape and never at the type's name. The values of a result are one flat list. The shape says what each
value is about, in which order and unit, and which one leads.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias

from hubbub.errors import InvalidParameter

__all__ = [
    "Axis",
    "Curve",
    "Grid",
    "Measure",
    "Number",
    "NumbersByGroup",
    "Order",
    "Scale",
    "Shape",
    "ShapeName",
    "Shares",
    "cell_label",
]

ShapeName: TypeAlias = Literal["shares", "number", "curve", "grid", "numbers"]
Measure: TypeAlias = Literal["share", "number"]
"""Whether a value is a share of the devices, or a number with its own unit."""
Order: TypeAlias = Literal["size", "listed"]
"""How values are best shown: largest first, or in the order of the list."""
Scale: TypeAlias = Literal["linear", "log"]
"""Whether equal distances of an axis are equal differences or equal ratios."""
_CROSS = "×"


def cell_label(row: str, column: str) -> str:
    """The name of a grid cell. No two cells share one, even if a row's or column's name contains the separator."""
    return f"{_part(row)} {_CROSS} {_part(column)}"


def _part(name: str) -> str:
    """The name as it is, or as a JSON string if it could be read as more than one name."""
    return json.dumps(name, ensure_ascii=False) if _CROSS in name or name.startswith('"') else name


@dataclass(frozen=True, slots=True)
class Axis:
    """What the values of a result run along. `places` says where each label stands on a scale, for a curve; `edges`
    where each begins and ends, if labels are bins."""

    name: str
    labels: Sequence[str]
    places: Sequence[float] = ()
    unit: str = ""
    edges: Sequence[float] = ()
    scale: Scale = "linear"

    def __post_init__(self) -> None:
        if self.places and len(self.places) != len(self.labels):
            raise InvalidParameter(f"axis {self.name!r} has {len(self.labels)} labels but {len(self.places)} places")
        if self.edges and len(self.edges) != len(self.labels) + 1:
            raise InvalidParameter(f"axis {self.name!r} has {len(self.labels)} bins but {len(self.edges)} edges")


@dataclass(frozen=True)
class Shape(ABC):
    """How the values of a result are laid out."""

    kind: ClassVar[ShapeName]

    @property
    @abstractmethod
    def labels(self) -> Sequence[str]:
        """The name of each value, by index."""

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the values run along: one axis for a curve or groups, rows and columns for a grid."""
        return ()

    @property
    def measure(self) -> Measure:
        return "share"

    @property
    def unit(self) -> str:
        """The unit of the values. Empty for shares and for numbers without a unit."""
        return ""

    @property
    def order(self) -> Order:
        return "listed"

    @property
    def leading(self) -> int | None:
        """The index of the value that stands for all in a headline. None: the largest value."""
        return None

    @property
    def leading_name(self) -> str:
        """What the headline is called. Empty: the label of its value."""
        return ""

    @property
    def limits(self) -> tuple[float, float]:
        """The numbers between which every true value lies."""
        return 0.0, 1.0

    @property
    def sums_to_one(self) -> bool:
        """Whether the values are shares of a whole, so that they can be made to sum to one."""
        return False


@dataclass(frozen=True)
class Shares(Shape):
    """The shares of a list of values. `lead` is the value that says it all, such as the yes of yes and no."""

    kind: ClassVar[ShapeName] = "shares"

    values: Sequence[str]
    lead: int | None = None
    lead_name: str = ""

    @property
    def labels(self) -> Sequence[str]:
        return self.values

    @property
    def order(self) -> Order:
        return "listed" if self.lead is not None else "size"

    @property
    def leading(self) -> int | None:
        return self.lead

    @property
    def leading_name(self) -> str:
        return self.lead_name

    @property
    def sums_to_one(self) -> bool:
        return True


@dataclass(frozen=True)
class Number(Shape):
    """One number, such as a mean."""

    kind: ClassVar[ShapeName] = "number"

    name: str
    bounds: tuple[float, float]
    in_unit: str = ""

    @property
    def labels(self) -> Sequence[str]:
        return (self.name,)

    @property
    def measure(self) -> Measure:
        return "number"

    @property
    def unit(self) -> str:
        return self.in_unit

    @property
    def leading(self) -> int:
        return 0

    @property
    def limits(self) -> tuple[float, float]:
        return self.bounds


@dataclass(frozen=True)
class Curve(Shape):
    """Values over an axis, with bands: a histogram, or the share of devices at or below each place."""

    kind: ClassVar[ShapeName] = "curve"

    axis: Axis
    name: str
    """What is drawn over the axis."""
    lead: int | None = None
    whole: bool = False
    """Whether the values are shares of a whole."""

    @property
    def labels(self) -> Sequence[str]:
        return self.axis.labels

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.axis,)

    @property
    def leading(self) -> int | None:
        return self.lead

    @property
    def sums_to_one(self) -> bool:
        return self.whole


@dataclass(frozen=True)
class Grid(Shape):
    """The share of devices in each cell of two axes, row by row."""

    kind: ClassVar[ShapeName] = "grid"

    rows: Axis
    columns: Axis

    @cached_property
    def labels(self) -> Sequence[str]:  # cached because a grid may have thousands of cells
        return tuple(cell_label(row, column) for row in self.rows.labels for column in self.columns.labels)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.rows, self.columns

    @property
    def sums_to_one(self) -> bool:
        return True


@dataclass(frozen=True)
class NumbersByGroup(Shape):
    """One number for each group, such as the mean of its devices."""

    kind: ClassVar[ShapeName] = "numbers"

    groups: Axis
    bounds: tuple[float, float]
    in_unit: str = ""

    @property
    def labels(self) -> Sequence[str]:
        return self.groups.labels

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.groups,)

    @property
    def measure(self) -> Measure:
        return "number"

    @property
    def unit(self) -> str:
        return self.in_unit

    @property
    def limits(self) -> tuple[float, float]:
        return self.bounds
