"""Sparklines: an estimate over time with the band of its interval, and the ends of its scale.

They are drawn by hand: an overview of fifty metrics has a tenth of a second for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["Dot", "sparkline"]

HEIGHT, _EDGE, _UNITS = 60, 5, 300
_AT = ('y="100%" dy="-0.1em"', 'y="0" dy="1em"')
Dot = tuple[float, float, float, str] | None
"""Estimate, lower and upper limit, and the run that it belongs to; None for a period without one."""


def sparkline(dots: Sequence[Dot], summary: str, ends: tuple[str, str]) -> str:
    """The SVG, as high as its place. A gap or a new run breaks the line.

    `ends` are the numbers at the foot and the top of the scale.
    """
    known = [dot for dot in dots if dot is not None]
    if not known:
        return ""
    low, high = min(dot[1] for dot in known), max(dot[2] for dot in known)
    span = (high - low) or 1.0

    def x(position: int) -> float:
        return _UNITS if len(dots) == 1 else round(position * _UNITS / (len(dots) - 1), 1)

    def y(number: float) -> float:
        return round(HEIGHT - _EDGE - (number - low) / span * (HEIGHT - 2 * _EDGE), 1)

    parts = [_run([(x(i), y(dot[0]), y(dot[1]), y(dot[2])) for i, dot in run]) for run in _runs(dots)]
    last = max(i for i, dot in enumerate(dots) if dot is not None)
    newest = dots[last]
    assert newest is not None  # noqa: S101  chosen so
    place = f'cx="{100 * x(last) / _UNITS:.1f}%" cy="{100 * y(newest[0]) / HEIGHT:.1f}%"'
    foot, top = (f'<text x="100%" {at}>{escape(end)}</text>' for end, at in zip(ends, _AT, strict=True))
    return (
        f'<svg class="spark" width="100%" height="100%" role="img" aria-label="{escape(summary)}">'
        f'<svg class="stretch" width="100%" height="100%" viewBox="0 0 {_UNITS} {HEIGHT}" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg>'
        f'<circle class="spark-now" {place} r="3.5"/><g class="spark-ends">{top}{foot}</g></svg>'
    )


def _runs(dots: Sequence[Dot]) -> list[list[tuple[int, tuple[float, float, float, str]]]]:
    runs: list[list[tuple[int, tuple[float, float, float, str]]]] = []
    before: str | None = None
    for position, dot in enumerate(dots):
        if dot is not None:
            if dot[3] != before:
                runs.append([])
            runs[-1].append((position, dot))
        before = None if dot is None else dot[3]
    return runs


def _run(points: Sequence[tuple[float, float, float, float]]) -> str:
    if len(points) == 1:
        ((x, middle, low, high),) = points
        whisker = f'<path class="spark-whisker" d="M{x:g},{low:g}V{high:g}"/>'
        return f'{whisker}<path class="spark-dot" d="M{x:g},{middle:g}h0"/>'
    upper = " ".join(f"{x:g},{high:g}" for x, _, _, high in points)
    lower = " ".join(f"{x:g},{low:g}" for x, _, low, _ in reversed(points))
    line = " ".join(f"{x:g},{middle:g}" for x, middle, _, _ in points)
    return f'<polygon class="spark-band" points="{upper} {lower}"/><polyline class="spark-line" points="{line}"/>'
