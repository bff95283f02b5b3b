"""Name lookup: a resolver that fails, hangs or wakes up late, and addresses without a server, never hold a device."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from hubbub_client import Client
from hubbub_client._http.dns import Address, addresses_of
from hubbub_client._http.happy_eyeballs import _alternating_families
from hubbub_client._http.transport import CannotReach, HttpTransport
from tests.client.http.bad_servers import healthy, running
from tests.client.world import TRUST, World, forks
from tests.support.patience import PATIENCE, wait_for, within
from tests.support.ports import reserved_port

IN_TIME = 8.0
"""Seconds for what has to give up after half a one; without that limit it would after ten and more."""


def device(world: World, address: str, transport: HttpTransport | None = None) -> Client:
    return Client(
        address,
        trust=TRUST,
        consent=True,
        state_dir=world.directory,
        clock=world.time,
        background=False,
        transport=transport,
    )


def gives_up_in_time(client: Client, timeout: float) -> None:
    with within(IN_TIME):
        assert not client.flush(timeout, now=True)


class Resolver:
    """A lookup that hangs until it is told to go on."""

    def __init__(self, *addresses: Address) -> None:
        self.asked: list[str] = []
        self.go_on = threading.Event()
        self.addresses = list(addresses)

    def __call__(self, host: str, _port: int) -> list[Address]:
        self.asked.append(host)
        self.go_on.wait(60)
        return self.addresses


def here(port: int) -> Address:
    return socket.AF_INET, ("127.0.0.1", port)


def test_a_name_that_does_not_exist_is_no_answer(world: World) -> None:
    client = device(world, "https://telemetry.invalid")
    client.record("theme", "dark")
    gives_up_in_time(client, 0.5)
    assert client.stats()["bundle:CannotReach"] >= 1
    client.close()


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "x." * 200 + "example", "-.-"])
def test_a_name_that_cannot_be_one_is_no_answer(host: str) -> None:
    with pytest.raises(CannotReach):
        HttpTransport(f"https://{host}", timeout=2).request("GET", "/", {}, b"")


def test_a_resolver_that_hangs_is_left_in_time_and_asked_once(world: World) -> None:
    resolver = Resolver()
    transport = HttpTransport("https://telemetry.example.test", timeout=0.2, lookup=resolver, environ={})
    client = device(world, "https://telemetry.example.test", transport)
    client.record("theme", "dark")
    for _ in range(3):
        gives_up_in_time(client, 0)
    assert client.stats()["bundle:CannotReach"] == 3
    assert resolver.asked == ["telemetry.example.test"]
    resolver.go_on.set()
    client.close()


def test_a_resolver_that_wakes_up_again_is_asked_again() -> None:
    resolver = Resolver(here(1))
    with pytest.raises(TimeoutError):
        addresses_of("name", 1, 0.05, resolver)
    resolver.go_on.set()
    wait_for(lambda: addresses_of("name", 1, PATIENCE, resolver) == [here(1)] and len(resolver.asked) > 1, step=0)


def test_when_no_thread_can_be_started_the_addresses_of_last_time_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at exit. A lookup without a thread could hold up the end of the app."""
    resolver = Resolver(here(1))
    resolver.go_on.set()

    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        with pytest.raises(OSError, match="no thread"):
            addresses_of("name", 1, 1, resolver)
        assert addresses_of("127.0.0.1", 1, 1, resolver) == [here(1)]  # which nobody has to be asked for
    assert addresses_of("name", 1, PATIENCE, resolver) == [here(1)]
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        assert addresses_of("name", 1, 1, resolver) == [here(1)]
    assert resolver.asked == ["name"]


def test_a_lookup_that_breaks_is_heard_of_and_asked_again() -> None:
    asked: list[str] = []

    def broken(host: str, _port: int) -> list[Address]:
        asked.append(host)
        raise LookupError("of no kind that a lookup may raise")

    for _ in range(2):
        with pytest.raises(OSError, match="LookupError"):
            addresses_of("name", 1, PATIENCE, broken)
    assert asked == ["name", "name"]


class BlackHole:
    """A listener whose queue is full: on this machine, the nearest thing to an address that swallows everything."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.address: Address = (socket.AF_INET, self._listener.getsockname())
        self._fillers = [socket.socket() for _ in range(8)]
        for filler in self._fillers:
            filler.setblocking(False)
            filler.connect_ex(self._listener.getsockname())
        with socket.socket() as probe:
            probe.settimeout(0.1)
            assert probe.connect_ex(self._listener.getsockname()), "the queue is not full"

    def __enter__(self) -> BlackHole:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in accept
        for one in (self._listener, *self._fillers):
            one.close()

    def answer(self) -> None:
        """From now on, let everyone in, and answer them."""
        try:
            while True:
                visitor, _ = self._listener.accept()
                threading.Thread(target=self._greet, args=(visitor,), daemon=True).start()
        except OSError:
            return

    @staticmethod
    def _greet(visitor: socket.socket) -> None:
        with visitor, suppress(OSError):
            if visitor.recv(65_536):
                visitor.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


def status_by(*addresses: Address, timeout: float) -> int:
    resolver = Resolver(*addresses)
    resolver.go_on.set()
    with HttpTransport("http://localhost:1", timeout=timeout, lookup=resolver) as transport:
        return transport.request("GET", "/v1/bundle", {}, b"")[0]


def test_addresses_that_swallow_everything_leave_time_for_the_last(world: World) -> None:
    with BlackHole() as hole, running(healthy(world.transport)) as server:
        assert status_by(*[hole.address] * 4, here(server.port), timeout=PATIENCE) == 200


def test_of_two_kinds_of_address_the_second_has_its_turn_before_the_first_is_through(world: World) -> None:
    """As where a network promises the sixth version of the protocol and does not carry it: however many there are."""
    with BlackHole() as hole, running(healthy(world.transport)) as server:
        nowhere: list[Address] = [(socket.AF_INET6, ("2001:db8::1", 1))] * 40
        dead = [hole.address] * 40
        assert _alternating_families([*nowhere, here(server.port)])[1] == here(server.port)
        assert _alternating_families([here(1), *dead, *nowhere])[:2] == [here(1), nowhere[0]]
        with within(IN_TIME):
            assert status_by(hole.address, here(server.port), *dead, timeout=PATIENCE) == 200


def test_an_address_that_is_far_away_is_not_given_up_for_many_others() -> None:
    """It takes about a second to let someone in, much longer than its part of the time would be."""
    with BlackHole() as far, BlackHole() as hole:
        threading.Timer(0.3, far.answer).start()
        assert status_by(far.address, *[hole.address] * 40, timeout=30) == 200


def test_addresses_that_all_refuse_or_swallow_are_no_answer() -> None:
    nobody = reserved_port()
    with pytest.raises(CannotReach, match="refused"):
        status_by(here(nobody), here(nobody), timeout=PATIENCE)
    with within(IN_TIME), BlackHole() as hole, pytest.raises(CannotReach, match="Timeout"):
        status_by(here(nobody), *[hole.address] * 3, timeout=0.5)


@forks
def test_a_forked_child_does_not_wait_for_a_lookup_of_its_parents() -> None:
    """The thread that would have finished it did not come along."""
    program = """
import os, threading
from hubbub_client._http.happy_eyeballs import _alternating_families
from hubbub_client._http.dns import addresses_of

parent = os.getpid()

def lookup(host, port):
    if os.getpid() == parent:
        threading.Event().wait(200)
    return [("family", host)]

try:
    addresses_of("name", 1, 0.1, lookup)
except TimeoutError:
    pass
child = os.fork()
if not child:
    os._exit(0 if addresses_of("name", 1, 100, lookup) == [("family", "name")] else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", program], timeout=PATIENCE, check=True)
