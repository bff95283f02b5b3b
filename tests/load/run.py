"""`make load`: start both services on loopback, let Locust at them for a bounded time, stop everything."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hubbub_cli.services import Services
from tests.ports import reserved_port

CODEBOOK = Path(__file__).parent.parent.parent / "examples" / "metrics.toml"
MOST_USERS, MOST_MINUTES = 500, 60


def main() -> int:
    users = min(int(os.environ.get("USERS", "20")), MOST_USERS)
    minutes = min(float(os.environ.get("MINUTES", "1")), MOST_MINUTES)
    with (
        tempfile.TemporaryDirectory(prefix="hubbub-load-") as folder,
        (Path(folder) / "log").open("w") as log,
        Services(
            Path(folder), CODEBOOK, shuffler_port=reserved_port(), aggregator_port=reserved_port(), log=log
        ) as services,
    ):
        command = [sys.executable, "-m", "locust", "-f", str(Path(__file__).with_name("locustfile.py"))]
        command += ["--headless", "--only-summary", "--users", str(users), "--spawn-rate", "20"]
        command += ["--run-time", f"{round(60 * minutes)}s", "--host", services.shuffler]
        environment = {**os.environ, "HUBBUB_QUERY_ADDRESS": services.aggregator}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
