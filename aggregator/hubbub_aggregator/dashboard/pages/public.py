"""The public view of a metric: one page and one picture without a token, if its codebook says `public = true`.

It shows what is released under the name, whatever the query of the address says: so it is drawn once for each release,
and many readers cost no more than one. A metric that is not public and one that does not exist look the same.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hubbub.shortening import shortened
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.api_client import Problem
from hubbub_aggregator.dashboard.pages.metric import metric_page
from hubbub_aggregator.dashboard.pages.metric_questions import series_chart
from hubbub_aggregator.dashboard.pages.page_context import Links, Site, named
from hubbub_aggregator.dashboard.pages.url_parameters import Asked
from hubbub_aggregator.dashboard.palette import INK, MUTED
from hubbub_aggregator.dashboard.svg_canvas import FILE_WIDTH, Canvas
from hubbub_aggregator.dashboard.templates_and_assets import render

if TYPE_CHECKING:
    from hubbub_aggregator.dashboard.pages.metric import MetricPage, Part

__all__ = ["PublicView", "PublicViews", "is_public"]

_MOST = 64
"""Most views that are kept."""
_HEAD, _FOOT = 104, 36
"""Pixels above the chart of a picture, and below."""
_LETTERS = 60


@dataclass(frozen=True, slots=True)
class PublicView:
    html: bytes
    picture: str
    """SVG in the light colours."""


class PublicViews:
    """Views by name, each kept until something is released, switched off or published."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[object, PublicView]] = OrderedDict()
        self._drawing = asyncio.Lock()

    async def view(self, site: Site, name: str) -> PublicView:
        """The view, or the Problem that there is no such page."""
        if not await is_public(site, name):
            raise Problem(404, "not-found", "There is no such page.", "No metric of this name is public.")
        basis = await _basis(site, name)
        async with self._drawing:  # one at a time: readers who come together wait for the same drawing
            kept = self._kept.get(name)
            if kept is None or kept[0] != basis:
                kept = (basis, await _drawn(site, name))
                self._kept[name] = kept
            self._kept.move_to_end(name)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return kept[1]


async def is_public(site: Site, name: str) -> bool:
    """Whether the newest codebook says so."""
    return any(metric.name == name and metric.public for metric in (await site.codebook()).metrics)


async def _basis(site: Site, name: str) -> object:
    """What the view is made from: it changes with a release and with the codebook."""
    listing, status, codebook = await site.listing(), await site.status(), await site.codebook()
    metric = named(listing, name)
    return metric, listing.collection, status.batches["accepted"], status.single_operator, codebook.id


async def _drawn(site: Site, name: str) -> PublicView:
    site = replace(site, links=Links(in_one_file=True))  # nothing on it leads to a page that needs a token
    page = await metric_page(site, name, Asked())
    status = await site.status()
    html = await asyncio.to_thread(
        partial(render, "public.html", page="public", in_one_file=False, view=page, is_public=True, one_party=False)
    )
    chart = "" if page.course is None else (await series_chart(site, name, Asked())).svg(FILE_WIDTH)
    return PublicView(html.encode(), _picture(page, chart, is_single=status.single_operator))


def _picture(page: MetricPage, chart: str, *, is_single: bool) -> str:
    """The number, the series below it and what it cost, as one picture that explains itself."""
    part = page.parts[-1] if page.parts else None
    wide = FILE_WIDTH + 120
    canvas = Canvas(_HEAD + _tall(chart) + _FOOT, wide, left=16, right=16)
    canvas.text(0, 18, shortened(page.metric.name, _LETTERS), font_size="18", font_weight="700")
    canvas.text(0, 38, shortened(page.metric.description, 2 * _LETTERS), color=MUTED)
    if part is None:
        canvas.text(0, 76, "Nothing has been released yet.", color=MUTED)
        return canvas.svg()
    canvas.text(0, 80, part.headline, font_size="34", font_weight="700")
    aside = f"{part.named}, {part.limits} with {formatting.share(part.segment.interval.confidence, 0)} confidence"
    canvas.text(0, 80, f"{aside}, {part.when}", dx=str(24 + 21 * len(part.headline)), color=MUTED)
    canvas.add(chart.replace("<svg ", f'<svg y="{_HEAD}" x="-8" ', 1))
    canvas.text(0, _HEAD + _tall(chart) + 20, _cost(part, is_single=is_single), color=INK)
    return canvas.svg()


def _tall(chart: str) -> float:
    return float(chart.partition(' height="')[2].partition('"')[0]) if chart else 0.0


def _cost(part: Part, *, is_single: bool) -> str:
    privacy = part.segment.privacy
    released, local = formatting.epsilon(privacy.epsilon), formatting.epsilon(privacy.if_collusion.epsilon)
    whom = "only if two parties run it" if is_single else "with an honest shuffler"
    return f"Every device randomized its answer. ε {released} {whom}, ε {local} whatever the services do."
