"""Clocks that are wrong for a minute, of the shuffler, of Redis or of both services' machine: nothing is closed, begun
or forgotten.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.bundle import SealingKey
from hubbub.codebook import Codebook
from hubbub_service_common.clock import last_seen
from hubbub_service_common.clock.last_seen import FILE
from hubbub_shuffler.bundle.begun_periods import Held
from hubbub_shuffler.storage import Arrivals, Bucket, Terms
from hubbub_shuffler.storage.redis.key_names import SHARDS, Keys, member_of
from tests.shuffler.world import (
    CLOSES,
    HOUR,
    KEYS,
    METRIC,
    NOW,
    PERIOD,
    SEALED,
    TOKEN,
    World,
    codebook,
    signed,
    unique,
    upload,
)
from tests.shuffler.wrong_clocks import DAY, OFFSETS, WRONG, Machine, a_minute, holding, shuffler, wait, wrong
from tests.support.redis_server import RedisServer

BUCKET = Bucket(METRIC, PERIOD, 1)
TERMS = Terms("dark_mode", SEALED, CLOSES, 3)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture(params=["sqlite", "redis"])
def server(request: pytest.FixtureRequest) -> RedisServer | None:
    found: RedisServer | None = request.getfixturevalue("redis_server") if request.param == "redis" else None
    return found


@pytest.fixture(
    params=[("sqlite", "shuffler"), ("redis", "shuffler"), ("redis", "server"), ("sqlite", "host"), ("redis", "host")],
    ids="-".join,
)
def place(request: pytest.FixtureRequest) -> tuple[RedisServer | None, str]:
    """Where reports are, and whose clock is wrong. SQLite has none of its own."""
    on, whose = request.param
    return request.getfixturevalue("redis_server") if on == "redis" else None, whose


async def reason(world: World, sealed: list[bytes], **header: Any) -> str | None:
    """Why an upload of one report is not taken; None if it is."""
    answer = await world.post(upload(sealed, **header))
    if answer.status_code == 202:
        return None
    document = answer.json()
    return str(document["failures"][0]["reason"] if answer.status_code == 200 else document["type"].split(":")[-1])


@pytest.mark.everyday
@pytest.mark.parametrize("offset", OFFSETS)
async def test_a_minute_under_a_wrong_clock_loses_nothing(
    tmp_path: Path, machine: Machine, place: tuple[RedisServer | None, str], offset: float
) -> None:
    """A crowd that has not yet its minimum would be discarded if its bucket closed now."""
    server, whose = place

    async with holding(shuffler(tmp_path, machine, server, on_one_host=whose == "host")) as world:
        acknowledged, waiting = unique(2), unique(3)
        assert await reason(world, acknowledged) is None
        with wrong(machine, offset, whose):
            for sealed in list(waiting):
                await a_minute(world, machine)
                why = await reason(world, [sealed])
                assert why in {None, "clock-in-doubt", "period-in-future", "no-bundle"}
                if whose == "server" or abs(offset) == 8:
                    assert why is None
                if why is None:
                    acknowledged.append(sealed)
                    waiting.remove(sealed)
        await a_minute(world, machine)
        for sealed in waiting:  # devices that were told to come again
            assert await reason(world, [sealed]) is None
        machine.running = CLOSES - NOW
        await wait(world, machine, HOUR)
        assert sorted(world.aggregator.delivered()) == sorted(acknowledged + waiting)
        counts = (await world.storage.overview()).counts
        assert counts["dark_mode", "accepted"] == (5, 1)
        assert ("dark_mode", "discarded") not in counts


@pytest.mark.everyday
@pytest.mark.parametrize("on_one_host", [False, True])
@pytest.mark.parametrize("offset", WRONG)
async def test_what_would_be_late_for_good_is_told_to_come_again(
    tmp_path: Path, machine: Machine, offset: float, on_one_host: bool
) -> None:
    async with holding(shuffler(tmp_path, machine, None, on_one_host=on_one_host)) as world:
        with wrong(machine, offset):
            why = await reason(world, unique(1), period=PERIOD - 3)  # late by the right clock, too
            assert why in {"clock-in-doubt", "no-bundle", "period-in-future", None}
        assert await reason(world, unique(1), period=PERIOD - 3) == "period-closed"


async def test_a_reading_that_was_wrong_is_not_final_though_the_clock_is_right_again(
    tmp_path: Path, machine: Machine
) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        readings = [machine.right() + 2.0 * HOUR]  # of this upload; the clock is set right while it is judged
        world.ingest._clock = lambda: readings[0]
        assert await reason(world, unique(1)) == "clock-in-doubt"
        readings[0] = machine.right()
        assert await reason(world, unique(1)) is None


async def test_a_clock_that_is_ahead_admits_what_it_would_and_says_why_not(tmp_path: Path, machine: Machine) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        with wrong(machine, 2.0 * HOUR):
            assert await reason(world, unique(1)) == "clock-in-doubt"
            assert await reason(world, unique(1), period=PERIOD + 2, key_id=2) == "period-in-future"
        with wrong(machine, 0.8 * HOUR):
            assert await reason(world, unique(1)) is None
        assert world.ingest.refused["clock-in-doubt"] == 1


@pytest.mark.everyday
@pytest.mark.parametrize("on_one_host", [False, True])
@pytest.mark.parametrize("offset", WRONG)
async def test_no_period_begins_under_a_wrong_clock(
    tmp_path: Path, machine: Machine, server: RedisServer | None, offset: float, on_one_host: bool
) -> None:
    """Else those of 400 days would be held to today's codebook, and every edit of it be refused."""
    async with holding(shuffler(tmp_path, machine, server, on_one_host=on_one_host)) as world:
        before = await world.storage.held_periods()
        with wrong(machine, offset):
            await a_minute(world, machine)
        assert await world.storage.held_periods() == before
        assert max(stretch.last for stretch in Held.from_bytes(before).stretches) == PERIOD
        edited = codebook(min_batch=4)
        world.aggregator.bundle = signed(machine.right(), books={0: codebook(), PERIOD + 1: edited})
        assert await world.bundles.refresh()
        machine.running = HOUR
        await world.bundles.hold()
        assert world.bundles.held.through == PERIOD + 1
        assert await reason(world, unique(1), period=PERIOD + 1, key_id=2) is None


async def test_a_process_that_starts_while_the_aggregator_is_away_goes_on_if_its_clock_did(
    tmp_path: Path, machine: Machine, server: RedisServer | None
) -> None:
    prefix = "goes-on" + str(id(machine))

    async with holding(shuffler(tmp_path, machine, server, prefix=prefix)) as world:
        again = shuffler(tmp_path, machine, server, world.aggregator, prefix=prefix)
        world.aggregator.up = False
        async with again:
            assert await reason(again, unique(3)) is None
            machine.running = HOUR
            assert await reason(again, unique(1), period=PERIOD + 1, key_id=2) is None
            machine.running = CLOSES - NOW
            await again.batcher.tick()
            assert {bucket.state for bucket in (await again.storage.overview()).waiting} == {"planned", "open"}


@pytest.mark.everyday
@pytest.mark.parametrize("apart", [-360.0, 360.0, -HOUR / 2, 5 * DAY])
async def test_while_the_aggregators_clock_is_wrong_periods_begin_one_by_one_by_both_clocks(
    tmp_path: Path, machine: Machine, server: RedisServer | None, apart: float
) -> None:
    """Else every report of a new period is lost to the collection for as long as it lasts."""
    async with holding(shuffler(tmp_path, machine, server)) as world:
        world.aggregator.clock = lambda: machine.right() + apart
        await world.bundles.refresh()
        behind = max(0.0, -apart)
        for later in range(1, 4):
            start = later * HOUR - 600 + behind
            machine.running = start - 65  # it begins a minute early
            await world.bundles.hold()
            assert world.bundles.held.through == PERIOD + later - 1
            if not behind:
                assert await reason(world, unique(1), period=PERIOD + later, key_id=2) == "period-in-future"
            machine.running = start
            assert await reason(world, unique(1), period=PERIOD + later, key_id=2) is None
            assert world.bundles.held.through == PERIOD + later
        await world.batcher.tick()
        assert {bucket.state for bucket in (await world.storage.overview()).waiting} == {"open"}
        assert world.trusted.disagrees


async def test_a_period_that_begins_in_doubt_begins_under_the_bundle_at_hand(tmp_path: Path, machine: Machine) -> None:
    """And not under one that comes after its start."""
    async with holding(shuffler(tmp_path, machine, None)) as world:
        world.aggregator.clock = lambda: machine.right() + 360
        await world.bundles.refresh()
        machine.running = HOUR
        world.aggregator.bundle = signed(machine.right(), books={0: codebook(), PERIOD + 1: codebook(min_batch=4)})
        assert not await world.bundles.refresh()
        assert world.bundles.refused["ChangedPeriod"] == 1
        assert await reason(world, unique(1), period=PERIOD + 1, key_id=2) is None


async def test_a_process_that_starts_in_doubt_takes_reports_of_periods_that_had_begun(
    tmp_path: Path, machine: Machine, server: RedisServer | None
) -> None:
    prefix = "restarted" + str(id(machine))

    async with holding(shuffler(tmp_path, machine, server, prefix=prefix)) as world:
        (tmp_path / FILE).unlink()  # nothing is known of when it ran last
        again = shuffler(tmp_path, machine, server, world.aggregator, prefix=prefix)
        world.aggregator.up = False
        async with again:
            assert not again.trusted.believable(again.bundles.wait)
            assert await reason(again, unique(1)) is None
            machine.running = HOUR - 1
            assert await reason(again, unique(1), period=PERIOD + 1, key_id=2) == "period-in-future"
            machine.running = HOUR  # as long as any clock must have run undisputed
            assert await reason(again, unique(1), period=PERIOD + 1, key_id=2) is None


async def test_a_process_that_starts_under_a_wrong_clock_closes_nothing(
    tmp_path: Path, machine: Machine, server: RedisServer | None
) -> None:
    prefix = "wrong" + str(id(machine))

    async with holding(shuffler(tmp_path, machine, server, prefix=prefix)) as world:
        assert await reason(world, unique(2)) is None
        again = shuffler(tmp_path, machine, server, world.aggregator, prefix=prefix)
        with wrong(machine, 5 * DAY):
            async with again:
                await a_minute(again, machine)
        assert [bucket.state for bucket in (await world.storage.overview()).waiting] == ["open"]


@pytest.mark.everyday
@pytest.mark.parametrize("booted", [False, True])
@pytest.mark.parametrize("offset", WRONG)
async def test_a_machine_that_starts_both_services_under_a_wrong_clock_closes_nothing(
    tmp_path: Path,
    machine: Machine,
    server: RedisServer | None,
    monkeypatch: pytest.MonkeyPatch,
    offset: float,
    booted: bool,
) -> None:
    prefix = f"host{id(machine)}"

    def start() -> World:
        return shuffler(tmp_path, machine, server, prefix=prefix, on_one_host=True)

    async with holding(shuffler(tmp_path, machine, server, prefix=prefix)) as world:
        assert await reason(world, unique(2)) is None
        if booted:
            monkeypatch.setattr(last_seen, "this_boot", lambda: "another")
        with wrong(machine, offset, "host"):
            for _ in range(3):  # and again, and again: it does not vouch for itself
                async with start() as again:
                    await a_minute(again, machine)
                    assert await reason(again, unique(1)) in {None, "clock-in-doubt", "period-in-future", "no-bundle"}
        async with start() as again:
            await a_minute(again, machine)
            assert again.trusted.believable(again.bundles.wait)
        waiting = (await world.storage.overview()).waiting
        assert [bucket.state for bucket in waiting] == ["open"]
        assert waiting[0].reports >= 2
        assert world.bundles.held.through == PERIOD


async def test_after_a_boot_and_an_outage_of_more_than_an_hour_closing_waits_for_one(
    tmp_path: Path, machine: Machine, server: RedisServer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be a wrong clock. Nobody loses anything by it."""
    prefix = f"outage{id(machine)}"

    async with holding(shuffler(tmp_path, machine, server, prefix=prefix)) as world:
        sealed = unique(3)
        assert await reason(world, sealed) is None
        machine.running += 5 * HOUR
        monkeypatch.setattr(last_seen, "this_boot", lambda: "another")
        async with shuffler(tmp_path, machine, server, world.aggregator, prefix=prefix) as again:
            await wait(again, machine, HOUR - 60)
            assert not world.aggregator.delivered()
            assert "was set" in str(again.trusted.warning())
            await wait(again, machine, 120, 10)
            assert sorted(world.aggregator.delivered()) == sorted(sealed)
            assert again.trusted.warning() is None


async def test_short_sessions_on_a_machine_that_boots_every_day_close_and_begin_one_session_later(
    tmp_path: Path, machine: Machine, server: RedisServer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"sessions{id(machine)}"

    async with holding(shuffler(tmp_path, machine, server, prefix=prefix)) as world:
        sealed = unique(3)
        assert await reason(world, sealed) is None
        for session in range(2):
            machine.running += 5 * HOUR
            monkeypatch.setattr(last_seen, "this_boot", lambda session=session: f"boot-{session}")
            async with shuffler(tmp_path, machine, server, world.aggregator, prefix=prefix, on_one_host=True) as again:
                for minutes, delivered in ((8, []), (42, sealed if session else [])):
                    await wait(again, machine, minutes * 60, 60)
                    assert sorted(world.aggregator.delivered()) == sorted(delivered)
                assert not again.trusted.believable(again.bundles.wait)
                assert again.bundles.held.through == (PERIOD + 5 if session else PERIOD)


LATER = 8 * 24
"""Periods after which the first one is past its horizon, and its key erased."""


@pytest.mark.everyday
@pytest.mark.parametrize("books", [{0: codebook()}, {PERIOD + 1: codebook()}], ids=["codebook stays", "codebook gone"])
async def test_after_a_long_outage_a_bundle_need_not_list_what_is_past_its_horizon_by_both_clocks(
    tmp_path: Path,
    machine: Machine,
    server: RedisServer | None,
    monkeypatch: pytest.MonkeyPatch,
    books: dict[int, Codebook],
) -> None:
    """Else no bundle is taken for the wait, nor the revocations in it."""
    prefix, now = f"erased{id(machine)}", PERIOD + LATER
    keys = (SealingKey(7, KEYS[0].public_key, now - 1, now + 9, "active"), replace(KEYS[1], id=8, state="revoked"))

    async with holding(shuffler(tmp_path, machine, server, prefix=prefix)) as world:
        before = Held.from_bytes(await world.storage.held_periods()).stretches
        machine.running += LATER * HOUR
        monkeypatch.setattr(last_seen, "this_boot", lambda: "another")
        world.aggregator.bundle = signed(machine.right(), books=books, keys=keys)
        async with shuffler(tmp_path, machine, server, world.aggregator, prefix=prefix) as again:
            assert await again.bundles.refresh()
            await again.bundles.hold()
            assert not again.trusted.believable(again.bundles.wait)
            assert again.bundles.current is not None
            assert {key.state for key in again.bundles.current.bundle.body.keys} == {"active", "revoked"}
            assert again.bundles.refused["ChangedPeriod"] == 0
            held = Held.from_bytes(await again.storage.held_periods()).stretches
            assert [key for stretch in held if stretch.last == PERIOD for key in stretch.keys] == list(before[-1].keys)
            another = SealingKey(9, KEYS[1].public_key, PERIOD, PERIOD, "active")
            machine.running += 1
            world.aggregator.bundle = signed(machine.right(), keys=(*keys, another))
            assert not await again.bundles.refresh()  # it gets no other key all the same
            assert again.bundles.refused["ChangedPeriod"] == 1


@pytest.mark.parametrize("whose", ["shuffler", "aggregator"])
async def test_one_clock_that_is_ahead_lets_no_bundle_drop_a_key(tmp_path: Path, machine: Machine, whose: str) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        if whose == "shuffler":
            machine.offset = LATER * HOUR
        else:
            world.aggregator.clock = lambda: machine.right() + LATER * HOUR
        machine.running += 1
        world.aggregator.bundle = signed(machine(), keys=KEYS[1:])
        assert not await world.bundles.refresh()
        assert world.bundles.refused["ChangedPeriod"] == 1


@pytest.mark.everyday
@pytest.mark.parametrize("offset", WRONG)
async def test_that_a_bucket_was_closed_is_not_forgotten_under_a_wrong_clock(
    tmp_path: Path, machine: Machine, place: tuple[RedisServer | None, str], offset: float
) -> None:
    prefix, (server, whose) = f"tombstones{id(machine)}", place

    async with holding(shuffler(tmp_path, machine, server, prefix=prefix, on_one_host=whose == "host")) as world:
        assert await reason(world, unique(3)) is None
        machine.running = CLOSES - NOW
        await wait(world, machine, HOUR)
        assert not (await world.storage.overview()).waiting
        with wrong(machine, offset, whose):
            await a_minute(world, machine)
        late = Terms("dark_mode", SEALED, 2**40, 3)  # no clock refuses it
        assert await world.storage.add([Arrivals(BUCKET, late, unique(1))]) == {BUCKET: "period-closed"}
        if server is not None:
            client, member = server.client(), member_of(BUCKET)
            keys = [Keys(prefix).shard(member, shard) for shard in range(SHARDS)]
            assert {client.ttl(key) for key in keys} == {-1}
            client.close()
        await wait(world, machine, 2 * HOUR)  # FORGET_AFTER, and the wait
        assert await world.storage.add([Arrivals(BUCKET, late, unique(1))]) == {}


async def test_revoked_keys_and_metrics_that_are_off_close_their_buckets_in_doubt(
    tmp_path: Path, machine: Machine
) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        assert await reason(world, unique(5)) is None
        machine.running += 1
        keys = (replace(KEYS[0], state="revoked"), *KEYS[1:])
        world.aggregator.bundle = signed(machine.right(), keys=keys)
        with wrong(machine, -2.0 * HOUR):
            await a_minute(world, machine)
            assert world.trusted.disagrees
        counts = (await world.storage.overview()).counts
        assert counts["dark_mode", "discarded"] == (5, 1)


async def test_every_request_says_what_time_it_is_here_and_every_answer_is_heard(
    tmp_path: Path, machine: Machine
) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        assert await reason(world, unique(3)) is None
        machine.running = CLOSES - NOW
        await wait(world, machine, 60)
        for method, path, headers in world.aggregator.requests:
            assert headers["authorization"] == f"Bearer {TOKEN}", (method, path)
            assert headers["date"].endswith("GMT")
        assert {method for method, _, _ in world.aggregator.requests} == {"GET", "PUT"}
        assert world.trusted.skew == pytest.approx(0, abs=1)
        world.aggregator.clock = lambda: machine.right() - HOUR
        world.aggregator.headers_too = [(b"age", b"3600")]  # a cache's answer
        await world.bundles.refresh()
        assert not world.trusted.disagrees
        world.aggregator.headers_too = []
        await world.bundles.refresh()
        assert world.trusted.skew == pytest.approx(HOUR, abs=1)


async def test_the_aggregator_is_asked_again_soon_while_the_clock_is_in_doubt(tmp_path: Path, machine: Machine) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        fetching = asyncio.create_task(world.bundles.run())
        while not world.aggregator.requests[1:]:
            await asyncio.sleep(0)
        seen = len(world.aggregator.requests)
        await world.batcher.tick()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(world.aggregator.requests) == seen  # all is well
        machine.offset = 3.0 * HOUR
        for _ in range(2):
            world.bundles._fetched -= 10  # as if that long had passed since
            await world.batcher.tick()
            async with asyncio.timeout(10):
                while len(world.aggregator.requests) == seen:
                    await asyncio.sleep(0.001)
            seen = len(world.aggregator.requests)
        await world.batcher.tick()  # not with every tick
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(world.aggregator.requests) == seen
        fetching.cancel()


async def test_the_wait_is_the_horizon_if_that_is_shorter_than_an_hour(tmp_path: Path, machine: Machine) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        assert world.bundles.wait == 3_600
        assert world.bundles.current is not None
        for each in world.bundles.current.bundle.body.codebooks:
            object.__setattr__(each, "forward_horizon", 600)
        assert world.bundles.wait == 600
        assert world.trusted.past(world.bundles.wait) == -math.inf
