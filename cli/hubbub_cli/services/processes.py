"""Shuffler and aggregator as two real processes on embedded storage, for `hubbub up` and `hubbub demo`."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Literal, Self, TypeAlias

import click

from hubbub_cli.api_client import opener
from hubbub_cli.services.relayed_log import RelayedLog
from hubbub_service_common.process import atomic_files
from hubbub_service_common.process.clock_and_entropy import monotonic, sleep, token

if TYPE_CHECKING:
    from hubbub.bundle_body import Body

STARTING = 60.0
"""Seconds until a service must answer; the first start computes batch sizes."""
STOPPING = 15.0

Name: TypeAlias = Literal["shuffler", "aggregator"]


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Free loopback ports, held so that the system does not give them to another process that asks for any port.

    Our services can still listen there: Linux lets one socket listen beside another that only holds the address.
    Other systems do not, so there the ports are released at once.
    """
    with ExitStack() as holding:
        probes = [holding.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", 0))
        ports = [int(probe.getsockname()[1]) for probe in probes]
        if sys.platform != "linux":
            holding.close()
        yield ports


class Services:
    """Both services, running inside a `with` block. The first start makes tokens and keys in the state directory."""

    def __init__(
        self,
        state_dir: Path,
        codebook: Path,
        *,
        shuffler_port: int,
        aggregator_port: int,
        aggregator_settings: Mapping[str, str] | None = None,
        shuffler_settings: Mapping[str, str] | None = None,
        log: IO[str] | None = None,
        relayed: RelayedLog | None = None,
    ) -> None:
        """`codebook`: a metrics.toml, which is compiled first, or a compiled one. `log` receives the services' output;
        None leaves it on stderr, or gives it to `relayed`. Settings in the environment are not used."""
        self.state_dir, self.codebook, self._log, self._relayed = state_dir, codebook, log, relayed
        self.served = state_dir / "codebook.json"
        self.was_compiled = False
        self.shuffler = f"http://127.0.0.1:{shuffler_port}"
        self.aggregator = f"http://127.0.0.1:{aggregator_port}"
        self._ports = {"shuffler": shuffler_port, "aggregator": aggregator_port}
        self._extra = {"shuffler": shuffler_settings or {}, "aggregator": aggregator_settings or {}}
        self._own: dict[str, dict[str, str]] = {}
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.anchor = ""

    @property
    def floor(self) -> int:
        """Fewest reports that the shuffler forwards together."""
        from hubbub_cli.services.default_min_crowd import usual_floor

        given = self._extra["shuffler"].get("MIN_BATCH_FLOOR", "")
        return int(given) if given.isdecimal() and int(given) > 1 else usual_floor()  # the shuffler refuses others

    def refuse_if_taken(self) -> None:
        """End the command if another process has a port or the state directory, before anything is made or printed.

        Another process on a port could be mistaken for our service.
        """
        for name, port in self._ports.items():
            _refuse_taken(name, port)
        _refuse_shared(self.state_dir)

    def __enter__(self) -> Self:
        from hubbub.trust_anchor import anchor_of
        from hubbub_aggregator.publication.keys import load_identity
        from hubbub_cli.compile_codebook import freeze

        self.refuse_if_taken()
        self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.frozen, self.was_compiled = freeze(self.codebook, self.served)
        self.anchor = anchor_of(load_identity(self.state_dir / "aggregator"))
        token = _token(self.state_dir / "forward.token")
        self._own = {
            "aggregator": {
                "CODEBOOK": str(self.served),
                "SHUFFLER_TOKEN": token,
                "SINGLE_OPERATOR": "true",
                "SHUFFLER_ADDRESS": self.shuffler,
                "SHUFFLER_FLOOR": str(self.floor),
            },
            "shuffler": {"AGGREGATOR": self.aggregator, "FORWARD_TOKEN": token, "TRUST": self.anchor},
        }
        try:
            self.start("aggregator")
            self.start("shuffler")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def watch(self) -> None:
        """Wait until a service stops by itself, which is an error."""
        while True:
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise click.ClickException(f"the {name} stopped with exit code {process.returncode}")
            sleep(0.5)

    def process_id(self, name: Name) -> int:
        """Process id of one service, of its current or last run."""
        return self._running[name].pid

    def kill(self, name: Name) -> None:
        """End one service as a power cut would. `start` brings it back."""
        self._running[name].kill()
        self._running[name].wait()

    def start(self, name: Name) -> None:
        """Start one service and wait until it is ready."""
        prefix = f"HUBBUB_{name.upper()}_"
        own = {
            **self._own[name],
            "HOST": "127.0.0.1",
            "PORT": str(self._ports[name]),
            "STATE_DIR": str(self.state_dir / name),
        }
        environment = {k: v for k, v in os.environ.items() if not k.upper().startswith(prefix)}
        environment |= {prefix + key: value for key, value in {**own, **self._extra[name]}.items()}
        self._running[name] = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", "hubbub_cli.services.exit_with_parent", str(os.getpid()), name],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.PIPE if self._relayed is not None else self._log,
            text=True,
        )
        if self._relayed is not None and (stream := self._running[name].stderr) is not None:
            self._relayed.read(stream)
        self._wait_until_ready(name, f"http://127.0.0.1:{self._ports[name]}/readyz")

    def _wait_until_ready(self, name: str, address: str) -> None:
        until = monotonic() + STARTING
        while monotonic() < until:
            if self._running[name].poll() is not None:
                raise click.ClickException(f"the {name} did not start; see what it printed above{self._log_hint()}")
            try:
                with opener(address).open(address, timeout=2):
                    if self._running[name].poll() is None:
                        return
            except (urllib.error.URLError, OSError):
                sleep(0.1)
        raise click.ClickException(f"the {name} was not ready after {STARTING:.0f} seconds{self._log_hint()}")

    def clock_warning(self) -> str | None:
        """The shuffler's warning about its clock, on which closing periods depends; None if there is none."""
        address = f"{self.shuffler}/readyz"
        try:
            with opener(address).open(address, timeout=2) as answer:
                warnings = json.load(answer).get("warnings", [])
        except (urllib.error.URLError, OSError, ValueError):
            return None  # not a reason to stop
        return next((str(each["detail"]) for each in warnings if each["name"] == "clock"), None)

    def bundle(self, now: float) -> Body | None:
        """What the aggregator tells devices, verified; None if it can't be read, which is not a reason to stop."""
        from hubbub.bundle import verify
        from hubbub.errors import HubbubError

        address = f"{self.aggregator}/v1/bundle"
        try:
            with opener(address).open(address, timeout=2) as answer:
                return verify(answer.read(), {self.anchor}, now).body
        except (urllib.error.URLError, OSError, HubbubError):
            return None

    def _log_hint(self) -> str:
        return f" ({self._log.name})" if self._log is not None else ""

    def _stop(self) -> None:
        """Stop the shuffler first, so that it can finish forwarding. Kill what does not stop in time."""
        for name in ("shuffler", "aggregator"):
            if (process := self._running.get(name)) is None:
                continue
            process.terminate()
            try:
                process.wait(STOPPING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._relayed is not None:
            self._relayed.show()
            self._relayed.finish()


def _refuse_shared(state_dir: Path) -> None:
    """Refuse a state directory in which another process runs the services."""
    lock = state_dir / "aggregator" / "lock"
    if not lock.exists():
        return
    with lock.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.ClickException(
                f"another `hubbub up` works in {state_dir}: stop it, or choose another directory with --state-dir. "
                "Nothing was started"
            ) from None


def _refuse_taken(name: str, port: int) -> None:
    """Refuse a port on which another process listens. A socket that only holds the port is fine: see `held_ports`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return  # the service itself says what is wrong
            raise click.ClickException(
                f"port {port} is in use: another `hubbub up`, or something else, listens there. Stop it, or choose "
                f"another port with --{name}-port. Nothing was started"
            ) from None


def _token(path: Path) -> str:
    """The token between the two services, made once and readable only by its owner."""
    if not path.exists():
        atomic_files.write(path, token(32).encode(), replace=False)
    return path.read_text().strip()
