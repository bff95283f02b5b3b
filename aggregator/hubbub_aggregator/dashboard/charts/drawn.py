"""Drawn charts: what every chart of a metric offers, and the spots in which its numbers are read.

A spot is an invisible part of the chart, such as the whole column of a period, whose title has the numbers. A pointer
anywhere in it, a finger or the arrow keys read them. Without JavaScript, browsers show the title.
"""

from __future__ import annotations

from html import escape
from typing import Protocol

from hubbub_aggregator.dashboard.svg_canvas import Canvas

__all__ = ["Chart", "spot"]


class Chart(Protocol):
    """A chart that is as wide as its place, or with `width` as wide as that: then it is a file."""

    def svg(self, width: int | None = None) -> str: ...


def spot(canvas: Canvas, x: float, y: float, width: float, height: float, words: str) -> None:
    """A part of the chart that says its numbers: the name first, then one line for each number."""
    canvas.add(
        f'<rect class="spot" role="graphics-symbol" x="{canvas.x(x)}" y="{y:g}" width="{canvas.x(width)}" '
        f'height="{height:g}" fill="none"><title>{escape(words)}</title></rect>'
    )
