"""Routes of the dashboard: pages, charts and static files, under a policy that lets nothing in from elsewhere."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeAlias

from fastapi import APIRouter, Request, Response

from hubbub.errors import InvalidParameter
from hubbub_aggregator.dashboard.api_client import Api, Kept, Problem, in_process
from hubbub_aggregator.dashboard.chart_style import Spec
from hubbub_aggregator.dashboard.charts.drawn import Chart
from hubbub_aggregator.dashboard.error_picture import error_svg
from hubbub_aggregator.dashboard.pages.api_routes import api_routes
from hubbub_aggregator.dashboard.pages.cards import Cards
from hubbub_aggregator.dashboard.pages.metric import metric_page
from hubbub_aggregator.dashboard.pages.metric_questions import compare_chart, estimate_chart, series_chart
from hubbub_aggregator.dashboard.pages.operations import operations_page
from hubbub_aggregator.dashboard.pages.overview import Finder, overview
from hubbub_aggregator.dashboard.pages.page_context import Site
from hubbub_aggregator.dashboard.pages.privacy import (
    ask_ledger,
    epsilon_spec,
    ledger_spec,
    posterior_spec,
    privacy_page,
)
from hubbub_aggregator.dashboard.pages.privacy_guesses import trade_off_svg
from hubbub_aggregator.dashboard.pages.public import PublicViews
from hubbub_aggregator.dashboard.pages.url_parameters import Asked
from hubbub_aggregator.dashboard.pages.what_is_collected import collected_page
from hubbub_aggregator.dashboard.palette import Theme, themed
from hubbub_aggregator.dashboard.response_headers import HEADERS, public_headers
from hubbub_aggregator.dashboard.svg_canvas import FILE_WIDTH
from hubbub_aggregator.dashboard.templates_and_assets import asset, asset_hash, render
from hubbub_aggregator.dashboard.vega_render import Busy, Drawer, to_png
from hubbub_aggregator.models.ledger import LedgerAnswer
from hubbub_service_common.http.entity_tags import is_known

__all__ = ["HEADERS", "Dashboard", "attach", "missing"]

_PATIENCE = 3.0
"""Seconds that a page waits for the ledger. After that it says that the ledger is being computed, and adds it later."""
_SMALLEST_ZIPPED = 600

_BUSY = Problem(503, "busy", "Too many charts are being drawn.", "Try again in a few seconds.")

Handler: TypeAlias = Callable[..., Awaitable[Response]]
_COUNT = re.compile("[0-9]{1,3}")


class Dashboard:
    """What pages share between requests: answers, drawings and cards, each of bounded size."""

    def __init__(
        self,
        app: Callable[..., Awaitable[None]],
        own_question: Mapping[str, object] | None = None,
        public_frames: Callable[[], tuple[str, ...]] = tuple,
        *,
        is_patient: bool = False,
    ) -> None:
        """`is_patient`: wait for every number, however long it takes. `own_question`: see `in_process`.

        `public_frames` gives the origins whose pages may show the public view in a frame.
        """
        self._send = in_process(app)
        self._own_send = in_process(app, own_question or {})
        self._kept, self._drawer = Kept(), Drawer()
        self._patience = None if is_patient else _PATIENCE
        self.cards = Cards(None) if is_patient else Cards()
        self.public, self.public_frames = PublicViews(), public_frames
        self._ledger: asyncio.Task[LedgerAnswer] | None = None

    def site(self, request: Request) -> Site:
        return Site(Api(self._send, self._kept, request.headers.get("authorization")), self._drawer)

    def own_site(self) -> Site:
        """What the process asks for itself, without a caller: it needs no token."""
        return Site(Api(self._own_send, self._kept), self._drawer)

    async def draw_ahead(self) -> None:
        """Draw the cards of the overview after a release, before anyone looks at them."""
        await overview(self.own_site(), self.cards)

    async def ledger(self, site: Site) -> LedgerAnswer | None:
        """The ledger; None while it is still being computed. All callers share one computation, which goes on."""
        await site.listing()  # refuses a caller who may not ask, before it shares what another caller asked for
        if self._ledger is None or self._ledger.done():
            self._ledger = asyncio.create_task(ask_ledger(site))
        try:
            return await asyncio.wait_for(asyncio.shield(self._ledger), self._patience)
        except TimeoutError:
            return None


def attach(
    app: Any, own_question: Mapping[str, object] | None = None, public_frames: Callable[[], tuple[str, ...]] = tuple
) -> Dashboard:
    """Serve the dashboard from an app that has the public API."""
    app.state.dashboard = Dashboard(app, own_question, public_frames)
    app.include_router(router)
    return _dashboard_of(app)


router = APIRouter(include_in_schema=False)
_get = partial(router.api_route, methods=["GET", "HEAD"])


def page(name: str) -> Callable[[Handler], Handler]:
    """Let a handler answer its problems with a page that says what to do."""

    def wrap(handler: Handler) -> Handler:
        @wraps(handler)
        async def answer(request: Request, **given: Any) -> Response:
            try:
                return await handler(request, **given)
            except Problem as problem:
                return _problem(request, problem, name)
            except Busy:
                return _problem(request, _BUSY, name)
            except InvalidParameter as error:
                return _problem(request, Problem(422, "invalid-query", "This can't be shown.", str(error)), name)

        return answer

    return wrap


def _dashboard_of(app: Any) -> Dashboard:
    found: Dashboard = app.state.dashboard
    return found


def _dashboard(request: Request) -> Dashboard:
    return _dashboard_of(request.app)


def missing(request: Request) -> Response | None:
    """A page for a browser that asks for something that is not there. Programs get their problem document."""
    if "text/html" not in request.headers.get("accept", "") or request.url.path.startswith("/v1/"):
        return None
    return _problem(request, Problem(404, "not-found", "There is no such page.", "The pages are linked above."), "none")


def _problem(request: Request, problem: Problem, name: str) -> Response:
    html = render("problem.html", page=name, problem=problem, in_one_file=False)
    headers = {"WWW-Authenticate": 'Basic realm="hubbub", charset="UTF-8"'} if problem.status == 401 else {}
    if problem.status == 503:
        headers["Retry-After"] = "5"
    return _respond(request, html.encode(), "text/html; charset=utf-8", problem.status, headers)


async def _page(request: Request, site: Site, template: str, name: str, **shown: Any) -> Response:
    """One page. `/what-is-collected` and `/docs` are open to everyone, so they ask for nothing that needs the token."""
    one_party = name not in ("collected", "api") and (await site.status()).single_operator
    shown |= {"page": name, "in_one_file": False, "links": site.links, "one_party": one_party}
    html = await asyncio.to_thread(partial(render, template, **shown))
    return _respond(request, html.encode(), "text/html; charset=utf-8")


def _respond(
    request: Request, body: bytes, media_type: str, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Respond with a tag of the content, so that polling costs nothing while nothing changes, and compressed."""
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


@_get("/")
@page("overview")
async def show_overview(request: Request) -> Response:
    dashboard = _dashboard(request)
    site = dashboard.site(request)
    found = await overview(site, dashboard.cards, Finder.of(request.query_params))
    return await _page(request, site, "overview.html", "overview", view=found)


@_get("/metric/{name}")
@page("metric")
async def show_metric(request: Request, name: str) -> Response:
    site = _dashboard(request).site(request)
    found = await metric_page(site, name, Asked.of(request.query_params))
    return await _page(request, site, "metric.html", "metric", view=found)


@_get("/privacy")
@page("privacy")
async def show_privacy(request: Request) -> Response:
    dashboard = _dashboard(request)
    site = dashboard.site(request)
    found = await privacy_page(site, dashboard.ledger, request.query_params.get("metric") or None)
    return await _page(request, site, "privacy.html", "privacy", view=found)


@_get("/operations")
@page("operations")
async def show_operations(request: Request) -> Response:
    site = _dashboard(request).site(request)
    return await _page(request, site, "operations.html", "operations", view=await operations_page(site))


@_get("/what-is-collected")
@page("collected")
async def show_collected(request: Request) -> Response:
    """Open to everyone: it is made only from the bundle, which every device gets."""
    site = _dashboard(request).site(request)
    return await _page(request, site, "collected.html", "collected", view=await collected_page(site))


@_get("/docs")
@page("api")
async def show_api(request: Request) -> Response:
    """Open to everyone, as the OpenAPI document is, and says nothing of what is collected."""
    site = _dashboard(request).site(request)
    return await _page(request, site, "api.html", "api", view=api_routes(request.app.openapi()))


@_get("/chart/{kind}/{name}.{form}")
@page("chart")
async def show_chart(request: Request, kind: str, name: str, form: str) -> Response:
    """A chart as a file: SVG, or PNG at twice the size, light or, with `theme=dark`, dark."""
    site, given = _dashboard(request).site(request), request.query_params
    asked = Asked.of(given, also=("part", "theme"))
    part, theme = given.get("part", "0"), given.get("theme", "light")
    made: dict[str, Callable[[], Awaitable[Chart | Spec]]] = {
        "estimate": lambda: estimate_chart(site, name, asked, int(part)),
        "series": lambda: series_chart(site, name, asked),
        "compare": lambda: compare_chart(site, name, asked),
        "epsilon": lambda: epsilon_spec(site, name),
        "posterior": lambda: posterior_spec(site, name),
        "ledger": lambda: ledger_spec(site),
    }
    if (
        kind not in (*made, "tradeoff", "error")
        or form not in ("svg", "png")
        or theme not in ("light", "dark")
        or not _COUNT.fullmatch(part)
    ):
        raise Problem(404, "not-found", "There is no such chart.", "The pages link to all charts.")
    if kind == "tradeoff":
        svg = await trade_off_svg(site, name)
    elif kind == "error":
        svg = await error_svg(site, name)
    else:
        chart = await made[kind]()
        if isinstance(chart, dict):
            svg = await site.drawer.run(site.drawer.svg, chart)
        else:
            svg = await site.drawer.run(chart.svg, FILE_WIDTH)
    saved = {"Content-Disposition": f'inline; filename="{_tame(name)}-{kind}.{form}"'}
    chosen: Theme = "dark" if theme == "dark" else "light"
    if form == "png":
        return _respond(request, await site.drawer.run(to_png, svg, chosen), "image/png", headers=saved)
    return _respond(request, themed(svg, chosen).encode(), "image/svg+xml", headers=saved)


@_get("/public/{name}.svg")
@page("public")
async def show_public_picture(request: Request, name: str) -> Response:
    """The same as a picture, which any page may use: light, or dark with `theme=dark`."""
    dashboard, theme = _dashboard(request), request.query_params.get("theme", "light")
    if theme not in ("light", "dark"):
        raise InvalidParameter("theme: use light or dark")
    found = await dashboard.public.view(dashboard.own_site(), name)
    svg = themed(found.picture, "dark" if theme == "dark" else "light")
    return _respond(request, svg.encode(), "image/svg+xml", headers=public_headers(dashboard.public_frames()))


@_get("/public/{name}")
@page("public")
async def show_public(request: Request, name: str) -> Response:
    """Open to everyone, if the codebook says `public = true`: what is released under one name."""
    dashboard = _dashboard(request)
    found = await dashboard.public.view(dashboard.own_site(), name)
    return _respond(request, found.html, "text/html; charset=utf-8", headers=public_headers(dashboard.public_frames()))


@_get("/static/{version}/{name}")
async def show_static(request: Request, version: str, name: str) -> Response:
    """Browsers may keep these files for good: changed content has another address."""
    found = asset(name)
    if found is None or version != asset_hash():
        return _problem(request, Problem(404, "not-found", "There is no such file.", "Reload the page."), "chart")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return _respond(request, found[0], f"{found[1]}; charset=utf-8", headers=headers)


def _tame(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)
