"""A crash between any two steps: it loses and doubles nothing that was acknowledged. Unique reports tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from hubbub_shuffler.storage import AsyncStorage, Bucket
from tests.shuffler.backends import Make, forgotten, on_redis, sqlite
from tests.shuffler.world import CLOSES, NOW, StubAggregator, World, unique, upload
from tests.support.clock import Clock

STEPS = ["add", "close", "seed", "plan", "halved", "claim", "postpone", "settle", "forget"]


class Crash(Exception):
    """The process ends here."""


class CrashingStorage:
    """The real storage; the process dies before or after its n-th step."""

    def __init__(self, storage: AsyncStorage, step: int, *, after: bool) -> None:
        self._storage, self._left, self._after = storage, step, after
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._storage, name)
        if name not in STEPS:
            return method

        async def step(*arguments: Any, **named: Any) -> Any:
            self._before()
            result = await method(*arguments, **named)
            if self.dead:
                raise Crash
            return result

        return step

    async def read(self, bucket: Bucket) -> AsyncIterator[bytes]:
        self._before()
        async for piece in self._storage.read(bucket):
            yield piece
            if self.dead:
                raise Crash

    def _before(self) -> None:
        if self.dead:
            raise Crash
        self._left -= 1
        self.dead = self._left == 0
        if self.dead and not self._after:
            raise Crash


@contextmanager
def suppress_crash() -> Iterator[None]:
    """From wherever in the process it comes."""
    try:
        yield
    except* Crash:
        pass


async def report_all(world: World, uploads: list[list[bytes]]) -> None:
    """Devices send what is not acknowledged yet, the same bytes at every attempt."""
    while uploads:
        answer = await world.post(upload(uploads[0]))
        if answer.status_code != 202:
            raise Crash
        uploads.pop(0)


async def crashed_run(
    request: pytest.FixtureRequest, make: Make, directory: Path, step: int, *, after: bool, lost_answer: bool
) -> bool:
    """One life that ends at a step and the life after it; False when the first one never came so far."""
    directory.mkdir()
    clock, aggregator = Clock(NOW), StubAggregator()
    backend = make(request, directory, clock)
    sealed = unique(30)
    uploads = [sealed[:20], sealed[20:]]

    storage = CrashingStorage(backend.open(), step, after=after)
    if lost_answer:
        aggregator.answers = [httpx2.ReadError("the answer is lost on its way back")]
    async with World(directory, aggregator, clock, cast("AsyncStorage", storage), max_batch=20) as first:
        with suppress_crash():
            await report_all(first, uploads)
            clock.now = CLOSES
            await first.settle_all()
        died = storage.dead
    async with World(directory, aggregator, clock, backend.open(), max_batch=20) as second:
        await report_all(second, uploads)
        clock.now = max(clock.now, CLOSES)
        await second.settle_all()
        await forgotten(second.storage)
        counts = (await second.storage.overview()).counts
        assert counts["dark_mode", "accepted"] == (30, 2)
        twice = counts.get(("dark_mode", "duplicate"))
        assert counts["dark_mode", "ingested"].reports == 30 + (twice.reports if twice else 0)
    assert Counter(aggregator.delivered()) == Counter(sealed)
    for batch_id, body in aggregator.puts:
        assert aggregator.batches[batch_id] == body
    left = backend.files()
    assert not [each for each in sealed if each in left]
    return died


@pytest.mark.parametrize(
    ("make", "after", "lost_answer", "stride"),
    [
        pytest.param(sqlite, True, True, 4, id="sqlite: after every fourth step, and an answer is lost"),
        pytest.param(sqlite, True, True, 1, id="sqlite: after, and an answer is lost", marks=pytest.mark.full),
        pytest.param(sqlite, True, False, 1, id="sqlite: after", marks=pytest.mark.full),
        pytest.param(sqlite, False, True, 1, id="sqlite: before, and an answer is lost", marks=pytest.mark.full),
        pytest.param(sqlite, False, False, 1, id="sqlite: before", marks=pytest.mark.full),
        pytest.param(on_redis("redis_server"), True, True, 1, id="redis: after", marks=pytest.mark.full),
        pytest.param(on_redis("redis_server"), False, True, 1, id="redis: before", marks=pytest.mark.full),
    ],
)
async def test_a_crash_at_any_step_loses_and_doubles_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, make: Make, after: bool, lost_answer: bool, stride: int
) -> None:
    step = 1
    while await crashed_run(request, make, tmp_path / str(step), step, after=after, lost_answer=lost_answer):
        step += stride
    assert step > 14  # two commits, closing, planning, two batches sent, polled and settled, deletion
