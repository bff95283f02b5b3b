"""The dashboard's own addresses: pages, charts and two static files, under a policy that lets nothing in."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import APIRouter, Query, Request, Response

from hubbub.problems import InvalidParameter
from hubbub_aggregator.answers import LedgerAnswer
from hubbub_aggregator.dashboard.api import Api, Kept, Problem, in_process
from hubbub_aggregator.dashboard.drawing import Drawer, to_png
from hubbub_aggregator.dashboard.pages.collected import collected_page
from hubbub_aggregator.dashboard.pages.metric import Asked, compare_spec, estimate_spec, metric_page, series_spec
from hubbub_aggregator.dashboard.pages.operations import operations_page
from hubbub_aggregator.dashboard.pages.overview import Cards, overview
from hubbub_aggregator.dashboard.pages.privacy import (
    ask_ledger,
    epsilon_spec,
    ledger_spec,
    posterior_spec,
    privacy_page,
)
from hubbub_aggregator.dashboard.pages.site import Site
from hubbub_aggregator.dashboard.palette import themed
from hubbub_aggregator.dashboard.rendering import asset, asset_hash, render
from hubbub_aggregator.etags import is_known

__all__ = ["HEADERS", "Dashboard", "attach"]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "interest-cohort=()",
}
_PATIENCE = 3.0
"""Seconds that a page waits for the ledger; then it says that it is being worked out, and fills in by itself."""
_SMALLEST_ZIPPED = 600

Handler: TypeAlias = Callable[..., Awaitable[Response]]
_Text: TypeAlias = Annotated[str | None, Query(max_length=64)]
_Theme: TypeAlias = Literal["light", "dark"]


class Dashboard:
    """What pages share between requests: answers, drawings and cards, each of bounded size."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._send = in_process(app)
        self._kept, self._drawer = Kept(), Drawer()
        self.cards = Cards()
        self._ledger: asyncio.Task[LedgerAnswer] | None = None

    def site(self, request: Request) -> Site:
        return Site(Api(self._send, self._kept, request.headers.get("authorization")), self._drawer)

    async def ledger(self, site: Site) -> LedgerAnswer | None:
        """None if it is still being worked out: that goes on, once for all who ask."""
        await site.listing()  # refuses who may not ask, before anything that somebody else has asked for is shared
        if self._ledger is None or self._ledger.done():
            self._ledger = asyncio.create_task(ask_ledger(site))
        try:
            return await asyncio.wait_for(asyncio.shield(self._ledger), _PATIENCE)
        except TimeoutError:
            return None


def attach(app: Any) -> None:
    """Serve the dashboard from an app that has the public API."""
    app.state.dashboard = Dashboard(app)
    app.include_router(router)


router = APIRouter(include_in_schema=False)


def page(name: str) -> Callable[[Handler], Handler]:
    """A handler whose problems leave as a page that says what to do."""

    def wrap(handler: Handler) -> Handler:
        @wraps(handler)
        async def answer(request: Request, **given: Any) -> Response:
            try:
                return await handler(request, **given)
            except Problem as problem:
                return _problem(request, problem, name)
            except InvalidParameter as error:
                return _problem(request, Problem(422, "invalid-query", "This can't be shown.", str(error)), name)

        return answer

    return wrap


def _dashboard(request: Request) -> Dashboard:
    found: Dashboard = request.app.state.dashboard
    return found


def _problem(request: Request, problem: Problem, name: str) -> Response:
    html = render("problem.html", page=name, problem=problem, in_one_file=False)
    headers = {"WWW-Authenticate": 'Basic realm="hubbub", charset="UTF-8"'} if problem.status == 401 else {}
    return _respond(request, html.encode(), "text/html; charset=utf-8", problem.status, headers)


async def _page(request: Request, template: str, name: str, **shown: Any) -> Response:
    html = await asyncio.to_thread(render, template, page=name, in_one_file=False, **shown)
    return _respond(request, html.encode(), "text/html; charset=utf-8")


def _respond(
    request: Request, body: bytes, media_type: str, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """With a tag of the content, so that polling costs nothing while nothing changes, and compressed."""
    sent = {
        **HEADERS,
        "Cache-Control": "private, no-cache",
        "Vary": "Authorization, Accept-Encoding",
        **(headers or {}),
    }
    if status == 200:
        sent["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        if is_known(sent["ETag"], request.headers.get("if-none-match")):
            return Response(status_code=304, headers=sent)
    else:
        sent["Cache-Control"] = "no-store"
    worth_it = len(body) >= _SMALLEST_ZIPPED and media_type != "image/png"
    if worth_it and "gzip" in request.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 5, mtime=0)
        sent["Content-Encoding"] = "gzip"
    return Response(body, status, sent, media_type=media_type)


@router.get("/")
@page("overview")
async def show_overview(request: Request) -> Response:
    dashboard = _dashboard(request)
    site = dashboard.site(request)
    found = await overview(site, dashboard.cards)
    return await _page(request, "overview.html", "overview", view=found, links=site.links)


@router.get("/metric/{name}")
@page("metric")
async def show_metric(
    request: Request,
    name: str,
    since: Annotated[_Text, Query(alias="from")] = None,
    to: _Text = None,
    confidence: Annotated[float, Query(ge=0.01, le=0.999_999_999)] = 0.95,
    postprocess: Literal["none", "norm_sub", "base_cut", "clip"] = "none",
    compare_from: _Text = None,
    compare_to: _Text = None,
    top: Annotated[int | None, Query(ge=1, le=65_536)] = None,
) -> Response:
    site = _dashboard(request).site(request)
    asked = _asked(since, to, confidence, postprocess, compare_from, compare_to, top)
    found = await metric_page(site, name, asked)
    return await _page(request, "metric.html", "metric", view=found, links=site.links)


@router.get("/privacy")
@page("privacy")
async def show_privacy(request: Request, metric: Annotated[str | None, Query(max_length=200)] = None) -> Response:
    dashboard = _dashboard(request)
    site = dashboard.site(request)
    found = await privacy_page(site, dashboard.ledger, metric or None)
    return await _page(request, "privacy.html", "privacy", view=found, links=site.links)


@router.get("/operations")
@page("operations")
async def show_operations(request: Request) -> Response:
    site = _dashboard(request).site(request)
    return await _page(request, "operations.html", "operations", view=await operations_page(site), links=site.links)


@router.get("/what-is-collected")
@page("collected")
async def show_collected(request: Request) -> Response:
    """For everybody: it is made from the bundle alone, which every device gets."""
    site = _dashboard(request).site(request)
    return await _page(request, "collected.html", "collected", view=await collected_page(site), links=site.links)


@router.get("/chart/{kind}/{name}.{form}")
@page("chart")
async def show_chart(
    request: Request,
    kind: Literal["estimate", "series", "compare", "epsilon", "posterior", "ledger"],
    name: str,
    form: Literal["svg", "png"],
    since: Annotated[_Text, Query(alias="from")] = None,
    to: _Text = None,
    confidence: Annotated[float, Query(ge=0.01, le=0.999_999_999)] = 0.95,
    postprocess: Literal["none", "norm_sub", "base_cut", "clip"] = "none",
    compare_from: _Text = None,
    compare_to: _Text = None,
    top: Annotated[int | None, Query(ge=1, le=65_536)] = None,
    part: Annotated[int, Query(ge=0, le=1000)] = 0,
    theme: _Theme = "light",
) -> Response:
    """A chart as a file: SVG, or PNG at twice the size, light or dark."""
    site = _dashboard(request).site(request)
    asked = _asked(since, to, confidence, postprocess, compare_from, compare_to, top)
    made: dict[str, Callable[[], Awaitable[dict[str, Any]]]] = {
        "estimate": lambda: estimate_spec(site, name, asked, part),
        "series": lambda: series_spec(site, name, asked),
        "compare": lambda: compare_spec(site, name, asked),
        "epsilon": lambda: epsilon_spec(site, name),
        "posterior": lambda: posterior_spec(site, name),
        "ledger": lambda: ledger_spec(site),
    }
    svg = await asyncio.to_thread(site.drawer.svg, await made[kind]())
    saved = {"Content-Disposition": f'inline; filename="{_tame(name)}-{kind}.{form}"'}
    if form == "png":
        return _respond(request, await asyncio.to_thread(to_png, svg, theme), "image/png", headers=saved)
    return _respond(request, themed(svg, theme).encode(), "image/svg+xml", headers=saved)


@router.get("/static/{version}/{name}")
async def show_static(request: Request, version: str, name: str) -> Response:
    """Kept by browsers for good: another content has another address."""
    found = asset(name)
    if found is None or version != asset_hash():
        return _problem(request, Problem(404, "not-found", "There is no such file.", "Reload the page."), "chart")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return _respond(request, found[0], f"{found[1]}; charset=utf-8", headers=headers)


def _asked(
    since: str | None,
    until: str | None,
    confidence: float,
    postprocess: str,
    compare_from: str | None,
    compare_to: str | None,
    top: int | None,
) -> Asked:
    """With what a form left empty taken as not given."""
    return Asked(since or None, until or None, confidence, postprocess, compare_from or None, compare_to or None, top)


def _tame(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
