"""Starting the aggregator from its settings; the only place where they are read."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from hubbub.codebook import Codebook
from hubbub.problems import InvalidParameter
from hubbub.trust import anchor_of
from hubbub_aggregator.app import create_app
from hubbub_aggregator.bundles import Publisher
from hubbub_aggregator.codebooks import Codebooks
from hubbub_aggregator.keys import KeyRing, load_identity, state_directory
from hubbub_aggregator.opening import Pool
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.spool import Spool
from hubbub_aggregator.storage import SqliteStorage
from hubbub_aggregator.tokens import Tokens

__all__ = ["DATABASE", "build", "only_one", "run"]

DATABASE = "aggregator.db"


def build(settings: Settings, clock: Callable[[], float] = time.time) -> Aggregator:
    """The service that these settings describe, with its codebook in force and its bundle signed."""
    directory = state_directory(settings.state_dir)
    identity = load_identity(directory)
    written = Codebook.load(settings.codebook)
    storage = SqliteStorage(directory / DATABASE)
    try:
        codebooks = Codebooks(storage)
        codebooks.adopt(written, clock(), settings.backfill_periods)
        ring = KeyRing(storage, codebooks, settings.bundle_max_age)
        service = Aggregator(
            storage=storage,
            spool=Spool(directory / "spool"),
            codebooks=codebooks,
            ring=ring,
            publisher=Publisher(storage, identity, codebooks, ring, settings.bundle_lifetime, settings.bundle_max_age),
            pool=Pool(settings.processes),
            shufflers=Tokens(_secrets(settings.shuffler_token, settings.shuffler_token_next)),
            analysts=Tokens(_secrets(settings.analyst_token, settings.analyst_token_next)),
            clock=clock,
            anchor=anchor_of(identity),
            max_batch_bytes=settings.max_batch_bytes,
            single_operator=settings.single_operator,
        )
        service.start()
    except BaseException:
        storage.close()
        raise
    return service


def run(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C; says on stderr where, and which trust anchor devices need."""
    import uvicorn

    with only_one(state_directory(settings.state_dir)):
        service = build(settings)
        config = uvicorn.Config(
            create_app(service),
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="on",
            access_log=False,  # it would write addresses
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=10,
        )
        server = uvicorn.Server(config)
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_serve(server, service, settings.host))


async def _serve(server: object, service: Aggregator, host: str) -> None:
    import uvicorn

    assert isinstance(server, uvicorn.Server)  # noqa: S101  imported late, so that nothing else needs it
    announcing = asyncio.create_task(_announce(server, service, host))
    try:
        await server.serve()
    finally:
        announcing.cancel()


async def _announce(server: object, service: Aggregator, host: str) -> None:
    while not getattr(server, "started", False):
        await asyncio.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]  # type: ignore[attr-defined]  # a uvicorn.Server, see above
    shown = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"aggregator ready at http://{shown}:{port}\ntrust anchor {service.anchor}\n")
    sys.stderr.flush()


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """SQLite and the spool belong to one process; the lock ends with it, however it ends."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidParameter(f"another aggregator runs on {directory}: stop it, or use another one") from error
        yield
    finally:
        os.close(descriptor)


def _secrets(*tokens: SecretStr | None) -> list[str]:
    return [token.get_secret_value() for token in tokens if token is not None]
