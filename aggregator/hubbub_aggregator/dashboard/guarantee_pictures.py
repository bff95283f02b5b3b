"""Pictures of guarantees: a guess as a hundred dots, and local guarantees against those of releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from hubbub.number_format import plain
from hubbub.shortening import shortened
from hubbub_aggregator.dashboard.formatting import epsilon
from hubbub_aggregator.dashboard.palette import AXIS, GRID, INK, LINES, MUTED
from hubbub_aggregator.dashboard.svg_canvas import Canvas
from hubbub_aggregator.dashboard.trade_off_labels import Box, Taken, named, neighbours, side_by_side

__all__ = ["Pair", "hundred", "trade_off"]

_WIDTH, _TOP, _FOOT, _HEIGHT = 310, 18, 236, 264
"""The width of the plot, where it begins and ends, and the height with its labels."""
_NAMED = 12
"""Most points that have their name beside them; the text of a mark has it always."""
_SAME = "without a crowd: both the same"
_ACROSS, _STEP = 25, 12


@dataclass(frozen=True, slots=True)
class Pair:
    """Both guarantees of a release."""

    name: str
    local: float
    released: float
    delta: float


def hundred(right: float, words: str) -> Markup:
    """A hundred guesses as dots: fifty that a coin gets right, the most that data adds to them, and the wrong ones."""
    most = min(100, math.ceil(100 * right))
    places = [(6 + _STEP * (at % _ACROSS), 6 + _STEP * (at // _ACROSS)) for at in range(100)]

    def dots(kind: str, first: int, last: int) -> str:
        drawn = "".join(f"M{x},{y}h0" for x, y in places[first:last])
        return f'<path class="{kind}" d="{drawn}"/>' if drawn else ""

    parts = dots("by-coin", 0, 50) + dots("by-data", 50, most) + dots("wrong", most, 100)
    return Markup(  # noqa: S704  made here; the words are escaped
        f'<svg class="hundred" viewBox="0 0 {_ACROSS * _STEP} {100 // _ACROSS * _STEP}" role="img" '
        f'aria-label="{escape(words)}">{parts}</svg>'
    )


def trade_off(pairs: Sequence[Pair], chosen: str, *, target: float | None) -> str:
    """Epsilon of one report against epsilon of the release that it is in, both logarithmic.

    The diagonal is where a crowd would add nothing. A line from it down to each point is what the crowd has added.
    """
    canvas = Canvas(_HEIGHT, _WIDTH, left=34, right=0)
    across = _Log([pair.local for pair in pairs])
    up = _Log([*(pair.released for pair in pairs), *(pair.local for pair in pairs), *([target] if target else [])])

    def y(number: float) -> float:
        return _FOOT - up.at(number) * (_FOOT - _TOP)

    for tick in up.ticks:
        canvas.line(0, y(tick), 1, y(tick), color=GRID)
        canvas.text(0, y(tick), plain(tick), anchor="end", dx="-6", dy="0.32em")
    for tick in across.ticks:
        canvas.line(across.at(tick), _TOP, across.at(tick), _FOOT, color=GRID)
        canvas.text(across.at(tick), _FOOT, plain(tick), anchor="middle", dy="16")
    canvas.text(0.5, _FOOT, "local ε: what a report gives away by itself", anchor="middle", color=MUTED, dy="34")
    canvas.text(0, 0, "ε of the release", color=MUTED, dx="-32")
    ends = [(across.at(number) * _WIDTH, y(number)) for number in (across.low, across.high)]
    (x1, y1), (x2, y2) = ends
    canvas.line(x1 / _WIDTH, y1, x2 / _WIDTH, y2, color=LINES[1], stroke_width="1.6")
    ordered = sorted(pairs, key=lambda one: (one.name != chosen, one.released))
    dots = side_by_side([(across.at(pair.local) * _WIDTH, y(pair.released)) for pair in ordered], _WIDTH)
    taken = Taken(
        Box(0, _TOP - 2, _WIDTH + 2, _FOOT),
        (ends[0], ends[1]),
        [Box(x - 6, height - 6, x + 6, height + 6) for x, height in dots],
    )

    def write(words: str, color: str, places: list[tuple[float, float, bool]]) -> None:
        x, height, is_left = taken.text(words, places)
        canvas.text(x / _WIDTH, height, words, anchor="end" if is_left else "start", color=color, dy="0.32em")

    write(_SAME, LINES[1], [(5, _TOP + 10, False), (_WIDTH - 5, _FOOT - 10, True), (5, _FOOT - 10, False)])
    if target is not None:
        at = y(target)
        canvas.line(0, at, 1, at, color=LINES[2], stroke_dasharray="4 3")
        places = [(float(x), at + off, False) for x in range(5, _WIDTH, 12) for off in (-10, 10)]
        write(f"release target {plain(target)}", LINES[2], places)
        taken.boxes.append(Box(0, at - 1, _WIDTH, at + 1))
    for pair in pairs:
        place = across.at(pair.local)
        canvas.line(place, y(pair.local), place, y(pair.released), color=AXIS, stroke_dasharray="2 3")
    known = [(shortened(pair.name, 20), dot) for pair, dot in list(zip(ordered, dots, strict=True))[:_NAMED]]
    names = [one for group in neighbours(known) for one in named(group, taken)]
    for one in names:
        if leader := one.leader:
            canvas.add(canvas.path([(x / _WIDTH, height) for x, height in leader], color=MUTED, stroke_width="0.8"))
    for pair, (x, height) in reversed(list(zip(ordered, dots, strict=True))):  # the chosen one on top
        told = f"{pair.name}: local ε {epsilon(pair.local)}, ε of the release {epsilon(pair.released)}"
        size, color = (6.5, INK) if pair.name == chosen else (5, LINES[0])
        canvas.add(
            f'<circle class="mark" role="graphics-symbol" cx="{canvas.x(x / _WIDTH)}" cy="{height:.1f}" r="{size}" '
            f'fill="{color}"><title>{escape(told)}</title></circle>'
        )
    for one in names:
        canvas.text(one.x / _WIDTH, one.y, one.name, anchor="end" if one.is_left else "start", dy="0.32em")
    return canvas.svg()


class _Log:
    """A logarithmic scale from 0 to 1 over whole steps of 1, 2 and 5."""

    def __init__(self, numbers: Sequence[float]) -> None:
        steps = [
            step * 10.0**power
            for power in range(math.floor(math.log10(min(numbers))) - 1, math.ceil(math.log10(max(numbers))) + 2)
            for step in (1, 2, 5)
        ]
        self.low = max(step for step in steps if step <= min(numbers) / 1.15)
        self.high = min(step for step in steps if step >= max(numbers) * 1.15)
        inside = [step for step in steps if self.low <= step <= self.high]
        tens = [step for step in inside if abs(math.log10(step) - round(math.log10(step))) < 1e-9]
        self.ticks = inside if len(inside) <= 7 else tens

    def at(self, number: float) -> float:
        return math.log(number / self.low) / math.log(self.high / self.low)
