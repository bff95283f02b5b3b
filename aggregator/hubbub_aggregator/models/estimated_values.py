"""Estimated values with their interval, and the shape in which they are shown."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict  # pydantic's own, which it asks for before Python 3.12

from hubbub.result_shapes import Measure, Order, Scale, ShapeName
from hubbub_aggregator.models.base import ResponseModel

__all__ = ["AxisModel", "HeadlineModel", "IntervalKind", "Postprocess", "Shaped", "ShownModel", "ValueModel"]

Postprocess: TypeAlias = Literal["none", "norm_sub", "base_cut", "clip", "projected"]


class ShownModel(TypedDict):
    """What people are shown of a value: never outside of what is possible, and always within its own limits."""

    value: float
    low: float
    high: float


class ValueModel(TypedDict):
    """One value with its estimate. A plain dict: an answer may have 65,536 of them, and objects would take as long
    to make as the numbers."""

    value: Annotated[bool | str | None, Field(description="The value whose share is estimated; null for a mean.")]
    label: str
    estimate: Annotated[float, Field(description="Raw: unbiased, so a share may lie below 0 or above 1.")]
    stderr: float
    low: Annotated[float | None, Field(description="Raw lower limit, not clipped; null if there is none.")]
    high: Annotated[float | None, Field(description="Raw upper limit, not clipped; null if there is none.")]
    shown: Annotated[
        ShownModel,
        Field(
            description="The same for people: value and limits clipped together to what is possible. With a "
            "`postprocess`, `value` is the post-processed one, which is biased."
        ),
    ]
    total: Annotated[
        float,
        Field(
            description="Raw estimate times reports: how many of the reporting devices hold the value; for a mean, the "
            "sum."
        ),
    ]
    total_low: float | None
    total_high: float | None


class IntervalKind(ResponseModel):
    """How the limits of an answer were made. The ones to show have the same confidence, or more."""

    kind: str
    confidence: float
    simultaneous: bool = Field(description="Whether the intervals of all values hold together with this confidence.")
    together: int = Field(
        description="For how many values at once the confidence holds. 1: for each by itself, or there is one free "
        "value, as for yes and no."
    )
    selection: str | None = Field(
        default=None, description="If values were chosen by their estimates: why the intervals hold nonetheless."
    )


class AxisModel(ResponseModel):
    """An axis that the values of a result run along."""

    name: str
    labels: list[str]
    places: list[float] | None = Field(description="The place of each label on a scale; null if there is none.")
    unit: str | None = Field(description="Unit of the places.")
    edges: list[float] | None = Field(
        description="Where labels that are bins begin and end, one more than there are labels; null if they are none."
    )
    scale: Scale = Field(description="How the axis is best drawn.")


class HeadlineModel(ResponseModel):
    """Which value stands for all of them where there is room for only one."""

    label: str | None = Field(description="Its label; null: that of the largest estimate.")
    name: str | None = Field(description="What to call it instead of by its label, such as `yes`.")


class Shaped(ResponseModel):
    """How values are to be shown. This is all that is needed: a client need not know the metric's type."""

    shape: ShapeName = Field(
        description="`shares` of a list of values, one `number`, a `curve` over an axis, a `grid` of cells over two "
        "axes (row by row), or `numbers` by group."
    )
    measure: Measure = Field(description="Whether values are shares of the devices, or numbers with their own unit.")
    unit: str | None = Field(description="Unit of the values; null for shares, and if the codebook names none.")
    order: Order = Field(description="Whether values are best shown by `size`, the largest first, or as `listed`.")
    headline: HeadlineModel
    axes: list[AxisModel] = Field(
        description="One for a curve or for groups, rows and columns for a grid, none otherwise. The values of an "
        "answer without `top` are in this order."
    )
    postprocessing: list[Postprocess] = Field(description="What `postprocess` may be for this metric.")
