"""Scripts: what is printed is read back, and a wrong line is named."""

from __future__ import annotations

import pytest

from tests.world.operations import OPERATIONS, REAL, Crash, Net, Pass, Script, SetClock, World, parse, written


def test_a_script_is_read_back_as_it_was_printed() -> None:
    script = Script(
        World(seed=7, storage="redis", shufflers=2),
        (
            Pass(90),
            SetClock("a0", -3600),
            Net("forward", "duplicate", 2),
            Crash("s1", 4),
            *(o() for o in OPERATIONS.values()),
        ),
    )
    assert parse(str(script)) == script


def test_fields_with_their_usual_value_are_left_out() -> None:
    assert written(Crash()) == "crash"
    assert written(SetClock("a0", -5)) == "clock party=a0 by=-5"


def test_comments_and_empty_lines_mean_nothing() -> None:
    assert parse("# why\n\nworld seed=1\n  tick # now\n") == Script(World(1), (OPERATIONS["tick"](),))


@pytest.mark.parametrize(
    "text", ["world\nfly", "world\ncrash who=s0", "world\npass seconds=x", "tick\n", "world\nworld\n"]
)
def test_a_wrong_line_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"line \d|one line"):
        parse(text)


def test_every_operation_of_real_processes_exists() -> None:
    assert set(OPERATIONS) >= REAL
