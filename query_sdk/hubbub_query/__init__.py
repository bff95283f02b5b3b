"""Client for analysts: an aggregator's estimates as typed results and data frames."""

from __future__ import annotations

from hubbub_query.comparison import Comparison, Difference, ShownDifference, Side
from hubbub_query.distribution import (
    Below,
    Limits,
    NumberDistribution,
    NumberSegment,
    Quantile,
    QuantileShift,
    RangeShare,
)
from hubbub_query.errors import (
    FrameLibraryMissing,
    InvalidQuery,
    NoAnswer,
    NotFound,
    NothingReleased,
    QueryError,
    Refused,
    Unauthorized,
    UnreadableAnswer,
)
from hubbub_query.estimate import Estimate, Segment
from hubbub_query.frame import Tabular
from hubbub_query.ledger import Ledger, LedgerEntry
from hubbub_query.metrics import MetricList, MetricVersion, NamedMetric
from hubbub_query.privacy import Collusion, Manipulation, PeriodPrivacy, Privacy
from hubbub_query.query import Query
from hubbub_query.releases import Part, Period, Release, ReleaseList, Scope, ShareCredit
from hubbub_query.series import Point, Series, SeriesSegment
from hubbub_query.values import Axis, Headline, IntervalKind, Mechanism, PeriodRange, Shaped, Shown, Value

__all__ = [
    "Axis",
    "Below",
    "Collusion",
    "Comparison",
    "Difference",
    "Estimate",
    "FrameLibraryMissing",
    "Headline",
    "IntervalKind",
    "InvalidQuery",
    "Ledger",
    "LedgerEntry",
    "Limits",
    "Manipulation",
    "Mechanism",
    "MetricList",
    "MetricVersion",
    "NamedMetric",
    "NoAnswer",
    "NotFound",
    "NothingReleased",
    "NumberDistribution",
    "NumberSegment",
    "Part",
    "Period",
    "PeriodPrivacy",
    "PeriodRange",
    "Point",
    "Privacy",
    "Quantile",
    "QuantileShift",
    "Query",
    "QueryError",
    "RangeShare",
    "Refused",
    "Release",
    "ReleaseList",
    "Scope",
    "Segment",
    "Series",
    "SeriesSegment",
    "Shaped",
    "ShareCredit",
    "Shown",
    "ShownDifference",
    "Side",
    "Tabular",
    "Unauthorized",
    "UnreadableAnswer",
    "Value",
]
