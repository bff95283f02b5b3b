"""What is collected, for the people whose devices report: made from the codebook, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.period import duration_text
from hubbub_aggregator.dashboard import formatting

if TYPE_CHECKING:
    from hubbub.codebook import Codebook, Metric
    from hubbub_aggregator.dashboard.pages.page_context import Site

__all__ = ["Collected", "CollectedPage", "collected_page", "of_codebook"]

_SHOWN = 12
_MOST = 1_000


@dataclass(frozen=True, slots=True)
class Collected:
    """One metric in words."""

    name: str
    description: str
    what: str
    values: list[str]
    more: list[str]
    rest: int
    often: str
    hiding: str
    odds: str
    epsilon: str
    missing: str | None
    share: str | None
    owner: str
    expires: str | None
    enabled: bool
    public: bool


@dataclass(frozen=True, slots=True)
class CollectedPage:
    collection: str
    metrics: list[Collected]
    off: list[str]
    length: str
    often: str
    within: str
    device_epsilon: str


async def collected_page(site: Site) -> CollectedPage:
    """From the bundle, which every device gets anyway: nothing on this page needs a token."""
    return of_codebook(await site.codebook())


def of_codebook(codebook: Codebook) -> CollectedPage:
    length = duration_text(codebook.collection.calendar.seconds)
    return CollectedPage(
        collection=codebook.collection.name,
        metrics=[_collected(metric, length) for metric in codebook.in_file_order if metric.enabled],
        off=[metric.name for metric in codebook.in_file_order if not metric.enabled],
        length=formatting.length(length),
        often=formatting.every(length),
        within=formatting.within(length),
        device_epsilon=formatting.epsilon(float(codebook.collection.device_epsilon)),
    )


def _collected(metric: Metric, length: str) -> Collected:
    labels = list(metric.values.listed())
    share = float(metric.share)
    return Collected(
        name=metric.name,
        description=metric.description,
        what=metric.values.to_the_person(),
        values=labels[:_SHOWN],
        more=labels[_SHOWN:_MOST],
        rest=max(0, len(labels) - _MOST),
        often=f"At most {formatting.every(length)}, {metric.reducer.to_the_person}.",
        hiding=metric.mechanism.in_words(),
        odds=formatting.odds(float(metric.epsilon)),
        epsilon=formatting.epsilon(float(metric.epsilon)),
        missing=None if metric.missing is None else metric.values.in_words(metric.missing),
        share=None if share == 1 else formatting.share(share, 0 if share >= 0.01 else 2),
        owner=metric.owner,
        expires=metric.expires.isoformat() if metric.expires else None,
        enabled=metric.enabled,
        public=metric.public,
    )
