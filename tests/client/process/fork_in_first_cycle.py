"""An app that forks in the middle of its first cycle, in an interpreter that has loaded nothing but the SDK.

python -m tests.client.process.fork_in_first_cycle WAY ADDRESS STATE_DIRECTORY CA_FILE MOMENT...

WAY is `sender` or `flush`: who makes the pass. A moment is a number of seconds from the beginning of the pass; or the
name of a module, whose import is then under way; or `reading` or `handshake`, in which a lock is held as Python and
OpenSSL hold theirs. Each child records something of its own and sends it. What is printed is the list of their exit
codes: 0 for delivered, 3 for not delivered; and -9 for one that hung and was killed.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import ssl
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from hubbub_client import Client, client
from hubbub_client._process import fork, preload_modules
from hubbub_client._sending import worker
from hubbub_client._state import database
from tests.support.patience import PATIENCE

MORNING = 20_800 * 86_400 + 1_000
A_FLUSH = PATIENCE
_A_WHILE = 0.25
"""Seconds for which a pass stays at a moment, unless the fork is over before: where it waits for the pass."""
_BEGAN = time.time()

awaited: set[str] = set()
reached: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()


def stay(moment: str) -> None:
    """Let the fork happen now, once for each moment."""
    if moment in awaited:
        awaited.remove(moment)
        forked = threading.Event()
        reached.put(forked)
        forked.wait(_A_WHILE)


class Watcher:
    """Of imports: the lock of the module is held when it is asked."""

    def find_spec(self, name: str, *_: object) -> None:
        stay(name)


def locked(moment: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, with a lock held meanwhile that no fork replaces."""
    lock = threading.Lock()

    def work_and_stay(*arguments: Any, **named: Any) -> Any:
        with lock:
            stay(moment)
            return work(*arguments, **named)

    return work_and_stay


def clock() -> float:
    return MORNING + time.time() - _BEGAN


def take_part(client: Client, number: int) -> None:
    awaited.clear()
    client.record(f"own{number}", True)
    while (delivered := client.flush(A_FLUSH, now=True)) and len(client._intake.queue):
        pass  # the file was busy, so the value is in memory still
    if not delivered:
        os.write(2, f"child {number}: {client.stats()}\n".encode())
    os._exit(0 if delivered else 3)


def main(way: str, address: str, directory: str, ca_file: str, *moments: str) -> None:
    # however slow the machine is
    database._BUSY_SECONDS = fork._LONGEST_WAIT = preload_modules._CHILD_WAITS = PATIENCE
    client._FIRST_CYCLE_AFTER = worker._SHORTEST_PAUSE = 0.0
    ours = Client(
        address,
        trust=None if address.startswith("http:") else sys.stdin.read(),
        consent=True,
        state_dir=directory,
        ca_file=ca_file or None,
        clock=clock,
        max_epsilon=None,
        min_period=None,
        background=False,
    )
    awaited.update(moment for moment in moments if not moment[0].isdigit())
    sys.meta_path.insert(0, Watcher())  # which finds nothing
    if "reading" in awaited:
        from hubbub.codebook import Codebook

        Codebook.received = locked("reading", Codebook.received)  # type: ignore[method-assign]
    ssl.SSLSocket.do_handshake = locked("handshake", ssl.SSLSocket.do_handshake)  # type: ignore[method-assign]
    began = time.monotonic()
    if way == "sender":
        ours._worker = worker.Worker(ours._runner.work)
        ours._wake()
    else:
        threading.Thread(target=ours.flush, args=(A_FLUSH,), kwargs={"now": True}, daemon=True).start()
    children: list[int] = []
    for number, moment in enumerate(moments):
        forked = threading.Event()
        if moment[0].isdigit():
            time.sleep(max(began + float(moment) - time.monotonic(), 0.0))
        else:
            forked = reached.get(timeout=PATIENCE)
        child = os.fork()
        if child == 0:
            take_part(ours, number)
        forked.set()
        children.append(child)
    codes = [code_of(child) for child in children]
    sys.stdout.write(json.dumps(codes) + "\n")
    sys.stdout.flush()
    ours.flush(A_FLUSH, now=True)
    ours.close()


def code_of(child: int) -> int:
    until = time.monotonic() + 1.5 * A_FLUSH
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
