"""The codebooks in force: which metric means what in which period, rebuilt and checked on the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hubbub.errors import HubbubError, InvalidParameter
from hubbub_client._budget.device_limits import NO_LIMITS, Limits
from hubbub_client._process.fork import no_fork
from hubbub_client._process.preload_modules import imported

if TYPE_CHECKING:
    from hubbub.bundle import Bundle
    from hubbub.bundle_body import Body
    from hubbub.codebook import Codebook, Metric
    from hubbub.period import Calendar, Period

__all__ = ["PERIODS_TO_CATCH_UP", "CodebooksInForce", "Page", "Pin", "Span", "is_expired", "packaged", "span_of"]

PERIODS_TO_CATCH_UP = 64
"""Ended periods that a device still reports, whether or not anything was recorded: a difference could be seen."""


@dataclass(frozen=True, slots=True)
class Page:
    """One codebook and the period from which it is in force."""

    first_period: int
    codebook: Codebook | None
    """None: this device cannot read it, or a claim in it does not hold. The page still ends the one before it."""
    refusal: str | None = None
    """Why this device's own limits do not allow it."""
    is_stop: bool = False
    """Whether it has no metrics: the operator ended the page before it there, for the sake of a cap over time."""

    @property
    def usable(self) -> bool:
        """Whether this device can read it, and allows it."""
        return self.codebook is not None and self.refusal is None

    def metric(self, name: str) -> Metric | None:
        metrics = self.codebook.metrics if self.codebook else ()
        return next((metric for metric in metrics if metric.name == name), None)


class Span(NamedTuple):
    """A period as it is stored: without the calendar that counts it."""

    start: int
    end: int


def span_of(period: Period) -> Span:
    return Span(period.start, period.end)


@dataclass(frozen=True, slots=True)
class Pin:
    """The page and key that this device has fixed for one period, for good: see `period_codebook_pins`."""

    page: Page
    closes_at: int
    key: int | None = None
    public_key: bytes | None = None
    """Both None while no bundle has had a key for this period."""


@dataclass(frozen=True, slots=True)
class CodebooksInForce:
    """The codebooks of a verified bundle, or the one that came with the app until there is a bundle."""

    bundle: Bundle | None
    pages: tuple[Page, ...]
    pins: Mapping[Span, Pin] = field(default_factory=dict)
    """The pins of this device, by period."""

    @classmethod
    def read(cls, bundle: Bundle, limits: Limits | None) -> CodebooksInForce:
        pages: list[Page] = []
        for bundled in bundle.body.codebooks:
            imported("hubbub.codebook")  # loads all mechanisms, so only once there is something to read
            from hubbub.codebook import Codebook

            with no_fork():
                try:
                    codebook = Codebook.received(bundled.document)
                except HubbubError:
                    pages.append(Page(bundled.first_period, None, is_stop=not bundled.metrics))
                    continue
            pages.append(Page(bundled.first_period, codebook, (limits or NO_LIMITS).refusal(codebook)))
        return cls(bundle, tuple(pages))

    @classmethod
    def before_any_bundle(cls, codebook: Codebook, limits: Limits) -> CodebooksInForce:
        """The codebook that came with the app: values are recorded by it, and nothing is sent."""
        return cls(None, (Page(0, codebook, limits.refusal(codebook)),))

    @property
    def body(self) -> Body:
        if self.bundle is None:
            raise RuntimeError("nothing is sent before there is a bundle")
        return self.bundle.body

    def is_off(self, metric: Metric) -> bool:
        """Whether a metric is switched off: by its codebook, or at once by the bundle."""
        return not metric.enabled or (self.bundle is not None and metric.id in self.bundle.body.off)

    @property
    def expires(self) -> float:
        return inf if self.bundle is None else self.bundle.body.expires

    @property
    def calendar(self) -> Calendar | None:
        """The one calendar of all codebooks; None when nothing is collected."""
        if self.bundle is None:
            return next((page.codebook.collection.calendar for page in self.pages if page.codebook), None)
        return next((metric.calendar for codebook in self.body.codebooks for metric in codebook.metrics), None)

    @property
    def newest_collecting(self) -> Page | None:
        """The newest page that does not just end the one before it."""
        return next((page for page in reversed(self.pages) if not page.is_stop), None)

    def newest_page(self, period: int) -> Page | None:
        """The page of this period in the newest bundle."""
        return next((page for page in reversed(self.pages) if page.first_period <= period), None)

    def pin(self, period: Period) -> Pin | None:
        """The pin of this period; None if there is none yet."""
        return self.pins.get(span_of(period))

    def open_periods(self, now: float) -> Iterator[Period]:
        """The current period, then those that have ended and still take reports, newest first, as far back as a device
        catches up."""
        if self.calendar is None:
            return
        longest = max((page.codebook.collection.grace for page in self.pages if page.codebook), default=0)
        current = self.calendar.index_at(now)
        for index in range(current, max(current - 1 - PERIODS_TO_CATCH_UP, -1), -1):
            period, page = self.calendar.period(index), self.newest_page(index)
            if now >= period.closes_at(longest):
                return  # all older ones closed even earlier
            if (
                page is not None
                and page.codebook is not None
                and now < period.closes_at(page.codebook.collection.grace)
            ):
                yield period

    def page(self, period: Period) -> Page | None:
        """The page by which values of this period are recorded: the pinned one, or what would be pinned now."""
        pin = self.pin(period)
        return self.newest_page(period.index) if pin is None else pin.page

    def metrics(self) -> dict[bytes, Metric]:
        """Every metric that this device knows, by id."""
        pages = [*(pin.page for pin in self.pins.values()), *self.pages]
        return {metric.id: metric for page in pages if page.codebook for metric in page.codebook.metrics}


def packaged(codebook: Codebook | Path | str) -> Codebook:
    """The codebook that an app ships: a metrics.toml, or a compiled one. CodebookError says what is wrong with it."""
    imported("hubbub.codebook")
    from hubbub.codebook import Codebook

    with no_fork():
        if isinstance(codebook, Codebook):
            return codebook
        path = Path(codebook)
        if path.suffix == ".toml":
            return Codebook.load(path)
        try:
            return Codebook.from_compiled(path.read_bytes())
        except OSError as error:
            raise InvalidParameter(f"codebook={str(path)!r} cannot be read: {error.strerror}") from error


def is_expired(metric: Metric, now: float) -> bool:
    """Whether the metric's `expires` day has begun (UTC): it is not reported on that day."""
    return metric.expires is not None and metric.expires <= datetime.fromtimestamp(now, UTC).date()
