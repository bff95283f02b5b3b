"""Real services for a load run, as an operator runs them: two processes, on SQLite files or two Redis servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.load.plan import Plan
from hubbub_cli.services.processes import Services
from tests.support.ports import reserved_port
from tests.support.redis_server import RedisServer, one_server

__all__ = ["Stack", "running"]

QUICK = {"TICK": "0.5", "MIN_BATCH_FLOOR": "2", "LONGEST_BACKOFF": "2", "LEASE": "10"}
"""Settings for a day's work in ten seconds. All others have their defaults."""


class Stack:
    """Both services and their storage."""

    def __init__(self, services: Services, redis: list[RedisServer]) -> None:
        self.services, self.redis = services, redis

    def processes(self, part: str) -> list[int]:
        """Ids of the processes of "shuffler", "aggregator" or "redis"."""
        if part == "redis":
            return [server.process_id for server in self.redis]
        return [self.services.process_id(part)]  # type: ignore[arg-type]  # one of the two names

    @property
    def keeper(self) -> str:
        """The storage of the reports, with its version."""
        if not self.redis:
            import sqlite3

            return f"SQLite {sqlite3.sqlite_version}, WAL, synchronous=FULL"
        client = self.redis[0].client()
        try:
            return f"Redis {client.info('server')['redis_version']}, appendfsync always, one server for each service"
        finally:
            client.close()


@contextmanager
def running(plan: Plan, folder: Path) -> Iterator[Stack]:
    """Start the services on loopback ports; stop them afterwards."""
    codebook = folder / "metrics.toml"
    codebook.write_text(plan.codebook())
    with ExitStack() as stack:
        redis = []
        if plan.storage == "redis":
            redis = [stack.enter_context(one_server(folder / f"redis-{name}")) for name in ("shuffler", "aggregator")]
        places = [{"STORAGE": server.url} for server in redis] or [{}, {}]
        log = stack.enter_context((folder / "services.log").open("w"))
        services = stack.enter_context(
            Services(
                folder,
                codebook,
                shuffler_port=reserved_port(),
                aggregator_port=reserved_port(),
                shuffler_settings={**QUICK, **places[0]},
                aggregator_settings=places[1],
                log=log,
            )
        )
        addresses = {"shuffler": services.shuffler, "aggregator": services.aggregator}
        (folder / "addresses.json").write_text(json.dumps(addresses))
        yield Stack(services, redis)
