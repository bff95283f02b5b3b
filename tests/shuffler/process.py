"""Real processes for the shuffler's tests: the command as a person starts it, and a stub aggregator on a real port."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn

from tests.shuffler.world import TOKEN, StubAggregator

COMMAND = "from hubbub_cli.shuffler import shuffler; shuffler()"
PATIENCE = 30.0


class AggregatorServer:
    """The stub aggregator on a free port of loopback, in a thread."""

    def __init__(self, aggregator: StubAggregator) -> None:
        config = uvicorn.Config(aggregator, port=0, log_level="critical", access_log=False, lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> str:
        self._thread.start()
        wait_for(lambda: self._server.started)
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *_exc: object) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)


class ShufflerProcess:
    """`hubbub shuffler` in a process of its own; everything it says is kept in `log`."""

    def __init__(self, state_dir: Path, aggregator: str, log: Path, **settings: str) -> None:
        self._log = log
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
        self._environment |= {
            "HUBBUB_SHUFFLER_STATE_DIR": str(state_dir),
            "HUBBUB_SHUFFLER_AGGREGATOR": aggregator,
            "HUBBUB_SHUFFLER_FORWARD_TOKEN": TOKEN,
            "HUBBUB_SHUFFLER_PORT": "0",
            **{f"HUBBUB_SHUFFLER_{name.upper()}": value for name, value in settings.items()},
        }
        self.address = ""

    def __enter__(self) -> Self:
        before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND], stdout=log, stderr=log, env=self._environment
            )

        def announced() -> bool:
            assert self.process.poll() is None, self._log.read_text()
            for line in self._log.read_bytes()[before:].decode().splitlines():
                if line.startswith("Shuffler ready at "):
                    self.address = line.split()[3].rstrip(",")
            return bool(self.address)

        try:
            wait_for(announced)
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """Ask it to end, as a supervisor does; its exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()


def wait_for(condition: object, patience: float = PATIENCE) -> None:
    """Look again and again: another process has a clock of its own."""
    assert callable(condition)
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)
