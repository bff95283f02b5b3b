"""Scripts by real processes: what is acknowledged is counted once, whatever is killed, stopped or lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from tests.faults.proxy import FATES as PROXY_FATES
from tests.world.operations import KINDS, Script, Storage, parse
from tests.world.real_processes import FATES, plan_of, play_real

SCRIPT = parse(
    """
world seed=3 shufflers=2 aggregators=2
crowd count=12
net kind=lose-answer count=2
net hop=forward kind=duplicate count=2
crash party=s0 steps=20
pass end=1 seconds=60
start party=s0
replay
reseal
junk count=3
crash party=a0 steps=40
pass seconds=900
start party=a0
pause party=s1
pass seconds=3600
resume party=s1
net hop=forward kind=delay
pass seconds=3600
crash party=s1 steps=3
crash party=a0
start party=s1
start party=a0
pass seconds=3600
"""
)


def test_what_a_script_says_of_requests_a_proxy_can_do() -> None:
    assert set(FATES) == set(KINDS) - {"corrupt"}
    assert set(FATES.values()) <= set(PROXY_FATES)


def test_services_get_a_clock_of_their_own_only_if_the_script_sets_one() -> None:
    assert plan_of(SCRIPT).settable == ()
    assert plan_of(SCRIPT).aggregators == 1, "on SQLite"
    assert plan_of(Script(replace(SCRIPT.world, storage="redis"), ())).aggregators == 2


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("storage", get_args(Storage))
def test_a_script_is_played(tmp_path: Path, storage: Storage) -> None:
    played = play_real(Script(replace(SCRIPT.world, storage=storage), SCRIPT.operations), tmp_path)
    assert played.found.holds, played
    assert played.found.counted == played.found.acknowledged > 50, played
    assert (played.kills, played.pauses) == (4, 1)
    assert played.requests >= 3, played
