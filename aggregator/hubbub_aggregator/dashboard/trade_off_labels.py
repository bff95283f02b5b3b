"""Where dots and names of the trade-off stand: no dot hides another, and no name stands on a line or a name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Box", "Named", "Taken", "named", "neighbours", "side_by_side"]

_LINE, _LETTER = 15, 7.5
"""Height of a name, and width of a letter with room."""
_APART, _GAP = 12.0, 12.0
"""Pixels between the middles of two dots, and from a dot to its name."""
_MOST_ASIDE = 4
_STEP = 3.0
"""Pixels by which a name moves until it is free."""


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Named(NamedTuple):
    """A name beside its dot."""

    name: str
    x: float
    y: float
    is_left: bool
    """Whether it ends at `x`, rather than beginning there."""
    dot: tuple[float, float]

    @property
    def leader(self) -> list[tuple[float, float]]:
        """The thin line from the dot to the name, if the name does not stand beside it."""
        if abs(self.y - self.dot[1]) <= 3 and abs(self.x - self.dot[0]) <= _GAP + 1:
            return []
        return [self.dot, (self.dot[0], self.y), (self.x + (2 if self.is_left else -2), self.y)]


@dataclass
class Taken:
    """What stands in the picture already: boxes, and the diagonal from one corner to another, in pixels."""

    frame: Box
    diagonal: tuple[tuple[float, float], tuple[float, float]]
    boxes: list[Box] = field(default_factory=list)

    def is_free(self, box: Box) -> bool:
        frame = self.frame
        if box.left < frame.left or box.right > frame.right or box.top < frame.top or box.bottom > frame.bottom:
            return False
        return not self._is_crossed(box) and not any(box.meets(other) for other in self.boxes)

    def _is_crossed(self, box: Box) -> bool:
        (x1, y1), (x2, y2) = self.diagonal
        left, right = max(box.left, x1), min(box.right, x2)
        if left >= right:
            return False
        ends = sorted(y1 + (y2 - y1) * (x - x1) / (x2 - x1) for x in (left, right))
        return ends[0] < box.bottom and box.top < ends[1]

    def text(self, words: str, places: Iterable[tuple[float, float, bool]]) -> tuple[float, float, bool]:
        """The first free place of these, or the first; now it is taken. The last of each: whether it ends there."""
        known = list(places)
        place = next((one for one in known if self.is_free(_box(words, *one))), known[0])
        self.boxes.append(_box(words, *place))
        return place


def side_by_side(dots: Sequence[tuple[float, float]], width: float) -> list[tuple[float, float]]:
    """The dots, those that would overlap moved sideways. More than a few in one place still overlap."""
    placed: list[tuple[float, float]] = []
    aside = [0.0, *(sign * _APART * step for step in range(1, _MOST_ASIDE + 1) for sign in (1, -1))]
    for x, y in dots:
        free = (
            x + step
            for step in aside
            if 0 <= x + step <= width
            and all((x + step - other) ** 2 + (y - height) ** 2 >= (_APART - 0.5) ** 2 for other, height in placed)
        )
        placed.append((next(free, x), y))
    return placed


def neighbours(dots: Sequence[tuple[str, tuple[float, float]]]) -> list[list[tuple[str, tuple[float, float]]]]:
    """Dots in groups whose names would stand on each other."""
    groups: list[list[tuple[str, tuple[float, float]]]] = []
    for name, (x, y) in sorted(dots, key=lambda one: one[1][1]):
        near = [one for one in groups if any(abs(y - b) < _LINE and abs(x - a) < 2 * _APART for _, (a, b) in one)]
        groups = [one for one in groups if one not in near]
        groups.append([*(dot for one in near for dot in one), (name, (x, y))])
    return groups


def named(dots: Sequence[tuple[str, tuple[float, float]]], taken: Taken) -> list[Named]:
    """Names of dots that share a place: beside the outermost, the others in steps below or above it.

    A name without room is left out.
    """
    tries = [_stairs(dots, taken, is_left=is_left, down=down) for down in (1, -1) for is_left in (False, True)]
    best = max(tries, key=len)
    taken.boxes += [_box(one.name, one.x, one.y, one.is_left) for one in best]
    return best


def _stairs(dots: Sequence[tuple[str, tuple[float, float]]], taken: Taken, *, is_left: bool, down: int) -> list[Named]:
    """A dot further from the names has its name further down (or up), so that no leader passes another dot."""
    side = 1 if is_left else -1
    found: list[Named] = []
    ordered = sorted(dots, key=lambda one: (side * one[1][0], down * one[1][1]))
    edge = ordered[0][1][0] - side * _GAP
    for name, (x, y) in ordered:
        place = y if not found else down * max(down * y, down * found[-1].y + _LINE)
        while taken.frame.top < place < taken.frame.bottom and not taken.is_free(_box(name, edge, place, is_left)):
            place += down * _STEP
        if taken.frame.top < place < taken.frame.bottom:
            found.append(Named(name, edge, place, is_left, (x, y)))
    return found


def _box(words: str, x: float, y: float, is_left: bool) -> Box:
    wide = _LETTER * len(words)
    return Box(x - wide if is_left else x, y - _LINE / 2, x if is_left else x + wide, y + _LINE / 2)
