"""Services of a world: how a shuffler and an aggregator are started in it, on SQLite or on Redis, and started again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from pydantic import SecretStr

from hubbub.errors import InvalidParameter
from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.app import create_app
from hubbub_aggregator.main import build as build_aggregator
from hubbub_aggregator.publication.keys import IDENTITY
from hubbub_aggregator.settings import Settings as AggregatorSettings
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_service_common.storage.kinds_and_errors import StorageError
from hubbub_shuffler.main import build as build_shuffler
from hubbub_shuffler.settings import Settings as ShufflerSettings
from hubbub_shuffler.storage.on_threads import AsyncStorage
from hubbub_shuffler.storage.redis.backend import RedisStorage
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage
from tests.support.codebooks import IDENTITY as IDENTITY_KEY
from tests.world.claims import Claims
from tests.world.event_loop import PROCESS, WorldLoop, acting
from tests.world.network import Forwards, Request
from tests.world.oracle import FLOOR
from tests.world.process import Killed, Machine, Process
from tests.world.seams import InlinePool

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubbub_aggregator.service import Aggregator
    from hubbub_shuffler.main import Shuffler
    from tests.world.redis_in_world import WorldRedis

__all__ = ["LEASE", "MAX_BATCH", "AggregatorSite", "ShufflerSite"]

MAX_BATCH, LEASE = 16, 60.0
_APPS: dict[int, Any] = {}
"""The application of each aggregator: making one takes long, and it has no state but its service."""


class _Site:
    """A machine, and the process on it."""

    def __init__(self, name: str, loop: WorldLoop, seed: int) -> None:
        self.name, self.loop, self._seed = name, loop, seed
        self.machine = Machine(name, loop)
        self.process: Process | None = None
        self.lives = 0
        self.full = False
        self.past: list[Process] = []
        """Processes that stand still somewhere, and were replaced."""

    @property
    def up(self) -> Process | None:
        """The process, if it runs."""
        return self.process if self.process is not None and not self.process.dead else None

    @property
    def able(self) -> Process | None:
        """The process, if it runs and does not stand still."""
        return up if (up := self.up) is not None and not up.paused else None

    def start(self) -> bool:
        """Start the process, unless one runs. False if it can't start now."""
        if self.up is not None:
            return True
        self.lives += 1
        process = Process(self.machine, random.Random(f"{self._seed} {self.name} {self.lives}"), full=self.full)
        self.process = process
        try:
            with acting(process), self.loop.running():
                self._open(process)
        except (StorageError, InvalidParameter, OSError, Killed):
            process.kill()
            return False
        return not process.dead

    def replace(self) -> bool:
        """Start the process, also beside one that stands still: that one may come back as a zombie."""
        if self.up is not None and self.up.paused:
            self.past.append(self.up)
            self.process = None
        return self.start()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def _open(self, process: Process) -> None:
        raise NotImplementedError


class ShufflerSite(_Site):
    """A shuffler: its state directory, and its storage, which others may share."""

    def __init__(
        self,
        number: int,
        loop: WorldLoop,
        seed: int,
        home: Path,
        storage: Path | None,
        redis: WorldRedis | None,
        send: Callable[[int, Request], Any],
        claims: Claims,
    ) -> None:
        super().__init__(f"s{number}", loop, seed)
        self.number, self.directory, self.file, self._redis, self._send = number, home, storage, redis, send
        self.group, self._claims = str(storage or "redis"), claims
        self.directory.mkdir(parents=True, exist_ok=True)
        self.storage: AsyncStorage
        self.parts: Shuffler

    def _open(self, process: Process) -> None:
        settings = ShufflerSettings.model_construct(
            state_dir=self.directory,
            aggregator="http://aggregator.world",
            trust=(anchor_of(IDENTITY_KEY),),
            min_batch_floor=FLOOR,
            max_batch=MAX_BATCH,
            lease=LEASE,
            tick=5.0,
            forward_token=SecretStr("a-token-of-the-world"),
        )
        clock, entropy = process.machine.wall, process.entropy
        if self.file is not None:
            storage: Any = SqliteStorage(self.file, clock=clock, entropy=entropy)
        else:
            assert self._redis is not None
            storage = RedisStorage(
                self._redis.url, clock=clock, entropy=entropy, lease_clock=self._redis.now, salvage_after=10.0
            )
        self._claims.watch(storage, self.group)
        self.storage = AsyncStorage(storage)
        client = httpx2.AsyncClient(
            transport=Forwards(lambda request: self._send(self.number, request)), trust_env=False
        )
        trusted = TrustedClock(process.machine.wall, process.machine.monotonic, peer="the aggregator's", says="...")
        self.parts = build_shuffler(settings, self.storage, client, clock=trusted, entropy=entropy)

    def served(self) -> tuple[Process, Any] | None:
        return None if self.up is None else (self.up, self.parts.app)


class AggregatorSite(_Site):
    """An aggregator: its state directory, with its database unless it is on Redis."""

    def __init__(
        self,
        number: int,
        loop: WorldLoop,
        seed: int,
        home: Path,
        codebook: Path,
        redis: WorldRedis | None,
        pool: InlinePool,
    ) -> None:
        super().__init__(f"a{number}", loop, seed)
        self.number, self.directory, self.codebook, self._redis, self._pool = number, home, codebook, redis, pool
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = self.directory / IDENTITY
        key.write_bytes(IDENTITY_KEY.private_bytes_raw())
        key.chmod(0o600)
        self.group = "redis" if redis is not None else self.name
        self.service: Aggregator
        self.app: Any = None

    @property
    def database(self) -> Path:
        return self.directory / "aggregator.db"

    def _open(self, process: Process) -> None:
        settings = AggregatorSettings.model_construct(
            codebook=self.codebook,
            state_dir=self.directory,
            storage=None if self._redis is None else SecretStr(self._redis.url),
            bundle_max_age=600,
            shuffler_token=SecretStr("a-token-of-the-world"),
            lease=LEASE,
        )
        clock = TrustedClock(process.machine.wall, process.machine.monotonic, peer="a shuffler's", says="...")
        self.service = build_aggregator(settings, clock)
        self.service.pool = self.service.accumulator.pool = self._pool  # type: ignore[assignment]  # it has the same methods
        self.service.accumulator.at_once = 2
        if self.past:
            _APPS.pop(self.number, None)  # the one that stands still goes on with its own
        if self.number not in _APPS:
            _APPS[self.number] = create_app(self.service)
        self.app = _APPS[self.number]
        self.app.state.service = self.service
        if PROCESS.get() is not process or process.dead:
            raise Killed

    def served(self) -> tuple[Process, Any] | None:
        return None if self.up is None else (self.up, self.app)
