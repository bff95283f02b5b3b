"""The whole path with real processes and the real clock: what comes out is what went in, once, with its guarantee."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from itertools import cycle
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from hubbub.accounting import guarantee
from hubbub.codebook import Codebook
from hubbub.wire import REPORTS_TYPE
from hubbub_cli.api_client import ask
from hubbub_cli.demo_data import flights_codebook
from hubbub_cli.services.processes import Services
from hubbub_client.testing import Fleet
from tests.e2e.unreliable_network import Unreliable, unreliable_proxy
from tests.support.patience import PATIENCE, wait_for
from tests.support.ports import reserved_port

UNIQUE = """
[collection]
name = "unique"
period = "{period}"
grace = "{grace}"
forward_horizon = "1h"
device_epsilon = 30
release = {{ epsilon = 30, delta = 1e-8 }}
honest_fraction = 1

[metrics.value]
type = "category"
values = [{values}]
epsilon = 30
"""
"""At epsilon 30 krr lies once in a hundred million reports: every device can send a value of its own."""


def unique_codebook(devices: int, period: str, grace: str) -> str:
    values = ", ".join(f'"v{i}"' for i in range(devices))
    return UNIQUE.format(period=period, grace=grace, values=values)


QUICK = {"TICK": "0.3", "MIN_BATCH_FLOOR": "2", "LEASE": "5", "LONGEST_BACKOFF": "2"}


@contextmanager
def stack(
    folder: Path,
    codebook: str,
    aggregator: dict[str, str] | None = None,
    shuffler: dict[str, str] | None = None,
    aggregator_port: int | None = None,
) -> Iterator[Services]:
    path = folder / "metrics.toml"
    path.write_text(codebook)
    with (
        (folder / "services.log").open("w") as log,
        Services(
            folder,
            path,
            shuffler_port=reserved_port(),
            aggregator_port=aggregator_port or reserved_port(),
            aggregator_settings=aggregator,
            shuffler_settings={**QUICK, **(shuffler or {})},
            log=log,
        ) as services,
    ):
        yield services


def wait_until_settled(services: Services, buckets: int, until: float) -> dict[str, Any]:
    while time.time() < until:
        try:
            status: dict[str, Any] = ask(services.aggregator, "/v1/status")
        except Exception:  # noqa: BLE001  the service may be down on purpose; it is asked again
            time.sleep(0.2)
            continue
        if status["batches"]["accepted"] + status["batches"]["refused"] + status["discards"] >= buckets:
            return status
        time.sleep(0.2)
    raise AssertionError("not every bucket was settled in time")


def seconds_to_load() -> float:
    """How long it takes here and now to load what a service is made of."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import hubbub_aggregator.main, hubbub_shuffler.main"], check=True)
    return time.monotonic() - began


def exactly_once(tmp_path: Path, *, devices: int, kills: int, period: int, grace: int, seed: int) -> None:
    """Kill services at random points while devices report and while batches travel; then count every value.

    All the while the network between devices, shuffler and aggregator repeats requests and loses answers. Periods stay
    open for at least this grace, and longer on a machine where services take long to come back.
    """
    rng = random.Random(seed)
    grace = max(grace, ceil(kills * 3 * seconds_to_load()))
    text = unique_codebook(devices, f"{period}s", f"{grace}s")
    port = reserved_port()
    with (
        unreliable_proxy(port) as (proxy, did),
        stack(tmp_path, text, shuffler={"AGGREGATOR": f"http://127.0.0.1:{proxy}"}, aggregator_port=port) as services,
    ):
        calendar = Codebook.from_toml(text).collection.calendar
        now = calendar.at(time.time())
        closes = now.closes_at(grace)
        network = Unreliable(services.shuffler, seed)
        fleet = Fleet(network, trust=services.anchor, per_request=40, attempts=200, remember=True)
        done = threading.Event()

        def upload() -> None:
            try:
                for start in range(0, devices, 200):
                    fleet.report("value", [f"v{i}" for i in range(start, min(start + 200, devices))], now)
                    pause = (closes - time.time() - 6) / (devices / 200)  # spread over the time that is left
                    time.sleep(max(0.0, min(pause, 1.0)))
            finally:
                done.set()

        sender = threading.Thread(target=upload)
        sender.start()
        for kill in range(kills):
            # two thirds while devices report, the rest around the close, when batches are made and committed
            if kill >= kills * 2 // 3:
                time.sleep(max(0.0, closes - time.time() + rng.random()))
            name = rng.choice(["shuffler", "aggregator"])
            time.sleep(rng.random() * 0.8)
            services.kill(name)  # type: ignore[arg-type]  # one of the two names
            services.start(name)  # type: ignore[arg-type]  # as above
        sender.join(timeout=max(0.0, closes - time.time()) + PATIENCE)
        assert done.is_set()
        status = wait_until_settled(services, 1, closes + PATIENCE)
        acknowledged = {fleet.drawn[nonce] for nonce in fleet.acknowledged}
        assert len(acknowledged) > devices // 2, "too little was acknowledged for the test to mean anything"
        assert status["discards"] == 0
        answer = ask(services.aggregator, "/v1/metrics/value/estimate")["segments"][0]
        counts = {row["value"]: round(row["estimate"] * answer["reports"]) for row in answer["values"]}
        assert Counter(counts.values()).keys() <= {0, 1}, "a value was counted twice"
        lost = {value for value in acknowledged if counts[str(value)] != 1}
        assert not lost, f"{len(lost)} acknowledged reports were not counted"
        assert answer["reports"] == sum(counts.values())
        assert network.repeated
        assert network.swallowed
        assert did["swallowed"], "no batch met a fault: the test means less than it says"


@pytest.mark.timeout(900)
def test_every_acknowledged_report_is_counted_once_through_kills(tmp_path: Path) -> None:
    exactly_once(tmp_path, devices=600, kills=2, period=5, grace=15, seed=1)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2, 3])
def test_every_acknowledged_report_is_counted_once_through_many_kills(tmp_path: Path, seed: int) -> None:
    exactly_once(tmp_path, devices=6000, kills=20, period=10, grace=90, seed=seed)


@pytest.mark.full  # the demo takes a minute; every day it is started and ended below
@pytest.mark.timeout(600)
def test_the_demo_goes_from_devices_to_estimates_with_the_accountants_guarantee() -> None:
    """Real flights, four metrics, three periods; every estimate within six of its stated standard errors."""
    run = subprocess.run(
        [sys.executable, "-m", "hubbub_cli", "demo", "--json", "--devices", "2400"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    metrics = json.loads(run.stdout)["metrics"]
    codebook = Codebook.from_toml(flights_codebook())
    assert set(metrics) == {"late", "origin", "carrier", "departure_delay"}
    for name, answer in metrics.items():
        assert answer["reports"] == 2400
        assert len(answer["series"]) == 3
        for one in answer["series"]:
            for row in one["values"]:
                assert abs(row["estimate"] - row["truth"]) <= 6 * row["stderr"]
                assert row["low"] <= row["high"]
        promised = guarantee(codebook.metric(name).mechanism, int(2400 * 0.9), 1e-8)
        assert answer["privacy"]["epsilon"] == promised.epsilon
        assert answer["privacy"]["method"] == promised.method


IN_THE_FOREGROUND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs the tests in its background ignores it
from hubbub_cli.main import main
main()
"""


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.full),
        pytest.param(signal.SIGTERM, marks=pytest.mark.full),
        signal.SIGKILL,
    ],
    ids=["ctrl-c", "term", "kill"],
)
def test_ending_the_demo_leaves_no_process_behind(sign: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-c", IN_THE_FOREGROUND, "demo", "--stay", "--devices", "200"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(lambda: len(_children(demo.pid)) == 2)
        children = _children(demo.pid)
        demo.send_signal(sign)
        demo.wait(timeout=PATIENCE)
        wait_for(lambda: not any(map(_alive, children)))
    finally:
        demo.kill()
        demo.wait()


def _children(parent: int) -> list[int]:
    try:
        listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in listed.split()]


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


CANARIES = {
    "User-Agent": "canary-agent-7f3a",
    "X-Forwarded-For": "203.0.113.77",
    "Cookie": "canary-cookie-91be",
    "X-Device": "canary-device-c0de",
    "Referer": "http://canary-referer-55aa/",
}
ADDRESSES = ["127.66.77.88", "127.201.34.155"]


@pytest.mark.full  # every day tests/shuffler/test_sender_traces.py looks for the same canaries
def test_nothing_about_a_sender_is_stored_logged_or_shown(tmp_path: Path) -> None:
    grace = max(10, ceil(3 * seconds_to_load()))
    text = unique_codebook(300, "5s", f"{grace}s").replace('"v0"', '"canary-value-1234"')
    with stack(tmp_path, text) as services:
        host, port = services.shuffler.removeprefix("http://").split(":")

        class FromElsewhere:
            """Devices at addresses of their own, in turn, with telling headers."""

            def __init__(self) -> None:
                self._addresses = cycle(ADDRESSES)

            def request(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], bytes]:
                source = next(self._addresses), 0
                connection = http.client.HTTPConnection(host, int(port), source_address=source, timeout=PATIENCE)
                connection.request(method, path, body, {**headers, **CANARIES})
                answer = connection.getresponse()
                found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
                connection.close()
                return found

        elsewhere = FromElsewhere()
        fleet = Fleet(elsewhere, trust=services.anchor, per_request=20)
        period = Codebook.from_toml(text).collection.calendar.at(time.time())
        delivered = fleet.report("value", ["canary-value-1234"] * 200, period)
        assert delivered.acknowledged == 200
        # and a sender whose every request is refused
        for _ in ADDRESSES:
            elsewhere.request("POST", "/v1/reports", {"content-type": REPORTS_TYPE}, b"canary-body-77cc")
            elsewhere.request("POST", "/v1/reports", {"content-type": "canary/type-88dd"}, b"x")
            elsewhere.request("GET", "/canary-path-99ee?canary-query-11ff", {}, b"")
        _search(tmp_path, services, "while reports wait")
        wait_until_settled(services, 1, period.closes_at(grace) + PATIENCE)
        _search(tmp_path, services, "after the release")


def _search(folder: Path, services: Services, when: str) -> None:
    """In the packed form one address is in a megabyte of ciphertext by chance once in 4,000 runs; both, in 2e7."""
    canaries = [*CANARIES.values(), *ADDRESSES, "canary-body", "canary/type", "canary-path", "canary-query"]
    shown = json.dumps([ask(address, "/v1/status") for address in (services.shuffler, services.aggregator)])
    for canary in canaries:
        assert canary not in shown, (canary, when)
    for path in folder.rglob("*"):
        data = _read(path)
        if path.name != "metrics.toml":
            for canary in canaries:
                assert canary.encode() not in data, (canary, path.name, when)
            assert not all(ip_address(address).packed in data for address in ADDRESSES), (path.name, when)
        if folder / "shuffler" in path.parents and "bundle" not in path.name:
            assert b"canary-value" not in data or path.suffix == ".db", (path.name, when)


def _read(path: Path) -> bytes:
    """Nothing, of a directory and of a file that its service has removed meanwhile."""
    with suppress(FileNotFoundError, IsADirectoryError):
        return path.read_bytes()
    return b""


def post(address: str, path: str, body: bytes, content_type: str, method: str = "POST") -> tuple[int, str, Any]:
    host, port = address.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    with suppress(BrokenPipeError, ConnectionResetError):  # a body that is too large is answered before it is sent
        connection.request(method, path, body, {"content-type": content_type})
    answer = connection.getresponse()
    raw = answer.read()
    kind = answer.getheader("content-type", "")
    connection.close()
    return answer.status, kind, json.loads(raw) if raw else None


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """Services to which nobody reports."""
    with stack(tmp_path_factory.mktemp("idle"), unique_codebook(300, "1h", "1h")) as services:
        yield services


def test_bad_requests_to_running_services_get_a_problem_that_says_why(idle: Services) -> None:
    services, batch = idle, "/v1/batches/" + "0" * 32
    asked = [
        (services.shuffler, "POST", "/v1/reports", b"", REPORTS_TYPE, 400, "malformed-upload"),
        (services.shuffler, "POST", "/v1/reports", b"\x00\x09abc", REPORTS_TYPE, 400, "malformed-upload"),
        (services.shuffler, "POST", "/v1/reports", b"x", "text/plain", 415, "unsupported-media-type"),
        (services.shuffler, "POST", "/v1/reports", bytes(2**20 + 1), REPORTS_TYPE, 413, "too-large"),
        (services.shuffler, "GET", "/nothing", b"", "", 404, "not-found"),
        (services.shuffler, "DELETE", "/v1/bundle", b"", "", 405, "method-not-allowed"),
        (services.aggregator, "PUT", batch, b"", "application/vnd.hubbub.batch", 401, "unauthorized"),
        (services.aggregator, "GET", batch, b"", "", 401, "unauthorized"),
        (services.aggregator, "GET", "/v1/metrics/valu/estimate", b"", "", 404, None),
        (services.aggregator, "GET", "/v1/metrics/value/estimate", b"", "", 404, "nothing-released"),
        (services.aggregator, "GET", "/v1/metrics/value/estimate?confidence=7", b"", "", 422, "invalid-query"),
        (services.aggregator, "GET", "/nothing", b"", "", 404, "not-found"),
    ]
    for address, method, path, body, content_type, status, name in asked:
        found = post(address, path, body, content_type, method)
        assert (found[0], found[1]) == (status, "application/problem+json"), (path, found)
        assert found[2]["type"] == f"urn:hubbub:problem:{name}" or name is None, (path, found)
        assert found[2]["detail"]
    # reports that cannot count are refused one by one, each with its reason
    refused = post(services.shuffler, "/v1/reports", b"\x00\x19" + b"\x01" + bytes(24), REPORTS_TYPE)
    assert (refused[0], refused[2]["failures"][0]["reason"]) == (200, "unknown-metric")


@pytest.mark.full
@pytest.mark.timeout(600)
def test_intervals_cover_the_truth_at_the_stated_rate_over_repeated_runs(tmp_path: Path) -> None:
    """Forty periods of three metrics with the full path in between: 120 intervals of 95 %.

    More than 20 misses would happen by chance once in two million runs (binomial tail 5e-7).
    """
    text = """
[collection]
name = "coverage"
period = "1s"
grace = "120s"
forward_horizon = "10m"
device_epsilon = 6
release = { epsilon = 1, delta = 1e-6 }
[metrics.flag]
type = "boolean"
epsilon = 1
[metrics.colour]
type = "category"
values = ["red", "green", "blue"]
epsilon = 1
[metrics.load]
type = "mean"
bounds = [0, 100]
epsilon = 2
mechanism = "laplace"
"""
    runs, devices = 40, 400
    rng = random.Random(5)
    with stack(tmp_path, text, {"BACKFILL_PERIODS": "45"}) as services:
        calendar = Codebook.from_toml(text).collection.calendar
        last = calendar.at(time.time()).index
        fleet = Fleet(services.shuffler, trust=services.anchor)
        truth: dict[tuple[str, int], float] = {}
        for index in range(last - runs + 1, last + 1):
            flags = [rng.random() < 0.3 for _ in range(devices)]
            colours = rng.choices(["red", "green", "blue"], [5, 3, 2], k=devices)
            loads = [rng.betavariate(2, 5) * 100 for _ in range(devices)]
            for name, values in (("flag", flags), ("colour", colours), ("load", loads)):
                assert fleet.report(name, values, index).acknowledged == devices
            truth["flag", index] = sum(flags) / devices
            truth["colour", index] = colours.count("red") / devices
            truth["load", index] = sum(loads) / devices
        wait_until_settled(services, 3 * runs, time.time() + 200)
        misses = Counter[str]()
        for (name, index), real in truth.items():
            start, end = calendar.period(index).label, calendar.period(index + 1).label
            found = ask(services.aggregator, f"/v1/metrics/{name}/estimate", {"from": start, "to": end})["segments"][0]
            row = found["values"][1 if name == "flag" else 0]
            misses[name] += not row["low"] <= real <= row["high"]
            assert abs(row["estimate"] - real) <= 6 * row["stderr"]
        assert sum(misses.values()) <= 20, misses


def test_a_service_that_was_killed_comes_back_at_once(idle: Services) -> None:
    """The same ports and state can be used again."""
    anchor = idle.anchor
    os.kill(idle._running["shuffler"].pid, signal.SIGKILL)
    idle._running["shuffler"].wait()
    idle.start("shuffler")
    assert idle.anchor == anchor
    assert ask(idle.shuffler, "/v1/status")
