"""A process that works on pending batches and kills itself with -9 at a named point."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

POINTS = {
    "opening": "SELECT id FROM batches WHERE metric",
    "begin": "INSERT INTO releases",
    "counted": "INSERT INTO nonces",
    "settling": "UPDATE batches",
    "commit": "COMMIT",
    "committed": "",
}
"""The statement before which it dies; "committed": after all of them, before the spooled body is removed."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(root: Path, point: str) -> None:
    # here, since each worker of the service loads this file once more and needs none of it
    from hubbub_aggregator.intake.spool import Spool
    from hubbub_aggregator.main import build
    from hubbub_aggregator.settings import Settings
    from hubbub_aggregator.storage import SqliteStorage
    from hubbub_service_common.clock.trusted_clock import TrustedClock
    from tests.aggregator.world import START

    class LastSpool(Spool):
        """Dies instead of removing a body."""

        def remove(self, name: str | None) -> None:  # noqa: ARG002  the signature of what it stands in for
            die()

    settings = Settings(codebook=root / "codebook.json", state_dir=root / "state", processes=1)
    service = build(settings, TrustedClock.set_by(lambda: START + 3600))
    storage = service.storage
    assert isinstance(storage, SqliteStorage)
    if point == "committed":
        service.accumulator.spool = LastSpool(root / "state" / "spool")
    else:
        storage._connection.set_trace_callback(lambda sql: die() if sql.startswith(POINTS[point]) else None)
    asyncio.run(service.accumulator.drain())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
