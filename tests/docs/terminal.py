"""A reader's terminal: blocks of a page are typed in, in order, in a scratch folder; services get reserved ports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hubbub_client import Client
from tests.docs.blocks import ROOT, Block, commands
from tests.support.patience import PATIENCE
from tests.support.ports import reserved_port

__all__ = ["Terminal", "needed", "starts_a_service", "terminal"]

_SERVICE = re.compile(r"(?:\w+=\S* )*hubbub (up|shuffler|aggregator)\b(?! (?:backup|restore|held|damaged|--help))")
_NOT_YET = "released"
_HERE = {"hubbub", "python", "python3", "cd", "mkdir", "cat", "diff", "sed", "install", "mv", "cp", "rm", "export"}
_HERE |= {"umask", "chmod", "openssl", "printf", "echo", "ls", "head"}
"""What a reader has, and a test: nothing that needs root, a network or an engine."""
_OUTSIDE = re.compile(r"(?<![\w/:.])/(?:etc|opt|root|usr|var|srv|home)\b/?")


def needed(text: str) -> list[str]:
    """Programs that a block calls and a scratch folder does not have, and places outside it that it would change."""
    bare = re.sub(r"<<-?\s*['\"]?(\w+)['\"]?\n.*?^\s*\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [re.sub(r"^[(]|^(?:\w+=[^\s$]* )+", "", line) for line in commands(bare)]
    called = [line.split()[0] for line in lines if not re.match(r"\w+=", line)]
    return [word for word in called if word not in _HERE] + _OUTSIDE.findall("\n".join(lines))


def starts_a_service(command: str) -> str:
    """Which one a command line leaves running, if any."""
    found = _SERVICE.match(command)
    return found[1] if found else ""


class Terminal:
    """What a page is typed into. `address`: which aggregator `hubbub query` asks, unless the page runs one."""

    def __init__(self, folder: Path, address: str = "") -> None:
        self.folder, self._state = folder, folder / ".exported"
        self.ports = {"8701": str(reserved_port()), "8702": str(reserved_port())}
        self.said: list[str] = []
        """What each command that ended has printed."""
        self._services: list[subprocess.Popen[bytes]] = []
        self._cwd = folder
        own = {k: v for k, v in os.environ.items() if not k.startswith(("HUBBUB_", "DO_NOT_TRACK"))}
        self._environment = own | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HUBBUB_ADDRESS": address or f"http://127.0.0.1:{self.ports['8702']}",
            "HUBBUB_SHUFFLER_PORT": self.ports["8701"],
            "HUBBUB_SHUFFLER_AGGREGATOR": f"http://127.0.0.1:{self.ports['8702']}",
            "HUBBUB_AGGREGATOR_PORT": self.ports["8702"],
            "HUBBUB_AGGREGATOR_PROCESSES": "1",
        }

    def follow(self, block: Block) -> None:
        """Do what a reader does with a block: save it, or type it in."""
        if block.file:
            (self._cwd / block.file).write_text(self._here(block.text))
            return
        assert needed(block.text) == [], f"{block.place}: this must not be run here"  # as root it would
        waiting: list[str] = []
        for line in block.text.replace("\\\n", " ").splitlines():
            command = next(commands(line), "")
            service = starts_a_service(command)
            if not service and not command.startswith("hubbub query"):
                waiting.append(line.removeprefix("$ "))
                continue
            self._run(waiting, block)
            waiting = []
            if service:
                self._start(service, command, block)
            else:
                self._ask(command, block)
        self._run(waiting, block)

    def close(self) -> None:
        """Ctrl-C in the terminals where services run."""
        for process in reversed(self._services):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _here(self, text: str) -> str:
        for told, reserved in self.ports.items():
            text = text.replace(f"127.0.0.1:{told}", f"127.0.0.1:{reserved}")
        return _unexpired(text)

    def _shell(self, command: str, patience: float) -> subprocess.CompletedProcess[str]:
        where = self.folder / ".where"
        done = subprocess.run(
            [
                "bash",
                "-euo",
                "pipefail",
                "-c",
                f'{self._again}\n{self._here(command)}\nexport -p >"{self._state}"\npwd >"{where}"',
            ],
            cwd=self._cwd,
            env=self._environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=patience,
            check=False,
        )
        if where.exists():
            self._cwd = Path(where.read_text().strip())
        self.said.append(done.stdout)
        return done

    @property
    def _again(self) -> str:
        """What one block exports holds for the next."""
        return f'[ ! -e "{self._state}" ] || . "{self._state}"'

    def _run(self, lines: list[str], block: Block) -> None:
        if any(line.strip() for line in lines):
            done = self._shell("\n".join(lines), 4 * PATIENCE)
            assert done.returncode == 0, f"{block.place}: {lines}\n{done.stdout}\n{done.stderr}"

    def _ask(self, command: str, block: Block) -> None:
        """A question whose answer may still have to come: the reader would ask again."""
        until = time.monotonic() + PATIENCE
        while True:
            done = self._shell(command, PATIENCE)
            if done.returncode == 0 or _NOT_YET not in done.stderr or time.monotonic() > until:
                break
            time.sleep(1)
        assert done.returncode == 0, f"{block.place}: {command}\n{done.stdout}\n{done.stderr}"

    def _start(self, service: str, command: str, block: Block) -> None:
        if service == "up":
            command += f" --shuffler-port {self.ports['8701']} --aggregator-port {self.ports['8702']}"
        port = self.ports["8702" if service == "aggregator" else "8701"]
        log = self.folder / f".{service}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"{self._again}\nexec {self._here(command)}"],
                cwd=self._cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self._services.append(process)
        until = time.monotonic() + PATIENCE
        while not _ready(f"http://127.0.0.1:{port}/readyz"):
            assert process.poll() is None, f"{block.place}: {command} ended\n{log.read_text()}"
            assert time.monotonic() < until, f"{block.place}: {command} is not ready\n{log.read_text()}"
            time.sleep(0.1)


def _unexpired(text: str) -> str:
    """A codebook whose metrics have not expired, whenever the test is run."""
    return re.sub(r"(?m)^expires = .*$", f"expires = {datetime.now(UTC).year + 1}-12-31", text)


def _ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310  loopback
            return True
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def terminal(folder: Path, address: str = "") -> Iterator[Terminal]:
    """A terminal in a folder that has what pages speak of: a codebook, two versions of one, data, the examples."""
    codebook = _unexpired((ROOT / "examples" / "metrics.toml").read_text(encoding="utf-8"))
    for name in ("metrics.toml", "old.toml"):
        (folder / name).write_text(codebook)
    (folder / "new.toml").write_text(codebook.replace("epsilon = 1.0", "epsilon = 0.5", 1))
    (folder / "examples").symlink_to(ROOT / "examples")
    with Client(  # the state of an app; nothing is sent
        "https://telemetry.example.com",
        trust="ed25519:A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg",
        consent=True,
        state_dir=folder / "STATE_DIR",
        codebook=folder / "metrics.toml",
        background=False,
    ) as client:
        client.record("theme", "dark")
    rows = ["theme,dark_mode,startup_ms", *(f"{'dark' if n % 3 else 'light'},{n % 2},{500 + n}" for n in range(1_000))]
    (folder / "devices.csv").write_text("\n".join(rows) + "\n")
    made = Terminal(folder, address)
    try:
        yield made
    finally:
        made.close()
