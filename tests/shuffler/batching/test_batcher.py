"""The batcher, from a full bucket to a settled batch: none is too small, none leaves twice, each verdict is counted."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hubbub.wire import BATCH_HEADER_BYTES, BATCH_TYPE, BatchHeader
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_shuffler.batching.batch_worker import Batcher
from hubbub_shuffler.batching.lease_length import Lease
from hubbub_shuffler.batching.permute import places
from hubbub_shuffler.forwarding.aggregator_client import Upstream
from hubbub_shuffler.forwarding.forward_attempt import LARGEST_ANSWER, Again, Answer, Final, Forwarder
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Batch, Bucket, Count, StorageError, Terms
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.shuffler.world import (
    AGGREGATOR,
    CLOSES,
    HOUR,
    KEYS,
    METRIC,
    NOW,
    PERIOD,
    SEALED,
    THEME,
    THEME_SEALED,
    TOKEN,
    StubAggregator,
    World,
    codebook,
    files_of,
    key,
    signed,
    unique,
    upload,
)
from tests.support.patience import PATIENCE


async def closed_with(world: World, sealed: list[bytes]) -> None:
    for at in range(0, len(sealed), 50):
        assert (await world.post(upload(sealed[at : at + 50]))).status_code == 202
    world.clock.now = CLOSES


async def counts(world: World) -> dict[str, Count]:
    found = (await world.storage.overview()).counts
    return {what: count for (name, what), count in found.items() if name == "dark_mode"}


async def test_a_bucket_leaves_whole_as_one_batch_after_its_close_and_not_before(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        sealed = unique(120)
        await closed_with(world, sealed)
        world.clock.now = CLOSES - 1
        await world.batcher.tick()
        assert not world.aggregator.puts
        world.clock.now = CLOSES
        await world.settle_all()
        assert world.aggregator.headers() == [BatchHeader(METRIC, PERIOD, 1, 120, SEALED)]
        assert sorted(world.aggregator.delivered()) == sorted(sealed)
        assert world.aggregator.delivered() != sealed
        assert await counts(world) == {"ingested": (120, 0), "accepted": (120, 1)}


async def test_the_request_is_made_afresh_and_authorized(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.post(
            upload(unique(5)), **{"X-Device": "canary", "User-Agent": "canary", "X-Forwarded-For": "canary"}
        )
        world.clock.now = CLOSES
        await world.settle_all()
        puts = [headers for method, _, headers in world.aggregator.requests if method == "PUT"]
        assert len(puts) == 1
        assert puts[0]["authorization"] == f"Bearer {TOKEN}"
        assert puts[0]["content-type"] == BATCH_TYPE
        assert "canary" not in str(world.aggregator.requests)


async def test_identical_reports_leave_once(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        sealed = unique(10)
        await closed_with(world, sealed + sealed[:4] + sealed[:1])
        await world.settle_all()
        assert sorted(world.aggregator.delivered()) == sorted(sealed)
        assert (await counts(world))["duplicate"] == (5, 0)


@pytest.mark.parametrize(("floor", "min_batch"), [(20, 3), (2, 20)])
@pytest.mark.parametrize("count", [1, 19, 20])
async def test_nothing_below_the_larger_of_codebook_and_floor_leaves(
    tmp_path: Path, floor: int, min_batch: int, count: int
) -> None:
    async with World(tmp_path, StubAggregator(signed(book=codebook(min_batch))), min_batch_floor=floor) as world:
        sealed = unique(count)
        await closed_with(world, sealed)
        await world.settle_all()
        if count < 20:
            assert world.aggregator.headers() == [BatchHeader(METRIC, PERIOD, 1, kind="discard")]
            assert [len(body) for body in world.aggregator.batches.values()] == [BATCH_HEADER_BYTES]
            assert await counts(world) == {
                "ingested": (count, 0),
                "discarded": (count, 1),
                "discard-accepted": (0, 1),
            }
            assert not [each for each in sealed if each in files_of(tmp_path)]
        else:
            assert len(world.aggregator.delivered()) == 20


async def test_duplicates_do_not_count_towards_the_minimum(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        sealed = unique(2)
        await closed_with(world, sealed * 10)
        await world.settle_all()
        assert [header.kind for header in world.aggregator.headers()] == ["discard"]


async def test_a_bucket_above_the_largest_batch_is_cut_and_all_of_it_arrives(tmp_path: Path) -> None:
    async with World(tmp_path, max_batch=100) as world:
        sealed = unique(250)
        await closed_with(world, sealed)
        await world.settle_all()
        assert sorted(header.count for header in world.aggregator.headers()) == [83, 83, 84]
        assert {header.count + header.in_other_batches for header in world.aggregator.headers()} == {250}
        assert sorted(world.aggregator.delivered()) == sorted(sealed)
        assert (await counts(world))["accepted"] == (250, 3)
        assert not [each for each in sealed if each in files_of(tmp_path)]


async def test_a_revoked_key_discards_its_bucket_at_once(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        sealed = unique(50)
        await closed_with(world, sealed)
        world.clock.now = NOW
        world.aggregator.bundle = signed(NOW + 1, keys=(key(1, PERIOD - 100, PERIOD, "revoked"), *KEYS[1:]))
        assert await world.bundles.refresh()
        await world.settle_all()
        assert world.aggregator.headers() == [BatchHeader(METRIC, PERIOD, 1, kind="discard")]
        assert not [each for each in sealed if each in files_of(tmp_path)]


async def test_a_bucket_closed_for_its_key_never_leaves_even_if_the_key_is_forgotten(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await closed_with(world, unique(50))
        world.clock.now = NOW
        await world.storage.close({1})  # and the process died before it planned anything
        await world.settle_all()
        assert [header.kind for header in world.aggregator.headers()] == ["discard"]


async def test_a_metric_that_left_the_bundle_keeps_the_minimum_it_was_collected_under(tmp_path: Path) -> None:
    async with World(tmp_path, StubAggregator(signed(book=codebook(11)))) as world:
        await closed_with(world, unique(10))
        world.aggregator.bundle = signed(NOW + 1, book=codebook(11), first_period=PERIOD + 1)
        assert await world.bundles.refresh()
        await world.settle_all()
        assert [header.kind for header in world.aggregator.headers()] == ["discard"]


async def test_a_codebook_that_comes_later_does_not_lower_the_minimum_of_what_was_collected(tmp_path: Path) -> None:
    async with World(tmp_path, StubAggregator(signed(book=codebook(11)))) as world:
        await closed_with(world, unique(10))
        world.aggregator.bundle = signed(NOW + 1, books={0: codebook(3), PERIOD + 1: codebook(11)})
        assert await world.bundles.refresh()
        await world.settle_all()
        assert [header.kind for header in world.aggregator.headers()] == ["discard"]


async def test_a_bucket_that_cannot_be_read_holds_up_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with World(tmp_path) as world:
        await closed_with(world, unique(10))
        world.clock.now = NOW
        other = Arrivals(Bucket(bytes(16), 1, 1), Terms("broken", 64, CLOSES, 2), unique(2, 64))
        await world.storage.add([other])
        world.clock.now = CLOSES
        file = sqlite3.connect(tmp_path / "reports.sqlite")
        (table,) = file.execute("SELECT waiting FROM buckets WHERE name = 'broken'").fetchone()
        file.execute(f"DROP TABLE {table}_1")  # where two reports lie
        file.commit()
        file.close()
        await world.batcher.tick()
        await world.batcher.tick()
        assert [header.count for header in world.aggregator.headers()] == [10]
        assert "a bucket of broken can't be planned" in caplog.text


FOR_GOOD = [
    "batch-too-small",
    "batch-conflict",
    "batch-too-late",
    "unknown-metric",
    "malformed-batch",
    "wrong-length",
    "unknown-key",
    "revoked-key",
]


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", FOR_GOOD)
async def test_a_refusal_past_our_own_horizon_settles_and_is_counted_by_its_name(tmp_path: Path, name: str) -> None:
    async with World(tmp_path) as world:
        sealed = unique(10)
        await closed_with(world, sealed)
        world.clock.now = CLOSES + 8 * 86_400
        world.aggregator.answers = [(409, name)]
        await world.batcher.tick()
        assert await counts(world) == {"ingested": (10, 0), name: (10, 1)}
        assert not [each for each in sealed if each in files_of(tmp_path)]
        world.clock.now += 10_000
        await world.batcher.tick()
        assert not world.aggregator.puts


async def test_a_verdict_that_comes_later_settles_too(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await closed_with(world, unique(10))
        world.aggregator.verdict = {"state": "pending", "reason": None}
        for _ in range(5):
            await world.batcher.tick()
            world.clock.now += 100
        assert len(world.aggregator.puts) == 1
        assert (await world.storage.overview()).batches == {"planned": 0, "sent": 1}
        world.aggregator.verdict = {"state": "refused", "reason": "batch-too-small"}
        await world.settle_all()
        assert (await counts(world))["batch-too-small"] == (10, 1)


async def test_an_aggregator_that_knows_the_verdict_says_it_at_once(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await closed_with(world, unique(10))

        def answer(*_request: Any) -> tuple[int, Any]:
            return 200, {"state": "accepted", "reason": None}

        world.aggregator._answer = answer  # type: ignore[method-assign, assignment]  # knows every batch already
        await world.batcher.tick()
        assert (await counts(world))["accepted"] == (10, 1)


PASSING = [
    httpx2.ReadTimeout("lost"),
    httpx2.ConnectError("refused"),
    (401, "unauthorized"),
    403,
    (404, "not-found"),
    404,
    408,
    (429, "rate-limited"),
    500,
    (503, "overloaded"),
    302,
    200,
    (413, "too-large"),
    409,
    pytest.param(b"1" * 5_000, id="a number of too many digits"),
    pytest.param(b"[" * 50_000, id="nested too deep"),
    pytest.param(b"\xff\xfe\0", id="no text"),
    pytest.param(b"x" * 2**20, id="a very long page"),
]


@pytest.mark.everyday(6)
@pytest.mark.parametrize("answer", PASSING, ids=str)
async def test_anything_else_is_tried_again_with_the_same_bytes(tmp_path: Path, answer: Any) -> None:
    async with World(tmp_path) as world:
        sealed = unique(30)
        await closed_with(world, sealed)
        world.aggregator.answers = [answer, answer]
        await world.batcher.tick()
        assert (await world.storage.overview()).batches["planned"] == 1
        await world.batcher.tick()  # not yet: it backs off
        assert len(world.aggregator.answers) == 1
        await world.settle_all()
        assert sorted(world.aggregator.delivered()) == sorted(sealed)
        assert len(set(world.aggregator.puts)) == 1
        assert (await counts(world))["accepted"] == (30, 1)


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    taken = 0

    async def page() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield b" " * LARGEST_ANSWER

    network = httpx2.MockTransport(lambda _request: httpx2.Response(200, content=page()))
    async with httpx2.AsyncClient(transport=network) as client:
        upstream = Upstream(client, address=AGGREGATOR, token=TOKEN, clock=TrustedClock())
        assert await Forwarder(upstream).verdict(bytes(16)) == Again("200")
    assert taken == 2


async def test_a_batch_too_large_for_the_aggregator_is_an_error_for_the_operator_and_waits_for_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with World(tmp_path) as world:
        sealed = unique(30)
        await closed_with(world, sealed)
        world.aggregator.answers = [(413, "too-large"), (503, "overloaded")]
        await world.batcher.tick()
        assert [(record.levelname, "max_batch_bytes" in record.message) for record in caplog.records] == [
            ("ERROR", True)
        ]
        world.clock.now += 100
        await world.batcher.tick()
        assert caplog.records[-1].levelname == "WARNING"
        await world.settle_all()  # the limit was raised
        assert sorted(world.aggregator.delivered()) == sorted(sealed)


@asynccontextmanager
async def running(worker: Batcher) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run(0.01))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.01)


async def test_attempts_without_end_hold_up_no_closing_and_no_deletion(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.post(upload(unique(5)) + upload(unique(5, THEME_SEALED), metric=THEME))
        world.clock.now += HOUR
        (late,) = unique(1)
        await world.post(upload([late], period=PERIOD + 1, key_id=2))
        world.clock.now = CLOSES
        hung: set[bytes] = set()

        async def hang(batch_id: bytes, *_call: Any) -> Answer:
            hung.add(batch_id)
            await asyncio.Event().wait()
            raise AssertionError

        world.batcher._forwarder.put = hang  # type: ignore[method-assign, assignment]  # a network that never answers

        async def stuck() -> bool:
            return len(hung) == 2

        async def forgotten() -> bool:
            return (await counts(world)).get("discarded") == (1, 1) and late not in files_of(tmp_path)

        async with running(world.batcher):
            await until(stuck)
            assert late in files_of(tmp_path)
            world.clock.now = CLOSES + HOUR
            await until(forgotten)


async def test_an_attempt_without_end_holds_up_no_other_batch(tmp_path: Path) -> None:
    async with World(tmp_path, max_batch=10) as world:
        sealed = unique(40)
        await closed_with(world, sealed)
        put, hung = world.batcher._forwarder.put, bytearray()

        async def hang_once(batch_id: bytes, length: int, body: AsyncIterator[bytes]) -> Answer:
            if not hung or hung == batch_id:
                hung[:] = batch_id
                await asyncio.Event().wait()
            return await put(batch_id, length, body)

        world.batcher._forwarder.put = hang_once  # type: ignore[method-assign]  # a network that fails one batch

        async def others_settled() -> bool:
            world.clock.now += 1
            return (await counts(world)).get("accepted") == (30, 3)

        async with running(world.batcher):
            await until(others_settled)
            assert hung.hex() not in world.aggregator.batches


SLOW = 60.0
"""Seconds after which an attempt fails: longer than the pause before the next, so that one is always due."""


async def test_batches_that_fail_slowly_starve_no_other(tmp_path: Path) -> None:
    async with World(tmp_path, max_batch=10) as world:
        await closed_with(world, unique(40))
        tried: Counter[bytes] = Counter()

        async def slow(batch_id: bytes, *_call: Any) -> Answer:
            tried[batch_id] += 1
            world.clock.now += SLOW
            return Final("accepted") if tried.total() > 12 else Again("ReadTimeout")

        world.batcher._forwarder.put = slow  # type: ignore[method-assign, assignment]  # a network with a time-out
        await world.batcher.tick()
        assert len(tried) == 4
        assert min(tried.values()) >= 3


@pytest.mark.parametrize("crashed", [False, True], ids=["postponed", "leased"])
async def test_a_clock_that_was_ahead_for_a_while_strands_no_batch(tmp_path: Path, crashed: bool) -> None:
    async with World(tmp_path) as world:
        sealed = unique(5)
        await closed_with(world, sealed)
        world.clock.now = CLOSES + 365 * 86_400
        world.aggregator.up = False
        await world.batcher.tick()
        if crashed:
            world.clock.now += 100
            assert await world.storage.claim(600.0)
        world.aggregator.up = True
        world.clock.now = CLOSES + 10
        await world.settle_all()
        assert sorted(world.aggregator.delivered()) == sorted(sealed)


async def test_the_pause_between_attempts_grows_and_stays_bounded(tmp_path: Path) -> None:
    world = World(tmp_path)
    batch = Batch(bytes(16), Bucket(METRIC, PERIOD, 1), Terms("dark_mode", 64, CLOSES, 3), "batch", 0, 1, 3, False, 0)
    pauses = [world.batcher._backoff(replace(batch, attempts=attempts)) for attempts in range(40)]
    assert all(2**n / 2 <= pause <= 2**n for n, pause in enumerate(pauses[:6]))
    assert all(30 <= pause <= 60 for pause in pauses[6:])
    await world.__aexit__()


async def test_an_aggregator_that_forgot_the_batch_gets_it_again(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await closed_with(world, unique(10))
        await world.batcher.tick()
        world.aggregator.batches.clear()
        await world.settle_all()
        assert len(world.aggregator.puts) == 2
        assert len(set(world.aggregator.puts)) == 1


async def test_two_workers_never_split_or_double_a_batch(tmp_path: Path) -> None:
    async with World(tmp_path, max_batch=100) as world:
        second = AsyncStorage(
            SqliteStorage(tmp_path / "reports.sqlite", clock=world.clock, entropy=world.batcher._entropy)
        )
        workers = [world.batcher, world.worker(second, max_batch=100)]
        sealed = unique(450)
        await closed_with(world, sealed)
        for _ in range(10):
            await asyncio.gather(*(worker.tick() for worker in workers))
            world.clock.now += 100
        assert Counter(world.aggregator.delivered()) == Counter(sealed)
        assert len(world.aggregator.batches) == 5
        assert await counts(world) == {"ingested": (450, 0), "accepted": (450, 5)}
        await second.aclose()


async def test_a_worker_that_is_stopped_gives_its_batch_back_at_once(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await closed_with(world, unique(10))
        reached = asyncio.Event()

        async def hang(*_call: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        stuck = world.worker()
        stuck._forwarder.put = hang  # type: ignore[method-assign, assignment]  # a network that never answers
        task = asyncio.create_task(stuck.tick())
        await reached.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await world.batcher.tick()
        assert len(world.aggregator.puts) == 1


async def test_a_worker_can_be_stopped_though_its_storage_is_gone(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await closed_with(world, unique(10))
        reached = asyncio.Event()

        async def hang(*_call: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        async def gone(*_call: Any, **_named: Any) -> bool:
            raise StorageError("no such file")

        world.batcher._forwarder.put = hang  # type: ignore[method-assign, assignment]  # a network that never answers
        task = asyncio.create_task(world.batcher.run(0.01))
        await reached.wait()
        world.storage.postpone = gone  # type: ignore[method-assign]  # a disk that failed
        task.cancel()
        ended, _ = await asyncio.wait([task], timeout=PATIENCE)
        assert ended
        assert task.cancelled()


async def test_an_attempt_ends_before_its_lease_does(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await closed_with(world, unique(10))

        async def hang(*_call: Any) -> None:
            await asyncio.Event().wait()

        stuck = world.worker()
        stuck._leases = Lease(0.02)
        stuck._forwarder.put = hang  # type: ignore[method-assign, assignment]  # a network that never answers
        await asyncio.wait_for(stuck.tick(), PATIENCE)
        await world.settle_all()
        assert len(world.aggregator.puts) == 1


async def test_seed_and_ids_come_from_the_generator_that_was_passed_in_and_nowhere_else(tmp_path: Path) -> None:
    async with World(tmp_path, max_batch=10) as world:
        drawn: list[bytes] = []

        def entropy(count: int) -> bytes:
            drawn.append(os.urandom(count))
            return drawn[-1]

        world.batcher._entropy = entropy
        sealed = unique(30)
        await closed_with(world, sealed)
        await world.batcher._tidy()
        seed = await world.storage.seed(Bucket(METRIC, PERIOD, 1))
        assert [len(each) for each in drawn] == [32, 16, 16, 16]
        assert seed == drawn[0]
        await world.settle_all()
        assert {bytes.fromhex(batch_id) for batch_id in world.aggregator.batches} == set(drawn[1:4])
        parts = [dict(world.aggregator.batches)[each.hex()][BATCH_HEADER_BYTES:] for each in drawn[1:4]]
        expected: list[bytes] = sorted(sealed, key=lambda each: places(each, SEALED, drawn[0]))
        assert b"".join(parts) == b"".join(expected)
