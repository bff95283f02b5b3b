"""Hundreds of threads that record while others flush: each value counts once, and no thread waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hubbub_client import Outcome
from hubbub_client._http.transport import Answer
from hubbub_client.testing import Request
from tests.client.world import DAY, World, reduced, rows
from tests.support.patience import PATIENCE, within

THREADS = 200
LONGEST = PATIENCE
"""Seconds after which a test calls it a deadlock."""

T = TypeVar("T")


def together(count: int, act: Callable[[int], T]) -> list[T]:
    """What `act` returns in so many threads that begin at the same moment."""
    gate = threading.Barrier(count)

    def begin(number: int) -> T:
        gate.wait(LONGEST)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count), timeout=LONGEST))


def test_two_hundred_threads_that_record_at_once_lose_and_double_no_value(world: World) -> None:
    client = world.ready()

    outcomes = together(THREADS, lambda number: (client.record("theme", "dark"), client.record("startup_ms", number)))

    assert Counter(outcomes) == {(Outcome.RECORDED, Outcome.RECORDED): THREADS}
    assert client.stats()["recorded"] == 2 * THREADS
    assert client.flush(0, now=True)  # also writes what found the file busy
    assert [kept["count"] for kept in reduced(world)] == [THREADS]
    world.time.now += DAY
    assert client.flush(0, now=True)
    assert len(world.transport.reports) == 2
    client.close()


def test_threads_that_record_and_flush_at_once_randomize_each_period_once(world: World) -> None:
    client = world.ready()

    def act(number: int) -> Outcome | bool:
        return client.flush(LONGEST, now=True) if number % 10 == 0 else client.record("theme", "dark")

    for _ in range(5):
        together(50, act)
        assert client.flush(0, now=True)
        world.time.now += DAY
    assert client.flush(0, now=True)
    client.close()

    drawn = {(header.metric, header.period): plaintext.nonce for header, plaintext in world.opened()}
    assert len(drawn) == len(set(drawn.values())) == 5
    assert len(world.transport.reports) == 5, "a report was uploaded twice though the answer came"


def test_recording_goes_on_while_a_flush_waits_for_the_network(world: World) -> None:
    """Two hundred threads record while one upload hangs: none of them waits for it."""
    client = world.ready()
    client.record("theme", "dark")
    hanging, answered = threading.Event(), threading.Event()

    def hang(request: Request) -> Answer:
        hanging.set()
        assert answered.wait(LONGEST)
        return world.transport.accept(request)

    world.transport.script.append(hang)
    with ThreadPoolExecutor(1) as other:
        flushing = other.submit(client.flush, 30, now=True)
        assert hanging.wait(LONGEST)
        outcomes = together(THREADS, lambda number: client.record("startup_ms", number))
        assert not flushing.done()
        answered.set()
        assert flushing.result(LONGEST)
    assert set(outcomes) == {Outcome.RECORDED}
    client.close()


def test_a_client_closed_under_the_feet_of_its_threads_raises_in_none_of_them(world: World) -> None:
    client = world.ready()

    def act(number: int) -> Outcome:
        if number == THREADS // 2:
            client.close()
        return client.record("startup_ms", number)

    assert set(together(THREADS, act)) <= {
        Outcome.RECORDED,
        Outcome.DISABLED,
        Outcome.WAITING,
        Outcome.NO_DURABLE_STATE,
    }
    assert client.record("startup_ms", 1) is Outcome.DISABLED
    assert [name for name in client.stats() if name.startswith("error:")] == []


def test_consent_withdrawn_under_the_feet_of_its_threads_leaves_no_value_behind(world: World) -> None:
    """Whoever records after the answer changed is told so. The pass that notices it deletes what came before, and what
    was on its way does not get there after it."""
    answer = True
    client = world.ready(consent=lambda: answer)

    def act(number: int) -> Outcome:
        nonlocal answer
        if number == THREADS // 2:
            answer = False
            assert not client.flush(0)
        return client.record("startup_ms", number)

    assert set(together(THREADS, act)) <= {Outcome.RECORDED, Outcome.DISABLED}
    assert client.record("startup_ms", 1) is Outcome.DISABLED
    assert len(client._intake.queue) == 0
    assert rows(world, "reductions") == rows(world, "outbox") == []
    client.close()


async def test_an_event_loop_is_not_held_up_by_a_flush_in_a_thread(world: World) -> None:
    """What the page for FastAPI does: `await asyncio.to_thread(client.flush)` while handlers record."""
    client = world.ready()
    client.record("theme", "dark")
    answered = threading.Event()

    def hang(request: Request) -> Answer:
        assert answered.wait(LONGEST)
        return world.transport.accept(request)

    world.transport.script.append(hang)
    flushing = asyncio.create_task(asyncio.to_thread(client.flush, 30, now=True))
    with within(10):  # a hanging flush would have been 30; a busy machine is slow
        for number in range(200):
            client.record("startup_ms", number)
            await asyncio.sleep(0)
    answered.set()
    assert await flushing
    client.close()
