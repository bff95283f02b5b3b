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

__all__ = ["Pair", "hundred", "trade_off"]

_WIDTH, _TOP, _FOOT, _HEIGHT = 310, 18, 236, 264
"""The width of the plot, where it begins and ends, and the height with its labels."""
_ASIDE = (0, -1, 1, -2, 2, -3, 3)
"""Where a name is put, in its own heights, until it is free."""
_NAMED = 12
"""Most points that have their name beside them; the text of a mark has it always."""
_LINE, _LETTER = 15, 8
"""Height of a name, and width of a letter with room."""
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
    ends = [number for number in (across.low, across.high) if number]
    canvas.line(across.at(ends[0]), y(ends[0]), across.at(ends[1]), y(ends[1]), color=LINES[1], stroke_width="1.6")
    canvas.text(0, _TOP, "without a crowd: both the same", color=LINES[1], dx="5", dy="15")
    if target is not None:
        canvas.line(0, y(target), 1, y(target), color=LINES[2], stroke_dasharray="4 3")
        canvas.text(0, y(target), f"release target {plain(target)}", color=LINES[2], dx="5", dy="14")
    for pair in pairs:
        at = across.at(pair.local)
        canvas.line(at, y(pair.local), at, y(pair.released), color=AXIS, stroke_dasharray="2 3")
    taken: list[tuple[float, float, float]] = []
    for pair in sorted(pairs, key=lambda one: (one.name != chosen, one.released)):
        at, height = across.at(pair.local), y(pair.released)
        told = f"{pair.name}: local ε {epsilon(pair.local)}, ε of the release {epsilon(pair.released)}"
        size, color = (6.5, INK) if pair.name == chosen else (5, LINES[0])
        canvas.add(
            f'<circle class="mark" role="graphics-symbol" cx="{canvas.x(at)}" cy="{height:.1f}" r="{size}" '
            f'fill="{color}"><title>{escape(told)}</title></circle>'
        )
        name, is_left = shortened(pair.name, 20), at > 0.6
        wide = _LETTER * len(name) / _WIDTH
        left, right = (at - wide, at) if is_left else (at, at + wide)
        free = (
            place
            for place in (height + _LINE * step for step in _ASIDE)
            if _TOP < place < _FOOT
            and all(abs(place - other) >= _LINE or left > end or right < begin for begin, end, other in taken)
        )
        if len(taken) < _NAMED and (place := next(free, None)) is not None:
            taken.append((left, right, place))
            canvas.text(
                at, place, name, anchor="end" if is_left else "start", dx="-11" if is_left else "11", dy="0.32em"
            )
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
