"""An app that forks: each way of it as a function, run in its own interpreter by `test_forks`.

python -m tests.client.process.forking_app WAY ADDRESS STATE_DIRECTORY

Every child records a metric of its own and one that all record, and sends nothing by hand: the background thread does.
No other thread runs a cycle meanwhile, but for one that was planned before. What is printed is one line per process:
its number, whether all that was recorded was sent while it waited, and how many threads it has.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hubbub_client import Client
from hubbub_client._state import database
from tests.client.world import START
from tests.support.patience import PATIENCE

CHILDREN = 2
TOML = """
[collection]
name = "forks"
period = "1d"
grace = "1s"
device_epsilon = 40
release = { epsilon = 30, delta = 1e-8 }

[metrics.shared]
type = "boolean"
epsilon = 4
min_batch = 100
""" + "".join(
    f"""
[metrics.own{number}]
type = "boolean"
epsilon = 4
min_batch = 100
"""
    for number in range(CHILDREN + 1)
)
"""A grace of a second: what is recorded is sent within half of one."""

_BEGAN = time.time()
_NEVER = 3_600.0


def clock() -> float:
    """Real seconds, from the morning of the day on which every test begins."""
    return START + 1_000 + time.time() - _BEGAN


def make(address: str, directory: str) -> Client:
    client = Client(
        address, trust=None, consent=True, state_dir=Path(directory), clock=clock, max_epsilon=None, min_period=None
    )
    client._cycle.tick = _NEVER
    return client


def is_sent(client: Client) -> bool:
    """Whether nothing waits any more, in the file or in memory."""
    with client._state.reading() as connection:
        counts = "SELECT (SELECT count(*) FROM reductions) + (SELECT count(*) FROM outbox)"
        (waiting,) = connection.execute(counts).fetchone()
    return not waiting and not len(client._intake.queue)


def take_part(client: Client, number: int, patience: float = PATIENCE) -> None:
    """Record, and wait until it is sent."""
    client._cycle.tick = 0.3
    if (worker := client._worker) is not None and worker.is_running:
        worker.wake(0.1)  # the parent's sleeps for an hour
    client.record("shared", True)
    client.record(f"own{number}", True)
    until = time.monotonic() + patience
    while (not is_sent(client) and time.monotonic() < until) or len(client._intake.queue):
        time.sleep(0.02)  # what found the file busy and is in memory would be gone with this process
    sent = int(is_sent(client))
    client._cycle.tick = _NEVER
    threads = sum(thread.name == "hubbub-sender" for thread in threading.enumerate())
    os.write(1, f"{number} {sent} {threads}\n".encode())  # at once, whoever else prints


def in_child(act: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)  # as a worker does whose parent is not done yet
    return child


def wait_for(children: list[int]) -> None:
    for child in children:
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, "a child failed"


def fork_before_use(client: Client) -> None:
    """The client is made, and forked before anything was recorded. One child after another."""
    for number in range(CHILDREN):
        wait_for([in_child(partial(take_part, client, number))])
    take_part(client, CHILDREN)


def fork_in_use(client: Client) -> None:
    """The parent has a thread and an open file when it forks."""
    take_part(client, CHILDREN)
    for number in range(CHILDREN):
        wait_for([in_child(partial(take_part, client, number))])


def fork_in_a_crowd(client: Client) -> None:
    """Threads of the parent record and flush without a pause while it forks: any lock may be held by any of them.

    Who sends what cannot be told here, so nobody waits long for it. A fork waits for a transaction that is under way,
    for as long as the machine is slow: else the child would report nothing, as it should.
    """
    database._BUSY_SECONDS = PATIENCE
    done = threading.Event()

    def hammer() -> None:
        while not done.is_set():
            client.record("shared", True)
            client.stats()
            client.flush(0.1)

    crowd = [threading.Thread(target=hammer) for _ in range(6)]
    for thread in crowd:
        thread.start()
    children = []
    for number in range(CHILDREN):
        time.sleep(0.03 * number)
        children.append(in_child(partial(take_part, client, number, 2.5)))
    wait_for(children)
    done.set()
    for thread in crowd:
        thread.join()
    take_part(client, CHILDREN, 2.5)


_inherited: Client | None = None


def _worker(address: str, directory: str, number: int) -> None:
    client = _inherited or make(address, directory)  # a spawned worker starts from nothing
    take_part(client, number)


def _multiprocessing(way: str, address: str, directory: str) -> None:
    start = {"fork": multiprocessing.get_context("fork").Process, "spawn": multiprocessing.get_context("spawn").Process}
    for number in range(CHILDREN):
        worker = start[way](target=_worker, args=(address, directory, number))
        worker.start()
        worker.join(2 * PATIENCE)
        assert worker.exitcode == 0, "a worker failed"


def main(way: str, address: str, directory: str) -> None:
    global _inherited  # noqa: PLW0603  what a forked worker finds, as in an app
    ways = {"before": fork_before_use, "in use": fork_in_use, "in a crowd": fork_in_a_crowd}
    with make(address, directory) as client:
        assert client.flush(PATIENCE)
        if way in ways:
            ways[way](client)
        else:
            _inherited = client
            take_part(client, CHILDREN)
            _multiprocessing(way, address, directory)
        assert client.flush(PATIENCE, now=True)  # where several were at it, some may not have had their turn


if __name__ == "__main__":
    main(*sys.argv[1:])
