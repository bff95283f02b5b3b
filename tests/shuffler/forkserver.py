"""Processes that start fast: forked from one that has loaded the code; for the shuffler, the same command.

Loading takes two seconds of CPU, and tests that kill need many. The clean start is tested in test_service.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Self

from tests.shuffler.world import TOKEN
from tests.support.patience import PATIENCE, wait_for

__all__ = ["FORKS", "ForkedShuffler"]

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "pytest",
        "uvloop",
        "hubbub_cli.commands.shuffler",
        "hubbub_shuffler.main",
        "tests.shuffler.batcher_process",
        __name__,
    ]
)


def _run(settings: dict[str, str], log: Path) -> None:
    """What the child does: everything that it says goes to the log."""
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    for name in [name for name in os.environ if name.startswith("HUBBUB_")]:
        del os.environ[name]
    os.environ.update({f"HUBBUB_SHUFFLER_{name.upper()}": value for name, value in settings.items()})
    from hubbub_cli.commands.shuffler import shuffler

    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a real file
    shuffler.main(args=[])


class ForkedShuffler:
    """`hubbub shuffler` in a process of its own, as tests.shuffler.process has it."""

    def __init__(self, state_dir: Path, aggregator: str, log: Path, **settings: str) -> None:
        given = {"state_dir": str(state_dir), "aggregator": aggregator, "forward_token": TOKEN, "port": "0"}
        # one file for each: processes that share a log could not tell whose address it says
        self._log = log.with_name(f"{log.name}-{os.urandom(4).hex()}")
        self._log.touch()
        self._process = FORKS.Process(target=_run, args=(given | settings, self._log), daemon=True)
        self.address = ""

    def __enter__(self) -> Self:
        self._process.start()

        def announced() -> bool:
            assert self._process.is_alive(), self._log.read_text()
            for line in self._log.read_text().splitlines():
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
        self._process.kill()
        self._process.join(PATIENCE)

    def stop(self) -> int | None:
        """Ask it to end, as a supervisor does; its exit code."""
        self._process.terminate()
        self._process.join(PATIENCE)
        return self._process.exitcode

    def __exit__(self, *_exc: object) -> None:
        if self._process.is_alive():
            self.kill()
