"""The bundle as a device uses it: which metric means what in which period, rebuilt and checked on the device."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING

from hubbub.codebook import Codebook, Metric
from hubbub.problems import HubbubError

if TYPE_CHECKING:
    from hubbub.bundle import Bundle
    from hubbub.bundle_body import Body
    from hubbub.period import Calendar

__all__ = ["Book", "Page", "is_expired"]


@dataclass(frozen=True, slots=True)
class Page:
    """One codebook and the period from which it is in force."""

    first_period: int
    codebook: Codebook | None
    """None: this device cannot read it, or it claims what does not hold. It still ends the one before it."""
    affordable: bool
    """Whether its spend per period is within what this device allows in a day."""

    def metric(self, name: str) -> Metric | None:
        metrics = self.codebook.metrics if self.codebook else ()
        return next((metric for metric in metrics if metric.name == name), None)


@dataclass(frozen=True, slots=True)
class Book:
    """A verified bundle with its codebooks rebuilt."""

    bundle: Bundle
    pages: tuple[Page, ...]

    @classmethod
    def read(cls, bundle: Bundle, max_epsilon: Fraction | None) -> Book:
        pages: list[Page] = []
        for bundled in bundle.body.codebooks:
            try:
                codebook = Codebook.from_compiled(bundled.document)
            except HubbubError:
                pages.append(Page(bundled.first_period, None, affordable=True))
                continue
            affordable = max_epsilon is None or codebook.spent <= max_epsilon
            pages.append(Page(bundled.first_period, codebook, affordable))
        return cls(bundle, tuple(pages))

    @property
    def body(self) -> Body:
        return self.bundle.body

    @property
    def calendar(self) -> Calendar | None:
        """The one calendar of all codebooks; None when nothing is collected."""
        return next((metric.calendar for codebook in self.body.codebooks for metric in codebook.metrics), None)

    def page(self, period: int) -> Page | None:
        """The newest codebook in force."""
        return next((page for page in reversed(self.pages) if page.first_period <= period), None)

    def in_force(self, period: int) -> dict[bytes, tuple[Page, Metric]]:
        """All metrics that take reports, by id, each as the newest codebook has it, so that switching it off counts."""
        pages = [page for page in self.pages if page.first_period <= period]
        return {metric.id: (page, metric) for page in pages if page.codebook for metric in page.codebook.metrics}


def is_expired(metric: Metric, now: float) -> bool:
    """Whether the metric's last day is over (UTC)."""
    return metric.expires is not None and metric.expires <= datetime.fromtimestamp(now, UTC).date()
