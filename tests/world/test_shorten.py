"""Shortening: what is left of a script still fails, and no line of it can be left out."""

from __future__ import annotations

import pytest

from tests.world.generate import script_of
from tests.world.operations import Crash, Operation, Script, Tick, World, parse
from tests.world.shorten import shortened


@pytest.mark.parametrize("number", [1, 2, 3])
def test_only_what_is_needed_is_left(number: int) -> None:
    """Here a script fails if a kill of s1 comes somewhere before a tick."""
    drawn = script_of(number, "sqlite")
    middle = len(drawn.operations) // 2
    operations = (*drawn.operations[:middle], Crash("s1", 9), *drawn.operations[middle:], Tick(1))

    def fails(script: Script) -> bool:
        killed = False
        for each in script.operations:
            killed = killed or (isinstance(each, Crash) and each.party == "s1")
            if killed and isinstance(each, Tick):
                return True
        return False

    short = shortened(Script(World(number, devices=2), operations), fails)
    assert fails(short)
    assert short == Script(World(number), (Crash("s1"), Tick()))


def test_it_stops_after_so_many_tries() -> None:
    played = list[Script]()

    def fails(script: Script) -> bool:
        played.append(script)
        return False

    script = parse("world\n" + "tick\n" * 40)
    assert shortened(script, fails, tries=5) == script
    assert len(played) == 5


def test_a_script_that_holds_without_any_line_is_left_with_none() -> None:
    operations: tuple[Operation, ...] = (Tick(), Tick(1))
    assert shortened(Script(World(), operations), lambda _: True).operations == ()
