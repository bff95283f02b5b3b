"""One of two twin clients: a real client that lives through a whole history, with thread and time under control."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hubbub.randomness import Randomness
from hubbub.simulation.randomness import InsecureRandomness
from hubbub_audit.audited_client import fast_folder
from hubbub_audit.twin_events import (
    Consent,
    Delete,
    Event,
    Flush,
    History,
    Keys,
    Network,
    Pass,
    Publish,
    Record,
    Restart,
    SetClock,
    Switch,
    SwitchOff,
    codebook_of,
)
from hubbub_audit.twin_server import START, Seen, TwinServer
from hubbub_client import Client, client
from hubbub_client._sending.backoff import Pace
from hubbub_client._sending.sending_coins import Purpose
from hubbub_client._state.database import FILE_NAME

__all__ = ["KeyedCoins", "lived"]

_TICK = 600.0
"""Seconds between two cycles of the worker while nothing is due. Longer than shipped, to get through a history."""
_A_FLUSH = 5.0


class KeyedCoins:
    """The same coins for both twins, with a separate stream for each purpose."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def of(self, purpose: Purpose, subject: str, number: int) -> Randomness:
        name = f"{self._seed} {purpose} {subject} {number}".encode()
        return InsecureRandomness(int.from_bytes(hashlib.sha256(name).digest()))


def lived(history: History, twin: int, coins: KeyedCoins) -> list[Seen]:
    """All requests that a twin made."""
    with tempfile.TemporaryDirectory(prefix="hubbub-audit-", dir=fast_folder()) as folder, _virtual_sender():
        life = _Life(history, twin, coins, Path(folder))
        for event in history.events:
            life.live(event)
        life.end(kill=True)
        return life.server.seen


@contextmanager
def _virtual_sender() -> Iterator[None]:
    with patch.object(client, "Worker", _Worker):
        yield


class _Worker:
    """A client's worker without a thread: it says when it wants to run."""

    def __init__(self, work: Callable[[], float]) -> None:
        self.work, self.passed, self.due = work, lambda: 0.0, inf
        self._wanted = inf

    def wake(self, within: float = 0.0) -> None:
        self._wanted = min(self._wanted, within)

    def stop(self, _timeout: float) -> bool:
        self.due = self._wanted = inf
        return True

    def forget(self) -> None:
        self.stop(0.0)

    @property
    def is_running(self) -> bool:
        return self.due < inf

    def heard(self, now: float) -> None:
        """Act on wakes since the last call."""
        self.due, self._wanted = min(self.due, now + self._wanted), inf


@dataclass
class _Life:
    """One twin, with its app and its world."""

    history: History
    twin: int
    coins: KeyedCoins
    folder: Path
    now: float = START
    passed: float = 0.0
    consent: bool = True
    app: Client = field(init=False)
    server: TwinServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = TwinServer(lambda: self.passed, self.history.max_age)
        self.app = self._started()

    def live(self, event: Event) -> None:
        match event:
            case Pass(seconds):
                self._let_pass(seconds)
            case SetClock(by):
                self.now += by
            case Restart(kill, away):
                self.end(kill=kill)
                self._advance(away)
                self.app = self._started()
            case Flush(now):
                self._flush(now)
            case Consent(given):
                self.consent = given
            case Switch(on):
                self.app.enable() if on else self.app.disable()
            case Network() | Publish() | SwitchOff() | Keys():
                self.server.live(event)
            case Delete():
                for ending in ("", "-wal", "-shm"):
                    (self.folder / f"{FILE_NAME}{ending}").unlink(missing_ok=True)
            case Record(twin, metric, value) if twin == self.twin:
                self.app.record(metric, value)

    def end(self, *, kill: bool) -> None:
        if kill:
            self.app._closing = self.app._closed = True
            self.app._gate.close()
            self.app._state.close()
        self.app.close()

    def _started(self) -> Client:
        packaged = self.history.packaged
        app = Client(
            "https://shuffler.invalid",
            trust=TwinServer.trust,
            consent=lambda: self.consent,
            state_dir=self.folder,
            codebook=None if packaged is None else codebook_of(packaged),
            max_epsilon=self.history.max_epsilon,
            lifetime_epsilon=self.history.lifetime_epsilon,
            background=True,
            clock=lambda: self.now,
            coins=self.coins,
            pace=Pace(monotonic=lambda: self.passed, sleep=self._advance),
            transport=self.server,
        )
        app._cycle.tick = _TICK
        return app

    def _flush(self, now: bool) -> None:
        """Flush for a fixed time, so that the next event comes at the same moment for both twins."""
        end = self.passed + _A_FLUSH
        self.app.flush(_A_FLUSH, now=now)
        self._advance(max(end - self.passed, 0.0))

    def _let_pass(self, seconds: float) -> None:
        end = self.passed + seconds
        worker: Any = self.app._worker
        while True:
            worker.heard(self.passed)
            if worker.due + self.history.late > end:
                break
            self._advance(max(worker.due - self.passed, 0.0) + self.history.late)
            worker.due = inf
            worker.due = self.passed + max(worker.work(), 0.1)
        self._advance(end - self.passed)

    def _advance(self, seconds: float) -> None:
        self.now += seconds
        self.passed += seconds
