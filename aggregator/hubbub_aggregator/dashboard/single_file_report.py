"""The dashboard as one file: all pages one below the other, with the style inside and nothing to fetch."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Collection

from hubbub_aggregator.dashboard.api_client import Api, Kept, Problem, Send
from hubbub_aggregator.dashboard.pages.cards import Cards
from hubbub_aggregator.dashboard.pages.metric import metric_page
from hubbub_aggregator.dashboard.pages.operations import operations_page
from hubbub_aggregator.dashboard.pages.overview import overview
from hubbub_aggregator.dashboard.pages.page_context import Links, Site
from hubbub_aggregator.dashboard.pages.privacy import ask_ledger, privacy_page
from hubbub_aggregator.dashboard.pages.url_parameters import Asked
from hubbub_aggregator.dashboard.pages.what_is_collected import collected_page
from hubbub_aggregator.dashboard.templates_and_assets import render, style
from hubbub_aggregator.dashboard.vega_render import Drawer

__all__ = ["report"]


async def report(send: Send, authorization: str | None, say: Callable[[str], None], only: Collection[str] = ()) -> str:
    """The HTML, from an aggregator that `send` reaches. `say` is called with what is being asked for.

    `only` names the metrics that get their own section; all of them if it is empty.
    """
    site = Site(Api(send, Kept(), authorization), Drawer(), Links(in_one_file=True))
    listing, status = await site.listing(), await site.status()
    names = [metric.name for metric in listing.metrics]
    if unknown := sorted(set(only) - set(names)):
        raise Problem(404, "not-found", "There is no such metric.", f"{unknown[0]} is not one of {', '.join(names)}.")
    say("overview")
    front = await overview(site, Cards(patience=None))
    metrics = []
    for name in names:
        if not only or name in only:
            say(f"metric {name}")
            metrics.append(await metric_page(site, name, Asked()))
    say("privacy: composing the ledger may take a while")
    privacy = await privacy_page(site, ask_ledger, None)
    say("operations")
    operations = await operations_page(site)
    collected = await collected_page(site)
    css = style()
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return await asyncio.to_thread(
        render,
        "report.html",
        page="report",
        in_one_file=True,
        links=site.links,
        one_party=status.single_operator,
        style=css,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        made=status.time.replace("T", " ").replace("Z", " UTC"),
        collection=listing.collection,
        parts={
            "overview": front,
            "metrics": metrics,
            "privacy": privacy,
            "operations": operations,
            "collected": collected,
        },
    )
