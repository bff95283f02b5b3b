"""URL parameters of a metric's page, and the other addresses that the page offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter, did_you_mean
from hubbub.period import DAY, Calendar

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.page_context import Links
    from hubbub_aggregator.models.metrics import NamedMetric

__all__ = ["STEPS", "Asked", "Choice", "Span", "can_be_listed", "comparisons", "orders", "ranges", "span_of"]

STEPS = (20, 100, 500, 1000)
"""How many values may be listed; the CSV has all."""
_PROCESSED = ("none", "norm_sub", "base_cut", "clip", "projected")
_NAMES = ("from", "to", "confidence", "postprocess", "compare_from", "compare_to", "top", "order")
_LISTABLE = STEPS[-1]
"""Up to this many values can be shown in the codebook's order: more are only known by size."""

_PRESETS = (7, 30, 90)

Span = tuple[int, int]
"""Index of the first and of the last period with a release."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A link that leads to another view."""

    label: str
    address: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """The question; None for what the address does not say."""

    since: str | None = None
    until: str | None = None
    confidence: float = 0.95
    postprocess: str = "none"
    compare_from: str | None = None
    compare_to: str | None = None
    top: int | None = None
    order: str = "size"

    @classmethod
    def of(cls, given: Mapping[str, str], also: tuple[str, ...] = ()) -> Asked:
        """From the parameters of an address. Empty ones count as not given, and unknown ones are refused."""
        for name in given:
            if name not in (*_NAMES, *also):
                hint = did_you_mean(name[:50], _NAMES) or f"known: {', '.join(_NAMES)}"
                raise InvalidParameter(f"{name[:50]!r} is not a parameter here: {hint}")
        known = {name: text[:64] for name, text in given.items() if text}
        processed = known.get("postprocess", "none")
        if processed not in _PROCESSED:
            raise InvalidParameter(f"postprocess: use one of {', '.join(_PROCESSED)}")
        order = known.get("order", "size")
        if order not in ("size", "codebook"):
            raise InvalidParameter("order: use size or codebook")
        return cls(
            _zoned(known.get("from")),
            _zoned(known.get("to")),
            _number(known.get("confidence", "0.95"), "confidence", 0.01, 0.999_999_999),
            processed,
            _zoned(known.get("compare_from")),
            _zoned(known.get("compare_to")),
            int(_number(known["top"], "top", 1, 65_536)) if "top" in known else None,
            order,
        )

    def query(self) -> dict[str, object]:
        """As parameters of an address, without those that have their default."""
        return {
            "since": self.since,
            "to": self.until,
            "confidence": None if self.confidence == 0.95 else self.confidence,
            "postprocess": None if self.postprocess == "none" else self.postprocess,
            "compare_from": self.compare_from,
            "compare_to": self.compare_to,
            "top": self.top,
            "order": None if self.order == "size" else self.order,
        }

    def within(self, calendar: Calendar, span: Span) -> Asked:
        """The question with its range filled in: the newest period, unless something else is asked for."""
        if self.since is None and self.until is None:
            return replace(self, since=calendar.period(span[1]).label, until=calendar.period(span[1] + 1).label)
        return replace(
            self,
            since=self.since or calendar.period(span[0]).label,
            until=self.until or calendar.period(span[1] + 1).label,
        )

    def listed(self, metric: NamedMetric) -> int | None:
        """How many values to ask for; None: all of a short list, and all that run along axes."""
        if any(version.axes for version in metric.versions):
            return None  # a curve or a grid with holes would mislead
        if self.order == "codebook" and can_be_listed(metric):
            return None
        return self.most(metric)

    def most(self, metric: NamedMetric) -> int | None:
        """How many values to show; None: all of them."""
        if self.top is not None:
            return min(self.top, STEPS[-1])
        return STEPS[0] if max(version.value_count for version in metric.versions) > STEPS[0] else None


def can_be_listed(metric: NamedMetric) -> bool:
    """Whether its values may be shown in the codebook's order, rather than by size."""
    return metric.versions[-1].order == "size" and all(
        not version.axes and version.value_count <= _LISTABLE for version in metric.versions
    )


def span_of(metric: NamedMetric, calendar: Calendar) -> Span | None:
    """From the first to the last release under this name; None if there is none."""
    firsts = [calendar.boundary(version.first) for version in metric.versions if version.first]
    lasts = [calendar.boundary(version.last) for version in metric.versions if version.last]
    return (min(firsts), max(lasts)) if firsts else None


def ranges(links: Links, name: str, asked: Asked, calendar: Calendar, span: Span) -> list[Choice]:
    """Ranges that end with the newest release."""
    last, noun = span[1], "days" if calendar.seconds == DAY else "periods"
    found = []
    presets = [(f"last {size} {noun}", last - size + 1) for size in _PRESETS]
    for label, first in (("newest", last), *presets, ("all", span[0])):
        if first < span[0] or (label == "all" and span[0] == last):
            continue
        since, until = calendar.period(first).label, calendar.period(last + 1).label
        chosen = replace(asked, since=since, until=until, compare_from=None, compare_to=None)
        is_current = (asked.since, asked.until) == (since, until)
        found.append(Choice(label, links.metric(name, **chosen.query()), is_current))
    return found


def comparisons(links: Links, name: str, asked: Asked, calendar: Calendar, span: Span) -> list[Choice]:
    """Ranges to compare with: the one of the same length just before, and the first of that length."""
    try:
        chosen = calendar.range(asked.since or "", asked.until or "")
    except InvalidParameter:  # the page reports a wrong range where it uses it
        return []
    size = len(chosen)
    found: dict[str, int] = {}
    if chosen.start - size >= span[0]:
        found["the one before" if size == 1 else f"the {size} before"] = chosen.start - size
    if span[0] + size <= chosen.start - size:
        found["the first one" if size == 1 else f"the first {size}"] = span[0]
    choices = []
    for label, start in found.items():
        a = (calendar.period(start).label, calendar.period(start + size).label)
        address = links.metric(name, **replace(asked, compare_from=a[0], compare_to=a[1]).query())
        choices.append(Choice(label, address, (asked.compare_from, asked.compare_to) == a))
    return choices


def orders(links: Links, name: str, asked: Asked) -> list[Choice]:
    """By size, or as the codebook lists the values."""
    return [
        Choice(words, links.metric(name, **replace(asked, order=order).query()) + "#values", asked.order == order)
        for order, words in (("size", "by size"), ("codebook", "as in the codebook"))
    ]


def _zoned(text: str | None) -> str | None:
    """A date picker gives a time without its zone. All times here are UTC."""
    if text is None or "T" not in text:
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text  # refused where it is used, as it was written
    return f"{when:%Y-%m-%dT%H:%M:%S}Z" if when.tzinfo is None else text


def _number(text: str, name: str, least: float, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise InvalidParameter(f"{name}: a number from {least:g} to {most:.9g}, got {text!r}")
    return number
