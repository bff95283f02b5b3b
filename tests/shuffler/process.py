"""Real processes for the shuffler's tests: the command as a person starts it, and a stub aggregator on a real port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from tests.shuffler.world import TOKEN
from tests.support.patience import PATIENCE, wait_for

COMMAND = "from hubbub_cli.commands.shuffler import shuffler; shuffler()"


class AppServer:
    """An application on a free port of loopback, in a thread."""

    def __init__(self, app: Callable[..., Any]) -> None:
        config = uvicorn.Config(
            app,
            interface="asgi3",
            port=0,
            log_config=None,
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)

    def __enter__(self) -> str:
        self._thread.start()
        wait_for(lambda: self._server.started)
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *_exc: object) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)


AggregatorServer = AppServer


class ShufflerProcess:
    """`hubbub shuffler` in a process of its own; everything it says is kept in `log`."""

    def __init__(self, state_dir: Path, aggregator: str, log: Path, **settings: str) -> None:
        self.log = log
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
        self._environment |= {
            "HUBBUB_SHUFFLER_STATE_DIR": str(state_dir),
            "HUBBUB_SHUFFLER_AGGREGATOR": aggregator,
            "HUBBUB_SHUFFLER_FORWARD_TOKEN": TOKEN,
            "HUBBUB_SHUFFLER_PORT": "0",
            **{f"HUBBUB_SHUFFLER_{name.upper()}": value for name, value in settings.items()},
        }
        self.address = self.admin = ""

    def __enter__(self) -> Self:
        self.log.touch()
        before = self.log.stat().st_size
        self.process: Any = self._start()

        def announced() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            said = self.log.read_bytes()[before:].decode()
            for found in re.finditer(r"(Shuffler ready|admin listener) at (https?://[^\s,\"]+)", said):
                if found[1] == "Shuffler ready":
                    self.address = found[2]
                else:
                    self.admin = found[2]
            return bool(self.address)

        try:
            wait_for(announced)
        except BaseException:
            self.kill()
            raise
        return self

    def _start(self) -> Any:
        """The process, as subprocess.Popen has it."""
        with self.log.open("ab") as log:
            return subprocess.Popen([sys.executable, "-c", COMMAND], stdout=log, stderr=log, env=self._environment)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, as a supervisor or a person does; its exit code."""
        self.process.send_signal(by)
        return int(self.process.wait(PATIENCE))

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
