"""The aggregator as it is run: a process, a socket, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub.bundle import verify
from hubbub.errors import InvalidParameter
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.main import only_one
from hubbub_aggregator.settings import Settings
from tests.aggregator.world import CODEBOOK, Site, remember
from tests.support import http
from tests.support.clock import Clock
from tests.support.compiled import write_compiled
from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port

RUN = """
import sys
from pathlib import Path
if __name__ == "__main__":  # each worker of the service loads this file once more, and needs none of it
    from hubbub_aggregator.main import run
    from hubbub_aggregator.settings import Settings
    run(Settings(codebook=Path(sys.argv[1]), state_dir=Path(sys.argv[2]), port=int(sys.argv[3]), processes=1,
        admin_port=0))
"""
CANARY = "canary-4711"


@contextmanager
def serving(root: Path) -> Iterator[tuple[subprocess.Popen[str], str, Path]]:
    write_compiled(root / "codebook.json", CODEBOOK)
    (root / "run.py").write_text(RUN)
    remember(Settings(state_dir=root / "state"))
    log, port = root / "log", reserved_port()
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, str(root / "run.py"), str(root / "codebook.json"), str(root / "state"), str(port)],
            stdout=file,
            stderr=file,
            text=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: "trust anchor ed25519:" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield process, address, log
    finally:
        process.kill()
        process.wait()


@pytest.mark.full  # four seconds; every day test_crash.py kills it while it commits
def test_it_serves_survives_kill_9_and_stops_on_sigterm(tmp_path: Path, pool: Pool) -> None:
    headers = {
        "Content-Type": "application/vnd.hubbub.batch",
        "User-Agent": CANARY,
        "X-Forwarded-For": "203.0.113.77",
    }
    name = os.urandom(16).hex()
    with serving(tmp_path) as (process, address, log):
        assert address in log.read_text()
        body = real_batch(tmp_path, pool)
        assert http.put(f"{address}/v1/batches/{name}", content=body, headers=headers).status_code == 202
        wait_for(lambda: children_of(process.pid) or verdict(address, name) != "pending")
        children = children_of(process.pid)
        process.kill()
        process.wait()
        wait_for(lambda: not any(map(lives, children)))

    with serving(tmp_path) as (process, address, log):
        wait_for(lambda: verdict(address, name) == "accepted")
        answer = http.get(f"{address}/v1/metrics/dark_mode/estimate", headers=headers).json()
        assert answer["segments"][0]["reports"] == 300
        http.get(f"{address}/{CANARY}", headers=headers)
        anchor = log.read_text().split("trust anchor ")[1].split()[0]
        verify(http.get(f"{address}/v1/bundle").content, [anchor], time.time())
        children = children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
        wait_for(lambda: not any(map(lives, children)))
        everything = b"".join(
            path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "run.py"
        )
        for secret in (CANARY, "203.0.113.77"):
            assert secret.encode() not in everything
        assert "Traceback" not in log.read_text()


def test_two_processes_never_share_a_state_directory(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(InvalidParameter, match="another aggregator is running"), only_one(tmp_path):
        pass
    with only_one(tmp_path):
        pass


def children_of(parent: int) -> list[int]:
    """Processes that this one started, by the kernel's own list."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if state_of(int(path.name))[1] == parent]


def lives(process: int) -> bool:
    return state_of(process)[0] not in ("", "Z")


def state_of(process: int) -> tuple[str, int]:
    """State and parent; an empty state for one that is gone."""
    try:
        state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "", 0
    return state, int(parent)


def verdict(address: str, name: str) -> str:
    state: str = http.get(f"{address}/v1/batches/{name}").json()["state"]
    return state


def real_batch(root: Path, pool: Pool) -> bytes:
    """A batch of the present period for the process that runs on this directory."""
    site = Site(
        root / "state",
        root / "codebook.json",
        Clock(time.time()),
        Settings(codebook=root / "codebook.json", state_dir=root / "state"),
        pool,
    )
    body = site.batch("dark_mode", [True] * 300)
    site.close()
    return body
