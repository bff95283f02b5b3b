"""What the aggregator answers, as pydantic models: the OpenAPI document is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict  # pydantic's own, which it asks for before Python 3.12

from hubbub.shapes import Measure, Order, ShapeName
from hubbub_aggregator.storage import State

__all__ = [
    "Answer",
    "AxisModel",
    "Collusion",
    "Estimate",
    "HeadlineModel",
    "IntervalKind",
    "KeyStatus",
    "Manipulation",
    "MechanismModel",
    "MetricList",
    "MetricVersion",
    "NamedMetric",
    "PartModel",
    "PeriodPrivacy",
    "PeriodRange",
    "Postprocess",
    "Privacy",
    "Problem",
    "ReleaseList",
    "ReleaseModel",
    "Segment",
    "Shaped",
    "Status",
    "ValueModel",
    "Verdict",
]

Postprocess: TypeAlias = Literal["none", "norm_sub", "base_cut", "clip"]


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class Problem(Answer):
    """RFC 9457, as application/problem+json; `type` is urn:hubbub:problem:<name>."""

    type: str
    title: str
    status: int
    detail: str


class Verdict(Answer):
    """Where a batch stands. `pending` is the only state that changes."""

    id: str
    kind: Literal["batch", "discard"]
    state: State
    reason: str | None = Field(description="Name of the refusal, if it was refused.")
    metric_id: str
    period: int
    count: int
    valid: int | None = Field(description="Distinct valid reports, once they were opened.")
    invalid: dict[str, int] = Field(description="Reports that do not count, by reason.")


class MechanismModel(Answer):
    name: str
    epsilon: float
    parameters: dict[str, Any]


class PeriodModel(Answer):
    """From its start, which is its label, up to, not including, its end."""

    index: int
    label: str
    start: Annotated[str | None, Field(alias="from")] = None
    end: Annotated[str | None, Field(alias="to")] = None


class Scope(Answer):
    """Whose and which values these are: the devices of a collection, each reduced to one value per period."""

    collection: str
    type: str
    reduce: str


class PartModel(Answer):
    """Of a bucket that was cut at random into several batches: chance decides how many of a part are honest."""

    bucket_reports: int = Field(description="Reports of the whole bucket.")
    failure_probability: float = Field(
        description="That the part holds fewer than `honest_reports` honest ones; contained in `delta`."
    )


class ReleaseModel(Answer):
    """The record of one release: immutable."""

    id: str
    scope: Scope | None = Field(default=None, description="Null in records written before there was one.")
    metric: str
    metric_id: str
    period: PeriodModel
    unit: str
    adjacency: str = Field(default="replacement", description="What may differ between neighbours: one device's value.")
    mechanism: MechanismModel
    local_epsilon: float
    epsilon: float
    delta: float
    honest_reports: int = Field(
        description="What epsilon counts on: of the valid reports the honest fraction, in a part a little less."
    )
    honest_reports_pessimistic: int | None = Field(
        default=None,
        description="How many are sure to be honest if the fraction is one of all reports, and honest ones may be "
        "invalid: valid - (reports - floor(fraction * reports)), in a part a little less, and at least 0. Null in "
        "records from before it was kept.",
    )
    honest_fraction: str | None = Field(
        default=None,
        description="Share of the distinct valid reports assumed honest, as the codebook had it; nothing enforces it.",
    )
    part: PartModel | None = Field(default=None, description="Null where the batch is a whole bucket.")
    method: str
    reports: int
    valid: int = Field(description="Distinct valid reports: the ones that count.")
    invalid: dict[str, int]
    software: str


class ReleaseList(Answer):
    releases: list[ReleaseModel]
    next: str | None = Field(description="Pass as `after` for the next page; null on the last one.")


class ValueModel(TypedDict):
    """One value with its estimate. A plain dict: an answer may have 65,536 of them, and objects would take as long
    to make as the numbers."""

    value: Annotated[bool | str | None, Field(description="The value whose share is estimated; null for a mean.")]
    label: str
    estimate: float
    stderr: Annotated[float | None, Field(description="Null after post-processing, which leaves no standard error.")]
    low: float | None
    high: float | None
    raw_estimate: Annotated[
        float | None, Field(description="The unbiased estimate, where `estimate` is post-processed.")
    ]
    total: Annotated[
        float,
        Field(
            description="Estimate times reports: how many of the reporting devices hold the value; of a mean, the sum."
        ),
    ]
    total_low: float | None
    total_high: float | None


class IntervalKind(Answer):
    kind: str
    confidence: float
    simultaneous: bool = Field(description="Whether the intervals of all values hold together with this confidence.")
    selection: str | None = Field(
        default=None, description="Where values were chosen by their estimates: why the intervals hold nonetheless."
    )


class PeriodRange(Answer):
    """Half-open; `released` says for how many of the periods there is a release."""

    start: Annotated[str, Field(alias="from")]
    end: Annotated[str, Field(alias="to")]
    length: str
    released: int


class PeriodPrivacy(Answer):
    period: str
    epsilon: float
    delta: float
    honest_reports: int
    method: str


class Collusion(Answer):
    """What holds even if shuffler and aggregator work together: pure and local."""

    epsilon: float
    delta: float


class Privacy(Answer):
    unit: str
    local_epsilon: float
    epsilon: float
    delta: float
    honest_reports: int = Field(description="The smallest number counted on in any period.")
    method: str
    per_period: list[PeriodPrivacy]
    if_collusion: Collusion
    assumptions: list[str]
    note: str | None = None


class Manipulation(Answer):
    per_thousand_fakes: float = Field(
        description="Largest shift of any estimated value if one report in a thousand is made up."
    )


class AxisModel(Answer):
    """What the values of a result run along."""

    name: str
    labels: list[str]
    places: list[float] | None = Field(description="Where each label stands on a scale; null where there is none.")
    unit: str | None = Field(description="Of the places.")


class HeadlineModel(Answer):
    """Which of the values stands for all, where there is room for one."""

    label: str | None = Field(description="Its label; null: that of the largest estimate.")
    name: str | None = Field(description="What to call it instead of by its label, such as `yes`.")


class Shaped(Answer):
    """How values are to be shown. It says all that is needed: nobody has to know the metric's type for that."""

    shape: ShapeName = Field(
        description="`shares` of a list of values, one `number`, a `curve` over an axis, a `grid` of cells over two "
        "axes (row by row), or `numbers` by group."
    )
    measure: Measure = Field(description="Whether values are shares of the devices, or numbers with their own unit.")
    unit: str | None = Field(description="Of the values; null for shares, and where the codebook names none.")
    order: Order = Field(description="Whether values are best shown by `size`, the largest first, or as `listed`.")
    headline: HeadlineModel
    axes: list[AxisModel] = Field(
        description="Of a curve and of groups one, of a grid its rows and columns, else none. The values of an answer "
        "without `top` stand in this order."
    )
    postprocessing: list[Postprocess] = Field(description="What `postprocess` may be for this metric.")


class Segment(Shaped):
    """The estimate for one metric id. An edit gives a name a new id, and ids are never merged."""

    metric_id: str
    type: str
    mechanism: MechanismModel
    reports: int
    periods: PeriodRange
    complete: bool
    interval: IntervalKind
    postprocess: Postprocess
    value_count: int = Field(description="How many values the metric has; with `top`, not all of them are listed.")
    values: list[ValueModel]
    privacy: Privacy
    manipulation: Manipulation


class Estimate(Answer):
    """What a metric's releases say. `segments` are side by side, oldest first; `privacy` is for all together."""

    metric: str
    population: Literal["reports", "superpopulation"]
    complete: bool = Field(
        description="Nothing more can come: every period is past its horizon and no batch of it waits. "
        "Until then, what has been released may be a part."
    )
    segments: list[Segment]
    privacy: Privacy


class MetricVersion(Shaped):
    id: str
    type: str
    mechanism: MechanismModel
    value_count: int = Field(description="How many values are estimated: one for a mean.")
    bounds: tuple[float, float] | None = Field(default=None, description="Between which the numbers of a mean lie.")
    inputs: int | None = Field(
        default=None, description="How many different inputs the mechanism has; null for a range of numbers."
    )
    min_batch: int | None = Field(
        description="Fewest reports of a period that are released: by the codebook, or by the shuffler's own floor "
        "where that is known (`shuffler_floor`) and higher."
    )
    enabled: bool
    released_periods: int
    first: str | None
    last: str | None


class NamedMetric(Answer):
    name: str
    description: str
    in_force: bool
    versions: list[MetricVersion] = Field(description="Every id this name has had, the newest last.")


class MetricList(Answer):
    collection: str
    period: str
    metrics: list[NamedMetric]


class KeyStatus(Answer):
    id: int
    first_period: str
    last_period: str
    state: Literal["pending", "active", "revoked"]


class CodebookStatus(Answer):
    id: str
    first_period: str


class Status(Answer):
    batches: dict[str, int]
    discards: int
    refused_batches: dict[str, int] = Field(description="By reason.")
    invalid_reports: dict[str, int] = Field(description="Reports in settled batches that did not count, by reason.")
    refused_requests: dict[str, int] = Field(description="By problem, since this process started.")
    keys: list[KeyStatus]
    codebooks: list[CodebookStatus]
    trust_anchor: str
    bundle_sequence: int
    software: str
