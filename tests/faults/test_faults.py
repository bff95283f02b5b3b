"""Kills, stops, a bad network and wrong clocks: nothing acknowledged is lost, and nothing is counted twice."""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path

import pytest

from tests.faults import runs
from tests.faults.clock_excursion import excursion
from tests.faults.clocks import NO_FAKETIME, faketime
from tests.faults.plan import KEY, STORAGES, Party, Plan, StorageName
from tests.faults.runs import Row
from tests.faults.world import running
from tests.support.patience import wait_for

SERVICES: tuple[Party, ...] = ("aggregator", "shuffler", "host")
EVERY_STORAGE = pytest.mark.parametrize("storage", STORAGES)


def expect(row: Row, *, enough: int) -> None:
    assert row.found.acknowledged >= enough, row
    assert row.found.counted == row.found.acknowledged, row
    assert row.found.holds, row


@pytest.mark.everyday("sqlite")
@EVERY_STORAGE
def test_kills_of_both_services_and_a_wrong_clock_on_devices_lose_and_double_nothing(
    tmp_path: Path, storage: StorageName
) -> None:
    plan = Plan(storage, seed=3, period=2, grace=2, pause=0.3, least=5)
    with running(plan, tmp_path) as world, world.devices as devices:
        wait_for(lambda: devices.receipts.safe() > 0)
        world.set_clock("device", 7_200)
        for service in (*world.shufflers, *world.aggregators):
            time.sleep(max(0.0, world.next_close() - time.time()))  # when its batches leave
            service.kill()
            service.start()
        world.set_clock("device", 0)
        wait_for(lambda: devices.receipts.safe() > 150)
        devices.finish()
        expect(Row("smoke", plan, "", world.judge()), enough=150)
        assert devices.moved.told["no key for the period"], "their clock was wrong"

        # the judgement is worth something: what is acknowledged and was never sent is missed
        (period, *_) = [period for metric, period in devices.receipts.fates if metric == KEY]
        (value,) = devices.receipts.take(KEY, period, 1)
        devices.receipts.acknowledged(KEY, period, value)
        assert world.judge().lost == 1


@pytest.mark.full
@pytest.mark.timeout(1_200)
@EVERY_STORAGE
def test_thirty_kills_of_each_service_lose_and_double_nothing(tmp_path: Path, storage: StorageName) -> None:
    expect(runs.kill(Plan(storage, seed=12), tmp_path, kills=30), enough=2_000)


@pytest.mark.full
@pytest.mark.timeout(900)
@EVERY_STORAGE
def test_services_that_stand_still_for_longer_than_their_lease_lose_and_double_nothing(
    tmp_path: Path, storage: StorageName
) -> None:
    plan = Plan(storage, seed=33, shufflers=2, aggregators=2 if storage == "redis" else 1)
    expect(runs.stop(plan, tmp_path, stops=12), enough=1_000)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_redis_that_is_killed_stands_still_or_hangs_up_loses_and_doubles_nothing(tmp_path: Path) -> None:
    expect(runs.redis(Plan("redis", seed=32, shufflers=2, aggregators=2), tmp_path, events=15), enough=1_000)


@pytest.mark.full
@pytest.mark.timeout(900)
@EVERY_STORAGE
def test_a_bad_network_loses_and_doubles_nothing(tmp_path: Path, storage: StorageName) -> None:
    expect(runs.proxy(Plan(storage, seed=21, max_batch=80, bad_network=True), tmp_path, requests=400), enough=500)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.skipif(faketime() is None, reason=NO_FAKETIME)
@pytest.mark.parametrize("offset", [7_200, -7_200])
@pytest.mark.parametrize(("storage", "party"), [*product(STORAGES, SERVICES), ("redis", "redis")])
def test_a_clock_that_is_wrong_for_a_while_destroys_nothing_and_silences_nobody(
    tmp_path: Path, storage: StorageName, party: Party, offset: int
) -> None:
    cell = excursion(Plan.for_clocks(storage, party), tmp_path, party, offset, seconds=25)
    assert cell.found.acknowledged > 200
    assert cell.holds, cell
