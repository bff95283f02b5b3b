"""Shortening of scripts that fail: lines are left out, and fields set to their usual values, while it still fails.

Hypothesis shortens what it has drawn. This takes any script, also one that a person wrote, and removes single lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.world.operations import Script

__all__ = ["shortened"]


def shortened(script: Script, fails: Callable[[Script], bool], tries: int = 2_000) -> Script:
    """A script that still fails, from which no line can be left out. `tries`: most scripts that are played."""
    left = tries

    def still(candidate: Script) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(candidate)

    size = max(1, len(script.operations) // 2)
    while size:
        before = script
        script = _without(script, size, still)
        if size > 1 or script == before:
            size //= 2
    for number in range(len(script.operations)):
        for plainer in _plainer(script.operations[number]):
            candidate = _with(script, number, plainer)
            if still(candidate):
                script = candidate
    for plainer in _plainer(script.world):
        candidate = Script(plainer, script.operations)
        if still(candidate):
            script = candidate
    return script


def _without(script: Script, size: int, still: Callable[[Script], bool]) -> Script:
    """As many runs of `size` lines as possible are left out, the last ones first."""
    for start in range(len(script.operations) - 1, -1, -size):
        first = max(0, start - size + 1)
        candidate = Script(script.world, script.operations[:first] + script.operations[start + 1 :])
        if still(candidate):
            script = candidate
    return script


def _with(script: Script, number: int, one: Any) -> Script:
    return Script(script.world, (*script.operations[:number], one, *script.operations[number + 1 :]))


def _plainer(one: Any) -> Iterator[Any]:
    """The same with one field as usual."""
    for each in fields(one):
        if each.name != "seed" and getattr(one, each.name) != each.default:
            yield replace(one, **{each.name: each.default})
