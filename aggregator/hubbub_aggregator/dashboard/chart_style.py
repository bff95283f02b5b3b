"""Style of all charts: their size and type, their axes, and how many digits a tick has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hubbub_aggregator.dashboard.palette import AXIS, GRID, INK, MUTED

__all__ = ["FONT", "WIDTH", "Spec", "axis", "chart", "log_scale", "times"]

Spec = dict[str, Any]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
WIDTH = 360
"""Of the whole chart, which grows on a desktop and shrinks a little on a phone: its type stays readable on both."""

_TYPE = 12.5


def chart(data: Spec, layers: list[Spec], *, height: Any, width: int = WIDTH) -> Spec:
    return {
        "data": data,
        "layer": layers,
        "width": width,
        "height": height,
        "background": None,
        "padding": 4,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": {
            "font": FONT,
            "view": {"stroke": None},
            "axis": {
                "labelFontSize": _TYPE,
                "titleFontSize": _TYPE,
                "titleFontWeight": "normal",
                "labelColor": INK,
                "titleColor": MUTED,
                "gridColor": GRID,
                "domainColor": AXIS,
                "tickColor": AXIS,
                "aria": False,
            },
        },
    }


def axis(ticks: int = 5, **more: Any) -> Spec:
    kept_apart = {"labelFlush": False, "labelOverlap": "greedy", "labelSeparation": 4}
    return {"tickCount": ticks, "domain": False, "ticks": False, "labelPadding": 6, **kept_apart, **more}


def log_scale(numbers: Sequence[float], **more: Any) -> Spec:
    """A logarithmic scale with ticks at powers of ten, or finer if the numbers span little."""
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    steps = (1,) if high - low > 2 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(low, high + 1) for step in steps if step * 10.0**power <= 10.0**high]
    inside = [tick for tick in ticks if tick >= min(numbers) * 0.999] or ticks
    start = max((tick for tick in ticks if tick <= min(numbers) * 1.001), default=ticks[0])
    stop = min((tick for tick in ticks if tick >= max(numbers) * 0.999), default=ticks[-1])
    shown = [tick for tick in {start, *inside} if start <= tick <= stop]
    return {"scale": {"type": "log", "domain": [start, stop]}, "axis": axis(values=sorted(shown), **more)}


def times(periods: int) -> Spec:
    """Few labels with room between them: a browser's font may be wider than the one they are measured with."""
    return {
        "grid": False,
        "tickCount": min(4, max(1, periods)),
        "labelOverlap": "greedy",
        "labelSeparation": 14,
        "labelFlush": True,
        "format": {"hours": "%H:%M", "minutes": "%H:%M", "seconds": "%H:%M:%S"},  # by default, 17:26 would be 05:26
    }
