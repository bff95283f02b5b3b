"""Devices of a world: clients of the SDK with a twin each, and crowds of devices that live for one report."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NamedTuple

from hubbub.randomness import Randomness
from hubbub.simulation.randomness import InsecureRandomness
from hubbub.trust_anchor import anchor_of
from hubbub.wire import decode_report, decode_upload
from hubbub_client import Client
from hubbub_client._http.transport import CannotReach
from hubbub_client._sending.backoff import Pace
from hubbub_client._state.database import FILE_NAME
from tests.support.codebooks import IDENTITY
from tests.world.event_loop import WorldLoop, acting
from tests.world.network import Answer, Faults, Request
from tests.world.oracle import Oracle
from tests.world.process import Killed, Machine, Process

__all__ = ["Device", "Life", "Seen"]

Send = Callable[["Life", Request], Answer | None]
"""What the network makes of a device's request; None: no answer."""


class Seen(NamedTuple):
    """A request as the shuffler sees it, without what is sealed."""

    at: float
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    reports: tuple[tuple[bytes, int, int, int], ...]


class KeyedCoins:
    """The same coins for both twins, a stream for each purpose. Of nonces, by which reports are ordered, they share the
    first half; the second half is a twin's own, and another one for a second draw."""

    def __init__(self, seed: str, twin: int) -> None:
        self.seed, self.own = seed, str(twin)
        self._nonces: Counter[tuple[str, int]] = Counter()

    def of(self, purpose: str, subject: str, number: int) -> Randomness:
        stream = _stream(f"{self.seed} {purpose} {subject} {number}")
        if purpose != "nonce":
            return stream
        self._nonces[subject, number] += 1
        return _Halves(stream, _stream(f"{self.own} {subject} {number} {self._nonces[subject, number]}"))


def _stream(name: str) -> InsecureRandomness:
    return InsecureRandomness(int.from_bytes(hashlib.sha256(name.encode()).digest()))


class _Halves(Randomness):
    """The first half of each draw from one stream, and the second half from another."""

    def __init__(self, first: Randomness, second: Randomness) -> None:
        self._first, self._second = first, second

    def bits(self, count: int) -> int:
        low = count // 2
        return self._first.bits(count - low) << low | self._second.bits(low)


@dataclass(eq=False)
class Life:
    """One twin: its directory, its process and its client."""

    name: str
    machine: Machine
    loop: WorldLoop
    directory: Path
    seed: str
    coins: KeyedCoins
    send: Send
    oracle: Oracle
    faults: Faults = field(default_factory=Faults)
    process: Process | None = None
    client: Client | None = None
    lives: int = 0
    consent: bool = True
    shuffler: int = 0
    seen: list[tuple[Seen, str]] = field(default_factory=list)
    """Requests of the steady lane, each with the answer."""
    copied: bool = False

    @property
    def backup(self) -> Path:
        return self.directory.with_name(f"{self.directory.name}-copy")

    def new_process(self) -> Process:
        self.lives += 1
        return Process(self.machine, random.Random(f"{self.seed} {self.lives}"))

    def start(self) -> None:
        if self.client is None:
            self.process = self.new_process()
            with acting(self.process):
                self.client = self.make(self.process, self.coins)

    def make(self, process: Process, coins: KeyedCoins) -> Client:
        return Client(
            "https://shuffler.world",
            trust=anchor_of(IDENTITY),
            consent=lambda: self.consent,
            state_dir=self.directory,
            max_epsilon=None,
            background=False,
            clock=self.machine.wall,
            rng=InsecureRandomness(process.rng.getrandbits(64)),
            coins=coins,
            pace=Pace(monotonic=self.machine.monotonic, sleep=self._sleep),
            transport=self,
        )

    def _sleep(self, seconds: float) -> None:
        self.loop.pass_to(self.loop.now + seconds)

    def act(self, what: Callable[[Client], object], *, process: Process | None = None) -> None:
        """Do something with the client. Afterwards it may be dead."""
        self.start()
        assert self.client is not None
        client, process = self.client, process or self.process
        with acting(process), suppress(Killed):
            what(client)
        if process is not None and process.dead:
            self.kill()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
        if self.client is not None:
            self.client._closing = self.client._closed = True
        self.client = self.process = None

    # -- the transport

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Any:
        """One request of the client. CannotReach if no answer comes."""
        if self.process is not None and self.process.dead:
            raise Killed
        request = Request(method, path, tuple(sorted(headers.items())), body)
        at = self.loop.now
        with acting(None):
            answer = self.send(self, request)
        self.note(request, at, answer)
        if self.process is not None and self.process.dead:
            raise Killed
        if answer is None:
            raise CannotReach("no answer")
        return answer.status, dict(answer.headers), answer.body

    def note(self, request: Request, at: float, answer: Answer | None) -> None:
        shown = []
        for report in decode_upload(request.body) if request.method == "POST" else []:
            header, _ = decode_report(report)
            shown.append((header.metric, header.period, header.key, len(report)))
        said = "lost" if answer is None else f"{answer.status} {hashlib.sha256(answer.body).hexdigest()[:8]}"
        seen = Seen(round(at, 3), request.method, request.path, request.headers, tuple(shown))
        self.seen.append((seen, said))

    # -- other processes on the directory

    def second(self, what: Callable[[Client], object]) -> None:
        """Another process of the app, which ends afterwards."""
        process = self.new_process()
        with acting(process), suppress(Killed):
            client = self.make(process, self.coins)
            what(client)
            client.close(0)
        process.kill()

    def fork(self, what: Callable[[Client], object]) -> None:
        """A real fork. The child speaks through this process, and ends."""
        self.start()
        assert self.client is not None
        assert self.process is not None
        ours, theirs = Pipe()
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(30)
                self.process.rng = random.Random(f"{self.seed} fork {self.lives} {len(self.seen)}")
                self.coins.own += " fork"  # it draws for itself
                self.oracle.journal.clear()
                self.send = _through(theirs)
                with acting(self.process), suppress(Exception, Killed):
                    what(self.client)
                theirs.send((None, self.oracle.journal))
            finally:
                os._exit(0)
        theirs.close()
        asked: Request | None = Request("", "", (), b"")
        while asked is not None:
            try:
                asked, sealed = ours.recv()
            except EOFError:
                break  # it was killed
            for each in sealed:
                self.oracle.sealed(*each)
            if asked is not None:
                at, answer = self.loop.now, self.send(self, asked)
                self.note(asked, at, answer)
                ours.send(answer)
        os.waitpid(child, 0)
        ours.close()

    # -- what happens to the directory

    def copy(self) -> None:
        self.kill()
        if self.directory.exists():
            shutil.rmtree(self.backup, ignore_errors=True)
            shutil.copytree(self.directory, self.backup)
            self.copied = True

    def put_back(self, *, witness: bool) -> None:
        if not self.copied:
            return
        self.kill()
        kept = None if witness else self._witness()
        shutil.rmtree(self.directory)
        shutil.copytree(self.backup, self.directory)
        if kept is not None:
            (self.directory / "hubbub.witness").write_bytes(kept)

    def _witness(self) -> bytes | None:
        with suppress(OSError):
            return (self.directory / "hubbub.witness").read_bytes()
        return None

    def tear(self, page: int) -> None:
        self.kill()
        tear(self.directory / FILE_NAME, page)


def tear(path: Path, page: int) -> None:
    """Zeros in place of one page."""
    with suppress(OSError):
        size = path.stat().st_size
        pages = size // 4096
        if pages > 1:
            with path.open("r+b") as file:
                file.seek(page % pages * 4096)
                file.write(bytes(4096))


def _through(pipe: Any) -> Send:
    """What a child sends goes through its parent, which also learns what the child has sealed."""

    def send(life: Life, request: Request) -> Answer | None:
        pipe.send((request, life.oracle.journal))
        life.oracle.journal.clear()
        found: Answer | None = pipe.recv()
        return found

    return send


@dataclass
class Device:
    """A device and its twin: the same clock, answers, coins and calls; other values."""

    number: int
    lives: tuple[Life, Life]
    comparable: bool = True
    """Whether nothing has befallen one twin that did not befall the other in the same way."""

    @property
    def name(self) -> str:
        return f"d{self.number}"
