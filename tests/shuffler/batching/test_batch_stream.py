"""Streamed batches: made while they are sent, in bounded memory, with the same bytes every time, under a lease."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.refusals import Refused
from hubbub.wire import BATCH_HEADER_BYTES, BatchHeader
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_shuffler.batching.batch_stream import WINDOW_BYTES, in_order, primed
from hubbub_shuffler.batching.permute import stretch
from hubbub_shuffler.batching.ranking import rank
from hubbub_shuffler.forwarding.aggregator_client import Upstream
from hubbub_shuffler.forwarding.forward_attempt import Again, Answer, Final, Forwarder
from hubbub_shuffler.storage import Arrivals, AsyncStorage, Bucket, StorageError, Terms
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.shuffler.batcher_process import settle_all, upstream, worker
from tests.shuffler.stub_aggregator import RecordingAggregator
from tests.shuffler.world import TOKEN
from tests.support.patience import PATIENCE, awake

BUCKET = Bucket(b"metric of 16 B..", 7, 1)
CLOSES = 1_000


async def filled(path: Path, sealed: Iterable[list[bytes]], clock: Callable[[], float] = time.time) -> AsyncStorage:
    """A storage whose one bucket has all of these and was closed long ago."""
    early = SqliteStorage(path, clock=lambda: 0.0, entropy=os.urandom)
    for some in sealed:
        early.add([Arrivals(BUCKET, Terms("metric", len(some[0]), CLOSES, 2), some)])
    early.disconnect()
    return AsyncStorage(SqliteStorage(path, clock=clock, entropy=os.urandom))


async def in_pieces(reports: list[bytes], step: int) -> AsyncIterator[bytes]:
    for at in range(0, len(reports), step):
        yield b"".join(reports[at : at + step])


def by_definition(reports: Iterable[bytes], seed: bytes) -> list[bytes]:
    """The order of a batch, spelled out and with everything in memory."""

    def place(sealed: bytes) -> bytes:
        return blake2b(blake2b(sealed, digest_size=32).digest(), key=seed, digest_size=16).digest()

    return sorted(set(reports), key=place)


@settings(deadline=None, max_examples=60)
@given(
    reports=st.lists(st.binary(min_size=3, max_size=3), min_size=1, max_size=60),
    repeats=st.lists(st.integers(0, 59), max_size=20),
    parts=st.integers(1, 4),
    step=st.integers(1, 80),
    window=st.integers(1, 200),
    seed=st.binary(min_size=32, max_size=32),
    rng=st.randoms(use_true_random=False),
)
def test_what_is_streamed_is_the_order_by_definition_however_it_is_read(
    reports: list[bytes],
    repeats: list[int],
    parts: int,
    step: int,
    window: int,
    seed: bytes,
    rng: random.Random,
) -> None:
    stored = reports + [reports[i % len(reports)] for i in repeats]

    def read() -> AsyncIterator[bytes]:
        rng.shuffle(stored)
        return in_pieces(stored, step)

    async def sent() -> tuple[int, int, list[bytes]]:
        ranking = await rank(read(), 3, seed)
        cut = [ranking.places[stretch(ranking.distinct, part, parts)] for part in range(parts)]
        found = [[piece async for piece in in_order(read, members, 3, seed, window)] for members in cut]
        return ranking.distinct, ranking.duplicates, [b"".join(pieces) for pieces in found]

    # `rng` draws inside: where hypothesis ends an example there, anyio would leave an exception in a task of its own.
    distinct, duplicates, bodies = asyncio.run(sent())
    expected = by_definition(stored, seed)
    assert (distinct, duplicates) == (len(expected), len(stored) - len(expected))
    assert bodies == [b"".join(expected[stretch(distinct, part, parts)]) for part in range(parts)]


@pytest.mark.parametrize("gone", [10, 90], ids=["of the first window", "of the second window"])
async def test_a_report_that_is_gone_stops_the_batch_before_its_window_is_sent(gone: int) -> None:
    seed = os.urandom(32)
    reports = by_definition([os.urandom(8) for _ in range(100)], seed)
    left = reports[:gone] + reports[gone + 1 :]
    sent = []

    async def send() -> None:
        ranking = await rank(in_pieces(reports, 9), 8, seed)
        async for piece in in_order(lambda: in_pieces(left, 9), ranking.places, 8, seed, 50 * 8):
            sent.append(piece)  # noqa: PERF401  what was sent before the error counts

    with pytest.raises(StorageError):
        await send()
    assert b"".join(sent) == b"".join(reports[: gone // 50 * 50])


async def test_nothing_waits_on_a_connection_for_its_first_byte() -> None:
    made = []

    async def slow() -> AsyncIterator[bytes]:
        for piece in (b"one", b"two"):
            made.append(piece)
            yield piece

    ready = await primed(slow())
    assert made == [b"one"]
    assert [piece async for piece in ready] == [b"one", b"two"]


MEGABYTE = 10**6


async def cost_of(tmp_path: Path, reports: int, size: int, window: int) -> dict[str, float]:
    """Fill a bucket and let a fresh process forward it to a real server; all of it must arrive."""
    path = tmp_path / "reports.sqlite"
    sealed: set[bytes] = set()

    def groups() -> Iterator[list[bytes]]:
        for _ in range(reports // 2_000):
            some = [os.urandom(size) for _ in range(2_000)]
            sealed.update(blake2b(each, digest_size=16).digest() for each in some)
            yield some

    await (await filled(path, groups())).aclose()
    with RecordingAggregator(b"") as aggregator:
        command = [sys.executable, "-m", "tests.shuffler.batcher_process", str(path), aggregator.address]
        run = subprocess.run([*command, json.dumps({"window": window})], capture_output=True, text=True, check=True)
    assert aggregator.did == {"committed": 1}
    (body,) = aggregator.batches.values()
    assert BatchHeader.decode(body) == BatchHeader(*BUCKET, reports, size)
    assert {
        blake2b(body[at : at + size], digest_size=16).digest() for at in range(BATCH_HEADER_BYTES, len(body), size)
    } == sealed
    cost: dict[str, float] = json.loads(run.stdout)
    print(f"{reports} reports of {size} bytes: {cost}")  # noqa: T201  the measured cost, with -s
    return cost


SLACK = 24 * MEGABYTE
"""What is not ours to bound: the page cache of SQLite, the buffers of the connection, a piece, the allocator."""


async def test_memory_does_not_grow_with_the_bytes_of_a_batch(tmp_path: Path) -> None:
    """40 MB through a window of 8: with the whole batch in memory it would be above 40."""
    cost = await cost_of(tmp_path, 16_000, 2_500, 8 * MEGABYTE)
    assert cost["memory"] < 33 * 16_000 + 8 * MEGABYTE + SLACK


@pytest.mark.full
async def test_the_measure_of_memory_notices_a_batch_that_is_all_in_memory(tmp_path: Path) -> None:
    cost = await cost_of(tmp_path, 16_000, 2_500, 100 * MEGABYTE)
    assert cost["memory"] > 33 * 16_000 + 8 * MEGABYTE + SLACK


@pytest.mark.full
async def test_a_million_reports_take_a_window_and_33_bytes_each(tmp_path: Path) -> None:
    cost = await cost_of(tmp_path, 1_000_000, 300, WINDOW_BYTES)
    assert cost["memory"] < 33 * 1_000_000 + WINDOW_BYTES + SLACK


async def until(condition: Callable[[], bool], patience: float = PATIENCE) -> None:
    async with asyncio.timeout(patience):
        while not condition():
            await asyncio.sleep(0.01)


BIG = 2**15
"""Bytes of a report: a few hundred of them are more than the buffers of a connection hold."""


async def test_a_lease_is_extended_for_as_long_as_a_slow_upload_moves(tmp_path: Path) -> None:
    """The upload takes more than two leases; another worker that looks all the time gets nothing to do."""
    lease, sealed = 4.0, [os.urandom(BIG) for _ in range(200)]

    with awake() as lived, RecordingAggregator(b"", rate=len(sealed) * BIG / (2.5 * lease)) as aggregator:

        def clock() -> float:
            """Stands still while the machine is away, or a lease could run out that nobody was able to extend."""
            return CLOSES + lived()

        asyncio.get_running_loop().time = clock  # type: ignore[method-assign]  # half of it is how long nothing may move
        storage = await filled(tmp_path / "reports.sqlite", [sealed], clock)
        other = AsyncStorage(SqliteStorage(tmp_path / "reports.sqlite", clock=clock, entropy=os.urandom))
        async with upstream() as client:
            batcher = worker(storage, aggregator.address, client, lease=lease)
            await batcher._tidy()
            start = time.monotonic()
            attempt = asyncio.create_task(batcher._forward_due())
            await until(aggregator.arrived.is_set)
            while not aggregator.did["committed"] and not attempt.done():
                assert await other.claim(lease) is None
                await asyncio.sleep(0.02)
            assert time.monotonic() - start > 2 * lease
            await settle_all(storage, batcher)
            await attempt
        await storage.aclose()
        await other.aclose()
    assert aggregator.did == {"committed": 1}
    assert aggregator.lengths == [str(BATCH_HEADER_BYTES + 200 * BIG)]


async def test_a_worker_that_lost_its_lease_stops_sending_and_nothing_of_it_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sealed = [os.urandom(BIG) for _ in range(800)]
    lease, shift = 4 * PATIENCE, 0.0
    """Half of it is how long nothing may move."""

    with RecordingAggregator(b"") as aggregator:
        loop = asyncio.get_running_loop()
        time_of = loop.time
        loop.time = lambda: time_of() + shift  # type: ignore[method-assign]
        storage = await filled(tmp_path / "reports.sqlite", [sealed], lambda: CLOSES + loop.time() + 4 * shift)
        async with upstream(timeout=None) as client:
            paused = worker(storage, aggregator.address, client, lease=lease)
            await paused._tidy()
            aggregator.open.clear()
            attempt = asyncio.create_task(paused._forward_due())
            await until(aggregator.arrived.is_set)
            shift = lease / 4  # time to ask for more; and by the storage's clock the lease is over
            claim = await storage.claim(2 * lease)
            assert claim is not None
            aggregator.open.set()
            await attempt
            await until(lambda: aggregator.did["short"] == 1)
            assert not aggregator.batches
            assert [record.message.split(maxsplit=2)[2] for record in caplog.records] == [
                "went to another worker meanwhile"
            ]
            assert await storage.postpone(claim, 0.0, sent=False)  # still the other's
            await settle_all(storage, worker(storage, aggregator.address, client))
        await storage.aclose()
    assert aggregator.did == {"short": 1, "committed": 1}
    assert set(aggregator.delivered().values()) == {1}
    assert set(aggregator.delivered()) == set(sealed)


async def test_an_upload_that_is_cut_or_unanswered_is_repeated_byte_for_byte_and_counts_once(tmp_path: Path) -> None:
    sealed = [os.urandom(BIG) for _ in range(200)]

    with RecordingAggregator(b"", faults=0.5, seed=3) as aggregator:
        storage = await filled(tmp_path / "reports.sqlite", [sealed[:120], sealed[80:]])
        async with upstream() as client:
            await settle_all(storage, worker(storage, aggregator.address, client, max_batch=50, window=20 * BIG))
        assert (await storage.overview()).counts["metric", "accepted"] == (200, 4)
        await storage.aclose()
    assert aggregator.did["cut"]
    assert aggregator.did["again"]
    assert not aggregator.did["conflict"]
    assert aggregator.delivered() == Counter(sealed)


class HangsUp(httpx2.AsyncBaseTransport):
    """A proxy that reads so many pieces, hangs up on the aggregator, and passes on what that says then."""

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        pieces = aiter(request.stream)
        for _ in range(self._pieces):
            await anext(pieces, None)
        return httpx2.Response(400, json=Refused("malformed-batch", "it ended early").document())


@pytest.mark.parametrize(("read", "answer"), [(1, Again("cut off")), (3, Final("malformed-batch"))])
async def test_a_refusal_of_a_body_that_was_cut_on_its_way_is_not_final(read: int, answer: Answer) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async with httpx2.AsyncClient(transport=HangsUp(read)) as client:
        upstream = Upstream(client, address="http://aggregator.test", token=TOKEN, clock=TrustedClock())
        assert await Forwarder(upstream).put(bytes(16), 6, body()) == answer
