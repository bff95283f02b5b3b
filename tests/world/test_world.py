"""The whole world under one seed: fixed scripts and numbered histories hold on both storages, and are repeatable.

Each script in `scripts/` is a meeting of two parts that once went wrong, or that could. `make world` looks for more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.full import examples
from tests.world.explore import redis_for
from tests.world.generate import FIELDS, script_of, scripts
from tests.world.history import play
from tests.world.operations import OPERATIONS, Script, Storage, parse
from tests.world.redis_in_world import WorldRedis

SCRIPTS = sorted(Path(__file__).with_name("scripts").glob("*.txt"))
STORAGES: tuple[Storage, ...] = get_args(Storage)


@pytest.fixture(scope="module", params=STORAGES)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Storage, WorldRedis | None]]:
    """A storage, and the server that it needs."""
    with redis_for(request.param) as redis:
        yield request.param, redis


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_holds(path: Path, place: tuple[Storage, WorldRedis | None]) -> None:
    storage, redis = place
    script = parse(path.read_text("utf-8"))
    play(Script(replace(script.world, storage=storage), script.operations), redis)


@pytest.mark.parametrize("number", range(100))
@pytest.mark.everyday(*(f"*-{number}" for number in range(6)))
def test_a_numbered_history_holds(number: int, place: tuple[Storage, WorldRedis | None]) -> None:
    storage, redis = place
    play(script_of(number, storage), redis)


def test_a_drawn_history_holds(place: tuple[Storage, WorldRedis | None]) -> None:
    """Hypothesis shortens what fails."""
    storage, redis = place

    @settings(max_examples=examples(4, 100), suppress_health_check=list(HealthCheck), deadline=None)
    @given(scripts(storage))
    def holds(script: Script) -> None:
        play(script, redis)

    holds()


def test_one_seed_is_one_history(place: tuple[Storage, WorldRedis | None]) -> None:
    """Everything that is sent is the same, byte for byte and in time."""
    storage, redis = place
    script = script_of(7, storage)
    first, second = (play(script, redis).trace.hexdigest() for _ in range(2))
    assert first == second
    other = Script(replace(script.world, seed=8), script.operations)
    assert play(other, redis).trace.hexdigest() != first


@given(st.integers(0, 10**9), st.sampled_from(STORAGES))
def test_a_numbered_history_is_printed_and_read_back(number: int, storage: Storage) -> None:
    script = script_of(number, storage)
    assert parse(str(script)) == script


def test_every_operation_is_drawn_with_every_field() -> None:
    from dataclasses import fields

    assert {name: set(choices) for name, choices in FIELDS.items()} == {
        name: {each.name for each in fields(kind)} for name, kind in OPERATIONS.items()
    }
