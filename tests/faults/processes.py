"""Services as real processes that can be killed, stopped and started again, each with its own log and environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import types
from collections.abc import Mapping
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from hubbub_cli.api_client import exchange
from hubbub_cli.services.exit_with_parent import watch
from tests.shuffler.forkserver import FORKS
from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port

__all__ = ["Kind", "Service"]

Kind: TypeAlias = Literal["shuffler", "aggregator"]

FORKS.set_forkserver_preload(  # what the shuffler's tests load, and the aggregator
    [
        *("pytest", "uvloop", "hubbub_cli.main", "hubbub_cli.commands.shuffler", "hubbub_shuffler.main"),
        *("hubbub_aggregator.main", "tests.shuffler.batcher_process", "tests.shuffler.forkserver", __name__),
    ]
)


class _Running(Protocol):
    """What both kinds of process have in common."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...


class _Forked:
    """A process of the forkserver, with the methods of `subprocess.Popen` that are used here."""

    def __init__(self, kind: Kind, environment: Mapping[str, str], log: Path) -> None:
        # no daemon: the aggregator has children of its own
        self._process = FORKS.Process(target=_run, args=(kind, dict(environment), log))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked service", timeout)
        return self._process.exitcode


def _run(kind: Kind, environment: dict[str, str], log: Path) -> None:
    """What a forked service does: the command, with everything that it says in the log."""
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    threading.Thread(target=watch, args=(os.getppid(),), daemon=True).start()
    resource_tracker._resource_tracker._fd = None  # type: ignore[attr-defined]  # one of its own, which talks to the log
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = ["hubbub", kind]
    sys.modules["__main__"] = types.ModuleType("__main__")  # its own children have no use for the main module of tests
    from hubbub_cli.main import main

    main()


class Service:
    """One service: its address stays the same over all its lives."""

    def __init__(
        self, name: str, kind: Kind, settings: Mapping[str, str], folder: Path, *, clock: Mapping[str, str] | None
    ) -> None:
        """`clock`: environment that gives it a clock of its own, which a forked process can't have; None forks it."""
        self.name, self.kind, self.log = name, kind, folder / f"{name}.log"
        self.port = reserved_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._forked = clock is None
        own = {"HOST": "127.0.0.1", "PORT": str(self.port), **settings}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HUBBUB_")}
        self._environment = {**kept, **(clock or {}), **{f"HUBBUB_{kind.upper()}_{key}": own[key] for key in own}}
        self._process: _Running | None = None
        self.kills = 0
        self.ended_by_itself = 0

    def start(self) -> None:
        """Start it; `ready` says when it answers."""
        if self._forked:
            self._process = _Forked(self.kind, self._environment, self.log)
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hubbub_cli.services.exit_with_parent", str(os.getpid()), self.kind],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def process_id(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ready(self) -> bool:
        """Whether it says that it can serve."""
        try:
            return exchange(self.address, "/readyz", {}, patience=5.0)[0] == 200
        except Exception:  # noqa: BLE001  down, or not up yet
            return False

    def wait_until_ready(self) -> None:
        def looked() -> bool:
            assert self.alive, f"{self.name} ended: {self.said()}"
            return self.ready()

        wait_for(looked, patience=3 * PATIENCE, step=0.05)  # many of them may start at once

    def revive(self) -> None:
        """Start it if it is down. One that ended without being killed is a fault of the service."""
        if not self.alive:
            self.ended_by_itself += 1
            self.start()

    def kill(self) -> None:
        """As a power cut does."""
        if self._process is not None and self.alive:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE)
            self.kills += 1

    def pause(self) -> None:
        """It does nothing, its connections stay."""
        if self.alive:
            os.kill(self.process_id, signal.SIGSTOP)

    def resume(self) -> None:
        if self.alive:
            os.kill(self.process_id, signal.SIGCONT)

    def end(self) -> None:
        """Ask it to end; by force if it does not."""
        if self._process is None or not self.alive:
            return
        self.resume()
        os.kill(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(20.0)
        except subprocess.TimeoutExpired:
            self.kill()

    def said(self, last: int = 2_000) -> str:
        return self.log.read_text(errors="replace")[-last:] if self.log.exists() else ""
