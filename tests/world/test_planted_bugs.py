"""Planted bugs: the world finds each, by a script that holds without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.world.history import play
from tests.world.operations import parse
from tests.world.oracle import KINDS, Wrong
from tests.world.planted_bugs import PLANTED

SCRIPTS = Path(__file__).with_name("planted")


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    """The script was shortened from the first numbered history that failed; its first line says how."""
    text = (SCRIPTS / f"{name}.txt").read_text("utf-8")
    script = parse(text)
    play(script)
    with PLANTED[name](), pytest.raises(Wrong) as found:
        play(script)
    assert found.value.kind in KINDS
    assert text.startswith(f"# {found.value.kind}"), found.value
