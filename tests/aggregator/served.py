"""The aggregator as a process, set by its environment alone: `python -m tests.aggregator.served`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.patience import PATIENCE, wait_for

ROOT = Path(__file__).parent.parent.parent


class Served:
    """One process that can be killed and started again; the log goes on."""

    def __init__(self, log: Path, **settings: object) -> None:
        self._log = log
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
        self._environment |= {f"HUBBUB_AGGREGATOR_{name.upper()}": str(value) for name, value in settings.items()}
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def start(self) -> None:
        before = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.aggregator.served"],
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=ROOT,
            )
        process = self.process

        def announced() -> bool:
            assert process.poll() is None, self._log.read_text()
            lines = self._log.read_bytes()[before:].decode().splitlines()
            found = [line.split()[3] for line in lines if line.startswith("aggregator ready at ")]
            self.address = found[0] if found else ""
            return bool(found)

        wait_for(announced)

    def kill(self) -> None:
        """As a power cut does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def stop(self) -> int:
        """As a supervisor does; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def log(self) -> str:
        return self._log.read_text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()


if __name__ == "__main__":
    # here, since each worker of the service loads this file once more and needs none of it
    from hubbub_aggregator.main import run
    from hubbub_aggregator.settings import Settings

    run(Settings())
