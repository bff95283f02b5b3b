"""Speed of the simulator: devices a second, in CPU time, which other work on the machine hardly changes."""

from __future__ import annotations

import pytest

from benchmarks.simulate import LIMITS, command, engine


@pytest.mark.full
@pytest.mark.parametrize("case", list(LIMITS), ids=lambda case: f"{case[0]}-{case[2]}")
def test_millions_of_devices_take_a_few_seconds(case: tuple[str, int, int]) -> None:
    """The engine takes a small part of the limit; the whole command, with its imports and files, stays within it."""
    assert engine(*case) <= LIMITS[case]
    assert command(*case) <= LIMITS[case]
