"""An app that forks before its first client, while a thread of its own hangs in an import.

python -m tests.client.process.fork_before_first_client MODULE STATE_DIRECTORY [used]

What is printed is what the child's `Client` raises. `used`: something of the SDK had run before the fork.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading

from hubbub_client._process import fork
from tests.client.process.fork_under_held_lock import Watcher, hold, made, reached
from tests.support.patience import PATIENCE, within


def main(module: str, directory: str, used: str = "") -> None:
    if used:
        fork._register()
    assert module not in sys.modules
    sys.meta_path.insert(0, Watcher(module))
    threading.Thread(target=hold, args=(module,), name="app", daemon=True).start()
    reached.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(PATIENCE / 2, exit=True)
        try:
            with within(4):
                made(directory, "")
        except BaseException as error:  # noqa: BLE001  for whoever reads it
            os.write(1, f"{type(error).__name__}\n".encode())
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
