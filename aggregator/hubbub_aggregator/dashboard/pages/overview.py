"""The overview: every metric as a card, found by name or owner, or what to do until one has a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.errors import InvalidParameter, did_you_mean
from hubbub.period import Calendar
from hubbub.sdk_snippet import sdk_snippet
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.pages.page_context import Site, seconds_of, start_of

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub_aggregator.dashboard.pages.cards import Cards, Drawn
    from hubbub_aggregator.models.metrics import MetricList, NamedMetric
    from hubbub_aggregator.operations.status import FullStatus

__all__ = ["Card", "Finder", "Group", "Overview", "Steps", "first_steps", "overview"]

_ON_A_PAGE = 60
_WORTH_FINDING = 7
"""From this many metrics on, there is a search."""
_NAMES = ("q", "group", "page")
_NO_ADDRESS = "https://your-shuffler.example"
_NOBODY = "No owner"
_PAST = "No longer collected"


@dataclass(frozen=True, slots=True)
class Finder:
    """Which cards are asked for; all of them, by default."""

    words: str = ""
    by_owner: bool = False
    page: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Finder:
        """From the parameters of an address. Unknown ones are refused."""
        for name in given:
            if name not in _NAMES:
                hint = did_you_mean(name[:50], _NAMES) or f"known: {', '.join(_NAMES)}"
                raise InvalidParameter(f"{name[:50]!r} is not a parameter here: {hint}")
        page = given.get("page") or "1"
        if not (page.isascii() and page.isdigit() and 1 <= int(page[:9]) <= 10_000):
            raise InvalidParameter(f"page: a number from 1 to 10000, got {page[:50]!r}")
        if given.get("group", "") not in ("", "owner"):
            raise InvalidParameter("group: use owner, or leave it out")
        return cls(given.get("q", "").strip()[:100], given.get("group") == "owner", int(page))

    def finds(self, metric: NamedMetric, owner: str) -> bool:
        text = f"{metric.name} {owner} {metric.description}".casefold()
        return all(word in text for word in self.words.casefold().split())

    def query(self, page: int = 1) -> dict[str, object]:
        return {
            "q": self.words or None,
            "group": "owner" if self.by_owner else None,
            "page": page if page > 1 else None,
        }


@dataclass(frozen=True, slots=True)
class Card:
    metric: NamedMetric
    owner: str
    drawn: Drawn | None
    fresh: str
    is_old: bool
    missing: str = ""
    """Why there is nothing to show, if there is not."""
    is_pending: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Cards of one owner; of all, without a title."""

    title: str
    cards: list[Card]


@dataclass(frozen=True, slots=True)
class Steps:
    """What a newcomer does next."""

    shuffler: str | None
    snippet: str
    """An app for this codebook, in Python."""
    javascript: str
    """The same for a web page."""
    period: str
    closes: str
    length: str
    least: list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Overview:
    collection: str
    groups: list[Group]
    steps: Steps | None
    single_operator: bool
    now: float
    length: str
    finder: Finder
    has_finder: bool
    has_owners: bool
    found: int
    total: int
    compared: int
    """Cards whose change is judged together."""
    pages: list[tuple[int, str]]
    """Number and address of each page, if there are several."""

    @property
    def cards(self) -> list[Card]:
        return [card for group in self.groups for card in group.cards]


async def overview(site: Site, cards: Cards, finder: Finder | None = None) -> Overview:
    """All cards. While nothing is released, this asks for the list, the status and the bundle, and for nothing else."""
    listing, status, codebook = await site.listing(), await site.status(), await site.codebook()
    calendar, now, finder = Calendar.parse(listing.period), seconds_of(status), finder or Finder()
    with_releases = [one for one in listing.metrics if any(version.released_periods for version in one.versions)]
    drawn = await cards.drawn(site, with_releases, calendar, status.batches["accepted"])
    pending = {metric.name for metric in with_releases} - drawn.keys()
    owners = {metric.name: metric.owner for metric in codebook.metrics}
    found = [one for one in listing.metrics if finder.finds(one, owners.get(one.name, ""))]
    if finder.by_owner:
        found.sort(key=lambda one: _place(one, owners))
    last = max(1, -(-len(found) // _ON_A_PAGE))
    number = 1 if site.links.in_one_file else min(finder.page, last)
    size = len(found) if site.links.in_one_file else _ON_A_PAGE
    shown = [
        _card(
            one,
            owners.get(one.name, ""),
            drawn.get(one.name),
            calendar,
            now,
            is_pending=one.name in pending,
        )
        for one in found[(number - 1) * size : number * size]
    ]
    return Overview(
        collection=listing.collection,
        groups=_groups(shown, owners) if finder.by_owner else [Group("", shown)],
        steps=None if with_releases else first_steps(codebook, status, listing),
        single_operator=status.single_operator,
        now=now,
        length=formatting.length(listing.period),
        finder=finder,
        has_finder=len(listing.metrics) >= _WORTH_FINDING or bool(finder.words) or finder.by_owner,
        has_owners=any(owners.values()),
        found=len(found),
        total=len(listing.metrics),
        compared=len(with_releases),
        pages=[(page, site.links.page("overview", **finder.query(page))) for page in range(1, last + 1)]
        if last > 1 and not site.links.in_one_file
        else [],
    )


def _place(metric: NamedMetric, owners: Mapping[str, str]) -> tuple[int, str]:
    """Owners by name, then what has no owner, then what is no longer collected."""
    if metric.name not in owners:
        return 2, ""
    return (0, owners[metric.name].casefold()) if owners[metric.name] else (1, "")


def _groups(cards: Sequence[Card], owners: Mapping[str, str]) -> list[Group]:
    found: dict[str, list[Card]] = {}
    for card in cards:
        title = (card.owner or _NOBODY) if card.metric.name in owners else _PAST
        found.setdefault(title, []).append(card)
    return [Group(title, inside) for title, inside in found.items()]


def first_steps(codebook: Codebook, status: FullStatus, listing: MetricList) -> Steps:
    """The snippet for this codebook, and when its first numbers can come."""
    collection = codebook.collection
    period = collection.calendar.at(seconds_of(status))
    address = status.shuffler_address or _NO_ADDRESS
    return Steps(
        shuffler=status.shuffler_address,
        snippet=sdk_snippet(codebook, address, status.trust_anchor),
        javascript=sdk_snippet(codebook, address, status.trust_anchor, "JavaScript"),
        period=period.label,
        closes=formatting.moment(period.closes_at(collection.grace)),
        length=formatting.a_period(listing.period),
        least=[
            (metric.name, newest.min_batch)
            for metric in listing.metrics
            if metric.in_force and (newest := metric.versions[-1]).enabled and newest.min_batch is not None
        ],
    )


def _card(
    metric: NamedMetric,
    owner: str,
    drawn: Drawn | None,
    calendar: Calendar,
    now: float,
    *,
    is_pending: bool,
) -> Card:
    if drawn is None:
        off = not metric.in_force or not metric.versions[-1].enabled
        why = "No longer collected." if off else "Nothing released yet."
        if is_pending:
            why = "Being computed: it appears here by itself, or when you reload."
        return Card(metric, owner, None, "", is_old=False, missing=why, is_pending=is_pending)
    age = now - (start_of(calendar, drawn.period) + calendar.seconds)
    return Card(
        metric=metric,
        owner=owner,
        drawn=drawn,
        fresh=_age(age, calendar),
        is_old=age > 4 * calendar.seconds and metric.in_force,
    )


def _age(age: float, calendar: Calendar) -> str:
    if age >= 0:
        return f"ended {formatting.ago(age)}"
    return "still running" if age >= -calendar.seconds else "still to come, by this clock"
