"""Separate hosts on one machine: network namespaces with cables between them, and users who are not root.

What runs on a host sees its own addresses only, finds others by the names in its own /etc/hosts, and runs under a user
without any rights. Everything ends with the process that made it, except for the names of the network namespaces,
which are removed at the end.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import IO, Any

__all__ = ["ROOT", "Host", "Lab", "closed_to_others", "lab", "why_not"]

ROOT = Path(__file__).parent.parent.parent
_TOOLS = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux"}


@cache
def why_not() -> str:
    """Why there can be no hosts here, with what would help; empty if there can be."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs root on Linux: it makes network and mount namespaces"
    missing = sorted({package for tool, package in _TOOLS.items() if shutil.which(tool) is None})
    if missing:
        return f"needs apt-get install {' '.join(missing)}"
    tried = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else f"may not make namespaces: {tried.stderr.decode().strip()}"


def closed_to_others(path: Path) -> list[Path]:
    """Directories above this path that only their owner may enter, the outermost first."""
    return [above for above in reversed(path.parents) if not above.stat().st_mode & 0o001]


class Host:
    """One machine: its network namespace, its addresses, the names it knows."""

    def __init__(self, name: str, namespace: str, folder: Path) -> None:
        self.name, self.namespace, self.folder = name, namespace, folder
        self.hosts = folder / f"{name}.hosts"
        self.hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")

    def knows(self, name: str, address: str) -> None:
        with self.hosts.open("a") as hosts:
            hosts.write(f"{address} {name}\n")

    def start(
        self,
        command: Sequence[str | Path],
        *,
        user: int,
        environment: Mapping[str, str] | None = None,
        log: IO[bytes] | int | None = None,
        needs: Sequence[Path] = (),
    ) -> subprocess.Popen[bytes]:
        """A process on this host, under this user; `needs`: what it reads, though the way there is closed to others."""
        return subprocess.Popen(
            self._argv(command, user, needs),
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT if log is not None else None,
            cwd="/",
        )

    def run(self, command: Sequence[str | Path], *, user: int, timeout: float = 120, **options: Any) -> tuple[int, str]:
        """Its exit code and all that it said."""
        process = self.start(command, user=user, log=subprocess.PIPE, **options)
        try:
            said, _ = process.communicate(timeout=timeout)
        finally:
            process.kill()
        return process.returncode, said.decode()

    def _argv(self, command: Sequence[str | Path], user: int, needs: Sequence[Path]) -> list[str]:
        steps = [
            "set -eu",
            "mount --make-rprivate /",
            f"mount --bind {shlex.quote(str(self.hosts))} /etc/hosts",
            *_opened([Path(sys.base_prefix), *needs], self.folder / "hold"),
            f"exec setpriv --reuid {user} --regid {user} --clear-groups --no-new-privs "
            f"--bounding-set=-all --inh-caps=-all {shlex.join(map(str, command))}",
        ]
        inside = ["nsenter", f"--net=/run/netns/{self.namespace}", "unshare", "--mount"]
        return [*inside, "sh", "-c", "\n".join(steps)]


def _opened(paths: Sequence[Path], hold: Path) -> list[str]:
    """Steps that let others reach these paths, in this mount namespace only: /root stays as closed as it is."""
    steps: list[str] = []
    closed = {path: closed_to_others(path) for path in dict.fromkeys(path.resolve() for path in paths)}
    moved = [(number, path) for number, path in enumerate(closed) if closed[path]]
    for number, path in moved:
        steps += [f"mkdir -p {hold}/{number}", f"mount --bind {shlex.quote(str(path))} {hold}/{number}"]
    for directory in sorted({closed[path][0] for _, path in moved}):
        steps.append(f"mount -t tmpfs -o mode=0755 tmpfs {shlex.quote(str(directory))}")
    for number, path in moved:
        steps += [f"mkdir -p {shlex.quote(str(path))}", f"mount --move {hold}/{number} {shlex.quote(str(path))}"]
    return steps


class Lab:
    """Hosts and the cables between them. Where there is no cable, there is no way."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self.hosts: dict[str, Host] = {}
        self._nets = 0
        self._prefix = f"hb{os.getpid()}"

    def host(self, name: str) -> Host:
        namespace = f"{self._prefix}-{name}"
        _ip("netns", "add", namespace)
        self._stack.callback(_ip, "netns", "delete", namespace)
        _ip("-n", namespace, "link", "set", "lo", "up")
        self.hosts[name] = Host(name, namespace, self.folder)
        return self.hosts[name]

    def network(self, *names: str) -> None:
        """One network between these hosts, on which each knows the others by name."""
        number, self._nets = self._nets, self._nets + 1
        switch = f"{self._prefix}-net{number}"
        _ip("netns", "add", switch)
        self._stack.callback(_ip, "netns", "delete", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        addresses = {name: f"10.77.{number}.{at}" for at, name in enumerate(names, 1)}
        for at, (name, address) in enumerate(addresses.items()):
            host = self.hosts[name]
            _ip(
                "-n",
                host.namespace,
                "link",
                "add",
                f"net{number}",
                "type",
                "veth",
                "peer",
                f"port{at}",
                "netns",
                switch,
            )
            _ip("-n", switch, "link", "set", f"port{at}", "master", "bridge", "up")
            _ip("-n", host.namespace, "address", "add", f"{address}/24", "dev", f"net{number}")
            _ip("-n", host.namespace, "link", "set", f"net{number}", "up")
            for other, there in addresses.items():
                host.knows(other, there)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


@contextmanager
def lab() -> Iterator[Lab]:
    """An empty lab with a folder that every user may enter; both are gone at the end."""
    with ExitStack() as stack:
        folder = Path(mkdtemp(prefix="hubbub-lab-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o711)
        yield Lab(folder, stack)
