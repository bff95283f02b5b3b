"""The picture of what accuracy costs: standard error over the local epsilon, as `/v1/metrics/{name}/tradeoff` has it.

Three lines: the certified optimum of this crowd, the trusted server with Gaussian noise, and the local bound. The cap
and the choice are marked, and a sentence stands for each side of the trade. It is a file of its own, since the first
answer for a crowd takes seconds: no page waits for it.
"""

from __future__ import annotations

import math
from textwrap import wrap
from typing import TYPE_CHECKING

from hubbub.number_format import plain
from hubbub_aggregator.dashboard.api_client import metric_path
from hubbub_aggregator.dashboard.palette import GRID, INK, LINES, MUTED
from hubbub_aggregator.dashboard.svg_canvas import Canvas
from hubbub_aggregator.models.tradeoff import TradeoffAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hubbub_aggregator.dashboard.pages.page_context import Site

__all__ = ["error_svg", "picture"]

_WIDTH, _TOP, _FOOT = 560, 18, 250
_LETTERS, _LINE = 84, 17
_STEPS = (1, 2, 5)


async def error_svg(site: Site, name: str) -> str:
    """The picture of one metric. `Problem` if no metric has this name."""
    found = await site.api.ask(TradeoffAnswer, metric_path(name, "tradeoff"))
    return await site.drawer.run(picture, found)


def picture(found: TradeoffAnswer) -> str:
    """The drawing; a pure function of the API's answer."""
    said = [line for side in found.sides for line in wrap(side, _LETTERS)]
    canvas = Canvas(_FOOT + 62 + _LINE * len(said), _WIDTH, left=52, right=24)
    bounds = [(point.local_epsilon, point.local_bound) for point in found.points if point.local_bound is not None]
    errors = [(point.local_epsilon, point.standard_error) for point in found.points]
    heights = [found.central_gaussian, found.standard_error, *(height for _, height in [*errors, *bounds])]
    low, high = min(heights) / 1.3, max(heights) * 1.3
    most = max(point.local_epsilon for point in found.points)

    def x(epsilon: float) -> float:
        return epsilon / most

    def y(error: float) -> float:
        return _FOOT - math.log(error / low) / math.log(high / low) * (_FOOT - _TOP)

    for tick in _ticks(low, high):
        canvas.line(0, y(tick), 1, y(tick), color=GRID)
        canvas.text(0, y(tick), f"{tick:g}", anchor="end", dx="-6", dy="0.32em")
    for epsilon in range(0, math.floor(most) + 1, max(1, math.ceil(most / 8))):
        canvas.line(x(epsilon), _TOP, x(epsilon), _FOOT, color=GRID)
        canvas.text(x(epsilon), _FOOT, str(epsilon), anchor="middle", dy="16")
    canvas.text(0, 0, f"standard error from {found.reports:,} reports, on a log scale", color=MUTED, dx="-46")
    canvas.text(
        0.5, _FOOT, "local ε: what holds if shuffler and aggregator collude", anchor="middle", color=MUTED, dy="34"
    )
    central = y(found.central_gaussian)
    canvas.line(0, central, 1, central, color=LINES[2], stroke_width="1.6", stroke_dasharray="6 3")
    canvas.text(0, central, "a trusted server, Gaussian noise", color=LINES[2], dx="5", dy="-6")
    paths = [canvas.path(((x(at), y(error)) for at, error in errors), color=LINES[0], stroke_width="2.2")]
    if bounds:
        line = ((x(at), y(error)) for at, error in bounds)
        paths.insert(0, canvas.path(line, color=LINES[1], stroke_width="1.6", stroke_dasharray="2 3"))
        canvas.text(x(bounds[-1][0]), y(bounds[-1][1]), "local bound", anchor="end", color=LINES[1], dx="-4", dy="17")
    canvas.stretched(paths)
    canvas.text(x(errors[1][0]), y(errors[1][1]), "this crowd, certified", color=LINES[0], dx="10", dy="-8")
    if found.cap is not None and found.cap <= most:
        canvas.line(x(found.cap), _TOP, x(found.cap), _FOOT, color=INK, stroke_dasharray="4 3")
        canvas.text(x(found.cap), _TOP, f"cap {plain(found.cap)}", dx="5", dy="10")
    at, height = x(min(found.local_epsilon, most)), y(found.standard_error)
    canvas.dot(at, height, 6, color=INK)
    where = {"anchor": "end", "dx": "-11"} if at > 0.75 else {"anchor": "start", "dx": "11"}
    canvas.text(at, height, f"in use: {plain(found.local_epsilon)}", dy="-9", **where)
    for number, line_of_text in enumerate(said):
        canvas.text(0, _FOOT + 60 + _LINE * number, line_of_text, dx="-46")
    return canvas.svg()


def _ticks(low: float, high: float) -> Iterable[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [step * 10.0**power for power in powers for step in _STEPS if low <= step * 10.0**power <= high]
    return found if len(found) <= 8 else [tick for tick in found if abs(math.log10(tick) % 1) < 1e-9] or found[:1]
