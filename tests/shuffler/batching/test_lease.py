"""Leases: a batch whose worker was killed goes to another worker long before its horizon."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from hubbub.bundle import verify
from hubbub.bundle_body import Body
from hubbub.codebook import Codebook
from hubbub.trust_anchor import anchor_of
from hubbub_shuffler.batching.lease_length import SHORTEST, Lease
from tests.shuffler.world import NOW, StubAggregator, World, signed, toml
from tests.support.codebooks import IDENTITY


def within(horizon: str) -> Codebook:
    return Codebook.from_toml(toml(forward_horizon=horizon)).with_min_batch(lambda _metric: 3)


def body(horizon: str) -> Body:
    return verify(signed(NOW, book=within(horizon)), [anchor_of(IDENTITY)], NOW).body


@pytest.mark.parametrize(("horizon", "used"), [("7d", 600.0), ("40m", 600.0), ("10m", 150.0), ("4s", SHORTEST)])
def test_four_leases_fit_into_the_horizon(horizon: str, used: float) -> None:
    assert Lease(600.0).seconds(body(horizon)) == used


def test_a_shorter_setting_stands_and_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    assert Lease(30.0).seconds(body("10m")) == 30.0
    assert caplog.records == []


def test_the_log_says_once_that_the_setting_is_too_long_and_once_that_it_is_used_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    lease = Lease(600.0)
    assert lease.seconds(None) == 600.0
    for _ in range(3):
        assert lease.seconds(body("10m")) == 150.0
    assert lease.seconds(None) == 150.0  # the bundle has expired; the batches that wait are the same
    for _ in range(3):
        assert lease.seconds(body("7d")) == 600.0
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in said] == ["WARNING", "INFO"]
    assert "Set HUBBUB_SHUFFLER_LEASE to 150 or less" in said[0][1]


async def test_batches_are_claimed_for_no_longer(tmp_path: Path) -> None:
    world = World(tmp_path, StubAggregator(signed(NOW, book=within("10m"))), lease=600.0)
    async with world:
        asked, claim = list[float](), world.storage.claim

        async def noted(lease: float) -> Any:
            asked.append(lease)
            return await claim(lease)

        world.storage.claim = noted  # type: ignore[method-assign]  # it only looks on
        await world.batcher.tick()
        assert set(asked) == {150.0}
