"""A service as a child process that does not outlive the command that started it, even if that is killed (kill -9)."""

from __future__ import annotations

import os
import signal
import sys
import threading

from hubbub_service_common.process.clock_and_entropy import sleep

LOOK_AGAIN = 0.5


def watch(parent: int) -> None:
    """End this process once its parent is gone: an orphan gets another parent."""
    while os.getppid() == parent:
        sleep(LOOK_AGAIN)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=watch, args=(int(sys.argv.pop(1)),), daemon=True).start()
    from hubbub_cli.main import main

    main()
