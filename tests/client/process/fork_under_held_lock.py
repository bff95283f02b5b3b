"""An app that forks while another thread holds a lock that it never gives back.

python -m tests.client.process.fork_under_held_lock HOLD CODEBOOK STATE_DIRECTORY [SECONDS]

HOLD is the name of a module that a thread of the app's own imports at that moment; or `gate`: a step of the SDK's that
lasts longer than a fork waits, which is SECONDS or else the real time. CODEBOOK is the one that comes with the app, or
empty. The child then calls everything that a client has. What is printed is the list of what took too long, hung or
raised, then the outcomes.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import Any

from hubbub_client import Client
from hubbub_client._process import fork
from tests.support.patience import PATIENCE, within

reached, never = threading.Event(), threading.Event()


class Watcher:
    """Of the app's import, which does not end: not in here, where a fork would wait for it, but a moment later."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        mine = name == self._module and threading.current_thread().name == "app"
        return spec_from_loader(name, _Endless()) if mine else None


class _Endless(Loader):
    def exec_module(self, module: ModuleType) -> None:  # noqa: ARG002  as Python calls it
        reached.set()
        never.wait()


def hold(what: str) -> None:
    if what == "gate":
        with fork.no_fork():
            reached.set()
            never.wait()
    else:
        __import__(what)


def made(directory: str, codebook: str) -> Client:
    return Client(
        "http://127.0.0.1:9",
        trust=None,
        consent=True,
        state_dir=directory,
        codebook=codebook or None,
        background=False,
    )


def use(ours: Client, directory: str, codebook: str) -> None:
    """As an app does that does not know of any of this."""
    wrong: list[str] = []
    outcomes: list[Any] = []
    calls: list[tuple[str, float, Callable[[], object]]] = [
        ("record", 1, lambda: ours.record("theme", "dark").value),
        ("preview", 1, lambda: len(str(ours.preview())) > 0),
        ("ledger", 1, lambda: ours.ledger().complete),
        ("flush", 2, lambda: ours.flush(1, now=True)),
        ("Client", 6, lambda: made(directory, codebook).flush(0)),  # one wait for an import, and one try
        ("preview again", 1, lambda: len(str(ours.preview())) > 0),
        ("stats", 1, lambda: isinstance(ours.stats(), dict)),
        ("close", 3, ours.close),
        ("fork", 1, fork_again),
    ]
    for name, seconds, call in calls:
        try:
            with within(seconds):
                outcomes.append(call())
        except BaseException as error:  # noqa: BLE001  for the list
            wrong.append(f"{name}: {error!r}")
    os.write(1, json.dumps([wrong, outcomes]).encode() + b"\n")
    os._exit(0)


def fork_again() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def main(what: str, codebook: str, directory: str, seconds: str = "") -> None:
    if seconds:
        fork._LONGEST_WAIT = float(seconds)
    bound = fork._LONGEST_WAIT if what == "gate" else 0.0
    ours = made(directory, codebook)
    sys.meta_path.insert(0, Watcher(what))
    threading.Thread(target=hold, args=(what,), name="app", daemon=True).start()
    reached.wait(PATIENCE)
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(PATIENCE / 2, exit=True)
        use(ours, directory, codebook)
    assert time.monotonic() - began >= bound
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
