"""The shuffler's command in a process that starts fast: forked from one that has loaded the code already."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Protocol

from tests.shuffler.forkserver import FORKS
from tests.shuffler.process import ShufflerProcess

__all__ = ["ForkedProcess"]


def _run(environment: dict[str, str], log: Path) -> None:
    """What the child does: everything that it says goes to the log."""
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    from hubbub_cli.commands.shuffler import shuffler

    shuffler.main(args=[])


class _Process(Protocol):
    """What the two kinds of a process that multiprocessing has in common."""

    @property
    def pid(self) -> int | None: ...
    @property
    def exitcode(self) -> int | None: ...
    def kill(self) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...


class _Child:
    """A forked process with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, process: _Process) -> None:
        self._process = process
        assert process.pid is not None
        self.pid: int = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        assert code is not None, "it does not end"
        return code

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


class ForkedProcess(ShufflerProcess):
    """`hubbub shuffler` without the two seconds of CPU for loading it. The clean start is tested in test_service."""

    def _start(self) -> _Child:
        process = FORKS.Process(target=_run, args=(self._environment, self.log), daemon=True)
        process.start()
        return _Child(process)
