"""The list of metrics, past and present."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub_query.columns import Columns, stacked
from hubbub_query.frame import Tabular
from hubbub_query.values import Mechanism, Shaped

__all__ = ["MetricList", "MetricVersion", "NamedMetric"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricVersion(Shaped):
    """One id that a name has had."""

    id: str
    type: str
    mechanism: Mechanism
    value_count: int
    bounds: tuple[float, ...] | None = None
    """The range of the numbers of a mean."""
    inputs: int | None = None
    min_batch: int | None
    """Fewest reports of a period that are released."""
    enabled: bool
    released_periods: int
    first: str | None
    last: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedMetric:
    """A name with every id it has had, the newest last."""

    name: str
    description: str
    in_force: bool
    versions: tuple[MetricVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricList(Tabular):
    """Every metric of a collection, in the order of its codebook."""

    collection: str
    period: str
    metrics: tuple[NamedMetric, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names alone."""
        return tuple(metric.name for metric in self.metrics)

    def columns(self) -> Columns:
        return stacked(
            {
                "metric": [metric.name],
                "released_periods": version.released_periods,
                "local_epsilon": version.mechanism.epsilon,
                "min_batch": version.min_batch,
                "first": version.first,
                "last": version.last,
                "enabled": version.enabled,
                "metric_id": version.id,
                "type": version.type,
                "mechanism": version.mechanism.name,
                "shape": version.shape,
                "value_unit": version.unit,
            }
            for metric in self.metrics
            for version in metric.versions
        )
