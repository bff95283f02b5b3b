"""A world: Redis servers where there are any, aggregators, shufflers and the network between them, all real."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.publication.keys import IDENTITY, load_identity
from hubbub_cli.api_client import ask
from tests.faults.clocks import Clock
from tests.faults.devices import Devices
from tests.faults.oracle import Judgement, judge
from tests.faults.plan import Party, Plan
from tests.faults.processes import Service
from tests.faults.proxy import Proxy
from tests.support.compiled import write_compiled
from tests.support.redis_server import RedisServer, one_server

__all__ = ["World", "running"]

TOKEN = "a-token-between-the-two-services"  # noqa: S105  of this test only
SETTLING = 240.0
"""Seconds after the last close in which everything must have its verdict."""


@dataclass
class World:
    """Everything that runs, by name."""

    plan: Plan
    folder: Path
    anchor: str
    redis: list[RedisServer]
    aggregators: list[Service]
    shufflers: list[Service]
    devices: Devices
    clocks: dict[Party, Clock]
    proxies: list[Proxy] = field(default_factory=list)

    @property
    def services(self) -> list[Service]:
        return [*self.aggregators, *self.shufflers]

    def set_clock(self, party: Party, seconds: int) -> None:
        if party == "device":
            self.devices.moved.offset = seconds
        else:
            self.clocks[party].set(seconds)

    def next_close(self) -> float:
        """When the next bucket closes."""
        return self.plan.closes(self.plan.calendar.index_at(time.time() - self.plan.grace))

    def revive(self) -> None:
        """Start again what ended by itself, as a supervisor does. It is counted as a fault."""
        for service in self.services:
            service.revive()

    def judge(self) -> Judgement:
        """After the devices have finished: let everything come to rest, then count."""
        settled = self._settle()
        found = judge(self.plan, self.devices.receipts, self.aggregators[0].address)
        for service in self.services:
            if service.ended_by_itself:
                found.fault("ended", f"{service.name}: {service.said(400)}", service.ended_by_itself)
        if not settled:
            found.fault("stuck", str(self._waiting()))
        return found

    def _settle(self) -> bool:
        """Everything runs, the network is good, and nothing is on its way any more."""
        for proxy in self.proxies:
            proxy.behave()
        for service in self.services:
            service.resume()
            service.revive()
        for service in self.services:
            service.wait_until_ready()
        last = max((period for _, period in self.devices.receipts.fates), default=0)
        until = min(self.plan.closes(last), time.time() + 60) + SETTLING  # a device with a wrong clock may be far ahead
        while time.time() < until:
            with suppress(click.ClickException, KeyError):
                if not any(self._waiting().values()) and time.time() > min(self.plan.closes(last), until - SETTLING):
                    return True
            time.sleep(0.3)
        return False

    def _waiting(self) -> dict[str, Any]:
        """What is on its way."""
        found: dict[str, Any] = {}
        for shuffler in self.shufflers:
            status = ask(shuffler.address, "/v1/status")
            found[f"{shuffler.name} buckets"] = status["buckets"]
            found |= {f"{shuffler.name} {name}": number for name, number in status["batches"].items()}
        found["pending"] = ask(self.aggregators[0].address, "/v1/status")["batches"]["pending"]
        return found


@contextmanager
def running(plan: Plan, folder: Path) -> Iterator[World]:
    """Started here, on ports of loopback; gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    codebook = write_compiled(folder / "codebook.json", plan.toml())
    clocks: dict[Party, Clock] = {
        party: Clock(folder / f"clock-{party}") for party in plan.settable if party != "device"
    }
    host = clocks.get("host")
    with ExitStack() as stack:
        redis = []
        if plan.storage == "redis":
            clock = clocks["redis"].environment() if "redis" in clocks else None
            redis = [
                stack.enter_context(one_server(folder / f"redis-{name}", environment=clock))
                for name in ("shuffler", "aggregator")
            ]
        places = [{"STORAGE": server.url} for server in redis] or [{}, {}]
        anchor = anchor_of(load_identity(folder / "aggregator-0"))
        aggregators = [
            _aggregator(plan, folder, number, codebook, places[1], clocks.get("aggregator", host))
            for number in range(plan.aggregators)
        ]
        proxies = []
        target = aggregators[0].port
        if plan.bad_network or plan.aggregators > 1:
            ports = [service.port for service in aggregators]
            proxies.append(stack.enter_context(Proxy(ports, seed=plan.seed, bad=plan.bad_network)))
            target = proxies[0].port
        shufflers = [
            _shuffler(plan, folder, number, target, anchor, places[0], clocks.get("shuffler", host))
            for number in range(plan.shufflers)
        ]
        addresses = [service.address for service in shufflers]
        if plan.bad_network:
            proxies.append(stack.enter_context(Proxy([s.port for s in shufflers], seed=plan.seed + 1, bad=True)))
            addresses = [f"http://127.0.0.1:{proxies[-1].port}"]
        for service in (*aggregators, *shufflers):
            stack.callback(service.end)
        for kind in (aggregators, shufflers):
            for service in kind:
                service.start()
            for service in kind:
                service.wait_until_ready()
        devices = Devices(plan, anchor, addresses)
        yield World(plan, folder, anchor, redis, aggregators, shufflers, devices, clocks, proxies)


def _aggregator(
    plan: Plan, folder: Path, number: int, codebook: Path, place: dict[str, str], clock: Clock | None
) -> Service:
    state = folder / f"aggregator-{number}"
    if number:
        state.mkdir(mode=0o700)
        shutil.copy(folder / "aggregator-0" / IDENTITY, state / IDENTITY)  # several have one identity
    settings = {
        "CODEBOOK": str(codebook),
        "STATE_DIR": str(state),
        "SHUFFLER_TOKEN": TOKEN,
        "SINGLE_OPERATOR": "true",
        "PROCESSES": "1",
        "BUNDLE_MAX_AGE": str(plan.max_age),
        "LEASE": str(plan.lease),
        **place,
    }
    return _service(plan, f"aggregator-{number}", "aggregator", settings, folder, clock)


def _shuffler(
    plan: Plan, folder: Path, number: int, aggregator: int, anchor: str, place: dict[str, str], clock: Clock | None
) -> Service:
    settings = {
        "AGGREGATOR": f"http://127.0.0.1:{aggregator}",
        "FORWARD_TOKEN": TOKEN,
        "TRUST": anchor,
        # on SQLite several share one file
        "STATE_DIR": str(folder / ("shuffler" if plan.storage == "sqlite" else f"shuffler-{number}")),
        "MIN_BATCH_FLOOR": "2",
        "LEASE": str(plan.lease),
        "TICK": "0.2",
        "LONGEST_BACKOFF": "2",
        **({"MAX_BATCH": str(plan.max_batch)} if plan.max_batch else {}),
        **place,
    }
    return _service(plan, f"shuffler-{number}", "shuffler", settings, folder, clock)


def _service(plan: Plan, name: str, kind: Any, settings: dict[str, str], folder: Path, clock: Clock | None) -> Service:
    environment = clock.environment() if clock else None if plan.forked else {}
    return Service(name, kind, settings, folder, clock=environment)
