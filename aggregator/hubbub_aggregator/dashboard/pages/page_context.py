"""What all pages share: the API to ask, drawn figures, links, and how values are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from hubbub.codebook import Codebook
from hubbub.period import Calendar
from hubbub_aggregator.dashboard.api_client import Api
from hubbub_aggregator.dashboard.chart_style import Spec
from hubbub_aggregator.dashboard.charts.drawn import Chart
from hubbub_aggregator.dashboard.vega_render import Drawer, inline
from hubbub_aggregator.models.estimated_values import IntervalKind, Shaped, ValueModel
from hubbub_aggregator.models.metrics import MetricList, NamedMetric
from hubbub_aggregator.operations.status import FullStatus

__all__ = [
    "Figure",
    "Links",
    "Site",
    "called",
    "followed",
    "has_one_line",
    "is_share",
    "joint",
    "leading",
    "named",
    "seconds_of",
    "start_of",
]


@dataclass(frozen=True, slots=True)
class Links:
    """Where pages, charts and tables are: on the server, or in one saved file."""

    in_one_file: bool = False

    def metric(self, name: str, **asked: object) -> str:
        return f"#metric-{name}" if self.in_one_file else _address(f"/metric/{quote(name, safe='')}", asked)

    def public(self, name: str) -> str:
        return _address(f"/public/{quote(name, safe='')}", {})

    def page(self, name: str, **asked: object) -> str:
        path = {"overview": "/", "collected": "/what-is-collected"}.get(name, f"/{name}")
        return f"#{name}" if self.in_one_file else _address(path, asked)

    def chart(self, kind: str, name: str, form: str, **asked: object) -> str:
        return _address(f"/chart/{kind}/{quote(name, safe='')}.{form}", asked)

    def csv(self, name: str, kind: str, **asked: object) -> str:
        return _address(f"/v1/metrics/{quote(name, safe='')}/{kind}", {**asked, "format": "csv"})


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn chart with its caption."""

    svg: Markup
    caption: str
    kind: str
    key: tuple[tuple[str, str], ...] = ()
    """What lines stand for, as (class, words), if the chart has no legend."""
    svg_address: str = ""
    png_address: str = ""


@dataclass(slots=True)
class Site:
    """One request, or one report: an API to ask and a drawer to draw with."""

    api: Api
    drawer: Drawer
    links: Links = field(default_factory=Links)

    async def listing(self) -> MetricList:
        return await self.api.ask(MetricList, "/v1/metrics")

    async def status(self) -> FullStatus:
        return await self.api.ask(FullStatus, "/v1/status")

    async def codebook(self) -> Codebook:
        return await self.api.codebook()

    def figure(self, chart: Chart | Spec, kind: str, caption: str, name: str = "", **asked: object) -> Figure:
        """Draw a chart. A specification takes the chart engine long, so call it off the event loop."""
        svg = self.drawer.svg(chart) if isinstance(chart, dict) else chart.svg()
        return Figure(
            Markup(inline(svg, caption, kind)),  # noqa: S704  drawn here: both ways escape what they are given
            caption,
            kind,
            svg_address="" if self.links.in_one_file else self.links.chart(kind, name or "all", "svg", **asked),
            png_address="" if self.links.in_one_file else self.links.chart(kind, name or "all", "png", **asked),
        )


def is_share(shown: Shaped) -> bool:
    """Whether values are shares of the devices, rather than numbers with their own unit."""
    return shown.measure == "share"


def has_one_line(shown: Shaped) -> bool:
    """Whether one value stands for all of them: the yes of yes and no, a mean, one place of a curve."""
    return shown.headline.label is not None


def followed(metric: NamedMetric, most: int, spare: int = 0) -> dict[str, object]:
    """What to ask a series for, so that it has few values: all of a few, the leading one, or the `most` largest."""
    led = [version.value_count for version in metric.versions if has_one_line(version)]
    listed = [version.value_count for version in metric.versions if not has_one_line(version)]
    return {
        "headline": True if max(led, default=0) > most + spare else None,
        "top": most if max(listed, default=0) > most + spare else None,
    }


def leading(values: Sequence[ValueModel], shown: Shaped) -> ValueModel:
    """The value that stands for all: the one that the shape names, or the largest."""
    named = next((value for value in values if value["label"] == shown.headline.label), None)
    return named or max(values, key=lambda value: value["estimate"])


def called(value: ValueModel, shown: Shaped) -> str:
    """The name of a value in a headline."""
    is_named = shown.headline.name is not None and value["label"] == shown.headline.label
    return str(shown.headline.name) if is_named else value["label"]


def joint(interval: IntervalKind | None) -> str:
    """What to say beside intervals: whether they hold for all values together. Empty if there is one free value."""
    if interval is None or (interval.together == 1 and interval.simultaneous):
        return ""
    return "for all values together" if interval.simultaneous else "each value by itself"


def seconds_of(status: FullStatus) -> float:
    """When the API answered."""
    return datetime.fromisoformat(status.time).astimezone(UTC).timestamp()


def named(listing: MetricList, name: str) -> NamedMetric | None:
    return next((metric for metric in listing.metrics if metric.name == name), None)


def start_of(calendar: Calendar, label: str) -> float:
    return calendar.period(calendar.boundary(label)).start


def _address(path: str, asked: dict[str, Any]) -> str:
    known = {("from" if key == "since" else key): value for key, value in asked.items() if value is not None}
    return f"{path}?{urlencode(known)}" if known else path
