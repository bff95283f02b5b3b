"""A process that opens a device's state, says what was decided about its theme, and closes it again.

python -m tests.client.state.passing_process STATE_DIRECTORY
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path


def main(directory: str) -> None:
    connection = sqlite3.connect(Path(directory) / "hubbub.sqlite3", isolation_level=None)
    decided = connection.execute("SELECT decision FROM ledger WHERE metric = 'theme'").fetchall()
    connection.execute("PRAGMA user_version=" + str(connection.execute("PRAGMA user_version").fetchone()[0]))  # a write
    connection.close()
    sys.stdout.write("".join(f"{decision}\n" for (decision,) in decided))


if __name__ == "__main__":
    main(*sys.argv[1:])
