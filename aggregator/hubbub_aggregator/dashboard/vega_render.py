"""Pictures from chart specifications, drawn by vl-convert, off the event loop and once for each picture.

A chart depends only on its specification, and that only on releases, which never change. So drawings are kept under the
hash of their specification. vl-convert contains a JavaScript engine; it is loaded with the first chart, not with the
service.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import escape
from typing import Any, TypeVar

from hubbub_aggregator.dashboard.chart_style import FONT, Spec
from hubbub_aggregator.dashboard.palette import Theme, themed

__all__ = ["Busy", "Drawer", "inline", "to_png"]

Made = TypeVar("Made")
MOST_WAITING = 24
"""Most callers that wait for drawings. A page that was not drawn before takes half a second of a core."""

_MOST_BYTES = 16 * 2**20
_LABELLED = re.compile(
    r'<(path|line) aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="[^"]*"([^>]*)/>'
)
_TAG = re.compile(r"<[^<>]*>")
_LONG = re.compile(r"(\d\.\d\d)\d+")
_EMPTY = re.compile(r'<path class="(?:background|foreground)"[^>]*/>')
_NOISE = re.compile(
    r' (?:aria-roledescription|pointer-events|font-family|xmlns:xlink|version|class)="(?!mark")[^"]*"'
    r'| opacity="1"| role="graphics-object"'
)


class Busy(Exception):
    """Too many callers are waiting for charts: one more would only wait longer."""


class Drawer:
    """Draws charts and keeps them, up to a number of bytes.

    It has its own threads, and a bounded number of callers wait for them: a caller that asks for one chart after the
    other does not slow down pages without charts.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._waiting = 0
        self._pool = ThreadPoolExecutor(2, "drawing")
        self._most, self._bytes = most_bytes, 0
        self._drawn: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        self._engine = threading.Lock()

    async def run(self, draw: Callable[..., Made], /, *given: Any) -> Made:
        """The result of a function that draws. Busy if too many callers wait already."""
        if self._waiting >= MOST_WAITING:
            raise Busy
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, draw, *given)
        finally:
            self._waiting -= 1

    def svg(self, spec: Spec) -> str:
        """The chart as SVG without style, script or anything else that a strict policy forbids."""
        text = json.dumps(spec, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()
        with self._lock:
            if key in self._drawn:
                self._drawn.move_to_end(key)
                return self._drawn[key]
        with self._engine:  # one at a time: the engine takes a core, and a page must not take them all
            drawn = _tidy(_convert(text))
        with self._lock:
            if key not in self._drawn:
                self._drawn[key] = drawn
                self._bytes += len(drawn)
            while len(self._drawn) > 1 and self._bytes > self._most:
                self._bytes -= len(self._drawn.popitem(last=False)[1])
        return drawn


def inline(svg: str, summary: str, name: str) -> str:
    """The chart as part of a page: with a name, and as wide as there is room."""
    named = f'role="graphics-document" aria-label="{escape(summary)}" data-chart="{escape(name)}"'
    if svg.startswith('<svg class="'):
        return svg.replace('<svg class="', f'<svg {named} class="plot ', 1)
    return svg.replace("<svg ", f'<svg class="plot" {named} ', 1)


def to_png(svg: str, theme: Theme) -> bytes:
    """The chart at twice the size, for slides and modern screens."""
    import vl_convert

    made: bytes = vl_convert.svg_to_png(themed(svg, theme), scale=2)
    return made


def _convert(spec: str) -> str:
    import vl_convert

    made: str = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    return made


def _tidy(svg: str) -> str:
    """Shorten an SVG, and give every mark that carries text a title, which pointers and screen readers find.

    Only tags are changed: the text between them may be anything that a codebook calls a value.
    """
    svg = _LABELLED.sub(_titled, _EMPTY.sub("", svg))
    svg = _TAG.sub(lambda tag: _NOISE.sub("", _LONG.sub(r"\1", tag[0])), svg)
    svg = re.sub(r"<g>\s*</g>", "", svg)
    return svg.replace("<svg ", f'<svg font-family="{FONT}" ', 1)


def _titled(match: re.Match[str]) -> str:
    tag, text, rest = match.groups()
    return f'<{tag} class="mark" role="graphics-symbol"{rest}><title>{text}</title></{tag}>'
