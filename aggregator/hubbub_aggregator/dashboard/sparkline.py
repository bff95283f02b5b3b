"""Sparklines: an estimate over time with the band of its interval, small enough to draw by hand.

vl-convert takes a tenth of a second for each chart; an overview of fifty metrics has a tenth of a second for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["Dot", "sparkline"]

WIDTH, HEIGHT, _EDGE = 280, 52, 4
_MOST = 90

Dot = tuple[float, float, float, str] | None
"""Estimate, lower and upper limit, and the run that it belongs to; None for a period without one."""


def sparkline(dots: Sequence[Dot], summary: str) -> str:
    """The SVG. Of many periods, only every k-th is drawn, but always the newest. A gap or a new run breaks the line."""
    step = -(-len(dots) // _MOST)
    drawn = list(dots[::-1][::step])[::-1]
    known = [dot for dot in drawn if dot is not None]
    if not known:
        return ""
    low, high = min(dot[1] for dot in known), max(dot[2] for dot in known)
    span = (high - low) or 1.0

    def x(position: int) -> int:
        return WIDTH // 2 if len(drawn) == 1 else round(_EDGE + position * (WIDTH - 2 * _EDGE) / (len(drawn) - 1))

    def y(number: float) -> int:
        return round(HEIGHT - _EDGE - (number - low) / span * (HEIGHT - 2 * _EDGE))

    parts = [_run([(x(i), y(dot[0]), y(dot[1]), y(dot[2])) for i, dot in run]) for run in _runs(drawn)]
    last = max(i for i, dot in enumerate(drawn) if dot is not None)
    newest = drawn[last]
    end = "" if newest is None else f'<circle class="spark-now" cx="{x(last)}" cy="{y(newest[0])}" r="3"/>'
    return (
        f'<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(summary)}">{"".join(parts)}{end}</svg>'
    )


def _runs(drawn: Sequence[Dot]) -> list[list[tuple[int, tuple[float, float, float, str]]]]:
    runs: list[list[tuple[int, tuple[float, float, float, str]]]] = []
    before: str | None = None
    for position, dot in enumerate(drawn):
        if dot is not None:
            if dot[3] != before:
                runs.append([])
            runs[-1].append((position, dot))
        before = None if dot is None else dot[3]
    return runs


def _run(points: Sequence[tuple[int, int, int, int]]) -> str:
    if len(points) == 1:
        ((x, _, low, high),) = points
        return f'<path class="spark-whisker" d="M{x},{low}V{high}"/>'
    upper = " ".join(f"{x},{high}" for x, _, _, high in points)
    lower = " ".join(f"{x},{low}" for x, _, low, _ in reversed(points))
    line = " ".join(f"{x},{middle}" for x, middle, _, _ in points)
    return f'<polygon class="spark-band" points="{upper} {lower}"/><polyline class="spark-line" points="{line}"/>'
