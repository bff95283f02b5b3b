"""The aggregator as a process, set by its environment alone: `python -m tests.aggregator.process`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.support.patience import PATIENCE, wait_for

ROOT = Path(__file__).parent.parent.parent


class Served:
    """One process that can be killed and started again; the log goes on."""

    open_files: int | None = None
    """How many it may have from the next start on; None: as many as this process."""

    def __init__(self, log: Path, **settings: object) -> None:
        self._log = log
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
        self._environment |= {f"HUBBUB_AGGREGATOR_{name.upper()}": str(value) for name, value in settings.items()}
        self.process: subprocess.Popen[bytes] | None = None
        self.address = self.admin = ""

    def start(self) -> None:
        before = self._log.stat().st_size if self._log.exists() else 0
        limit = [] if self.open_files is None else ["sh", "-c", f'ulimit -n {self.open_files}; exec "$@"', "sh"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*limit, sys.executable, "-m", "tests.aggregator.process"],
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=ROOT,
            )
        process = self.process

        def announced() -> bool:
            assert process.poll() is None, self._log.read_text()
            found = re.findall(r"aggregator ready at ([^\s\"]+)", self._log.read_bytes()[before:].decode())
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
