"""Strict mode: a developer who asked for it is told of mistakes, and of nothing else."""

from __future__ import annotations

import pytest

from hubbub_client import Outcome, UnknownMetric, WrongValue
from tests.client.world import DAY, TOML, World, no_network, signed


def test_a_strict_client_says_which_name_was_meant(world: World) -> None:
    client = world.ready(strict=True)
    with pytest.raises(UnknownMetric, match="did you mean 'startup_ms'"):
        client.record("startup_m", 3)
    assert client.stats()["invalid"] == 1


@pytest.mark.parametrize(("metric", "value"), [("theme", 3), ("startup_ms", "fast"), ("startup_ms", float("nan"))])
def test_a_strict_client_says_what_a_metric_takes(world: World, metric: str, value: object) -> None:
    client = world.ready(strict=True)
    with pytest.raises(WrongValue, match=rf"'{metric}' takes"):
        client.record(metric, value)


def test_the_environment_can_make_a_client_strict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUBBUB_STRICT", "1")
    with pytest.raises(UnknownMetric):
        world.ready().record("no_such_metric", 3)
    assert world.ready(strict=False).record("no_such_metric", 3) is Outcome.INVALID


def test_strict_is_about_mistakes_and_not_about_the_world(world: World) -> None:
    client = world.client(strict=True)
    assert client.record("anything", 3) is Outcome.WAITING
    world.transport.script.extend([no_network] * 3)
    assert client.flush(0) is False
    assert world.client(strict=True, consent=False).record("no_such_metric", None) is Outcome.DISABLED


def test_out_of_bounds_and_unheard_of_are_values_like_any_other(world: World) -> None:
    client = world.ready(strict=True)
    assert client.record("startup_ms", 1e300) is Outcome.RECORDED
    assert client.record("startup_ms", float("-inf")) is Outcome.RECORDED
    assert client.record("theme", "never heard of") is Outcome.RECORDED
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 2


@pytest.mark.parametrize("missing", [True, False])
def test_what_is_no_number_reports_as_nothing_would(world: World, missing: bool) -> None:
    """With a `missing` the device reports all the same; without one it is silent, which can be seen: hence the lint."""
    if missing:
        world.transport.bundle = signed(TOML.replace("[metrics.startup_ms]", "[metrics.startup_ms]\nmissing = 0"))
    client = world.ready()
    assert client.record("startup_ms", float("nan")) is Outcome.INVALID
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == int(missing)
