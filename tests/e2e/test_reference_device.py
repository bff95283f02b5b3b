"""A device that was written from the protocol page alone reports to real services, by every mechanism.

An estimate fails if it is more than 6 standard errors off. For normal errors that has probability 2e-9 for one value,
and below 1e-6 for all 218 of them.
"""

import http.client
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.vectors.reference_device import Answer, Device, Limits

DEVICES = 1600
SIGMAS = 6
HUBBUB = [sys.executable, "-m", "hubbub_cli"]
SHORT = ["a", "b", "c", "d"]
LONG = [f"v{i:02}" for i in range(40)]
MATRIX = [[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]
CATEGORIES = {"krr": SHORT, "matrix": SHORT, "hadamard": SHORT, "sue": LONG, "oue": LONG, "subset": LONG}
CATEGORIES |= {"linear-hash": LONG, "olh": LONG}
MEANS = ["laplace", "duchi", "piecewise", "hybrid", "table"]
"""Recorded means lie in 0 to 100 and a little beyond, where they count as the bound."""


def metric_name(mechanism: str) -> str:
    return "by_" + mechanism.replace("-", "_")


def codebook() -> str:
    """A metrics.toml with every mechanism. One metric is steady, the others are not."""
    lines = ['[collection]\nname = "reference"\nperiod = "30s"\ngrace = "50s"\ndelay = "10s"\ndevice_epsilon = 40']
    lines.append("release = { epsilon = 1, delta = 1e-6 }")

    def metric(mechanism: str, kind: str, more: str) -> None:
        lines.append(f'[metrics.{metric_name(mechanism)}]\ntype = "{kind}"\nepsilon = 2\n{more}')
        matrix = f'{{ name = "matrix", matrix = {MATRIX} }}'
        lines.append(f"mechanism = {matrix}" if mechanism == "matrix" else f'mechanism = "{mechanism}"')

    metric("rr", "boolean", "missing = false")
    for mechanism, values in CATEGORIES.items():
        metric(mechanism, "category", f"values = {json.dumps(values)}")
    for mechanism in MEANS:
        metric(mechanism, "mean", "bounds = [0, 100]")
    return "\n".join(lines)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def services(folder: Path, written: str = "") -> Iterator[tuple[str, str]]:
    """`hubbub up` for a codebook, by default the one above; yields the addresses of shuffler and aggregator."""
    (folder / "metrics.toml").write_text(written or codebook())
    shuffler, aggregator = free_port(), free_port()
    ports = ["--shuffler-port", str(shuffler), "--aggregator-port", str(aggregator)]
    with (folder / "up.log").open("w") as log:
        up = subprocess.Popen([*HUBBUB, "up", *ports, "--clock-is-right"], cwd=folder, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{shuffler}", f"http://127.0.0.1:{aggregator}"
        finally:
            up.terminate()
            up.wait(timeout=30)


class Wire:
    """A transport over one kept connection; it counts the answers to uploads."""

    def __init__(self) -> None:
        self.connection: http.client.HTTPConnection | None = None
        self.used = 0.0
        self.uploads: dict[tuple[int, bytes], int] = {}

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        parts = urlsplit(url)
        try:
            if self.connection is None or time.time() > self.used + 2:  # the service closes idle connections
                self.close()
                self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
            self.used = time.time()
            self.connection.request(method, parts.path, body or None, dict(headers))
            response = self.connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return None
        if method == "POST":
            about = (response.status, content)
            self.uploads[about] = self.uploads.get(about, 0) + 1
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, content)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def recorded(rng: random.Random) -> dict[str, Any]:
    """What one device records, by mechanism."""
    values: dict[str, Any] = {"rr": rng.random() < 0.3}
    for mechanism, options in CATEGORIES.items():
        values[mechanism] = options[min(int(rng.expovariate(3 / len(options))), len(options) - 1)]
    for mechanism in MEANS:
        values[mechanism] = rng.gauss(40, 35)
    return values


def truth(mechanism: str, all_values: list[dict[str, Any]]) -> dict[str, float]:
    """The true answer for each label of an estimate."""
    mine = [values[mechanism] for values in all_values]
    if mechanism in MEANS:
        return {"mean": sum(min(max(value, 0.0), 100.0) for value in mine) / len(mine)}
    if mechanism == "rr":
        return {"yes": sum(mine) / len(mine)}
    return {value: mine.count(value) / len(mine) for value in CATEGORIES[mechanism]}


def system(*_purpose: object) -> Callable[[int], bytes]:
    return os.urandom


def wait_for_bundle(device: Device) -> None:
    """Until a bundle is accepted."""
    give_up = time.time() + 60
    while device.bundle is None:
        assert time.time() < give_up, "no bundle"
        device.fetch(flush=True)
        time.sleep(0.2)


def moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def query(address: str, mechanism: str, start: int, length: int = 30) -> dict[str, Any]:
    """What `hubbub query --json` prints, once there is something."""
    command = [*HUBBUB, "query", metric_name(mechanism), "--address", address, "--json"]
    command += ["--from", moment(start), "--to", moment(start + length)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr}
    return answer


@dataclass(frozen=True)
class Estimate:
    """One estimated number, beside the truth."""

    mechanism: str
    label: str
    truth: float
    estimate: float
    stderr: float

    @property
    def off(self) -> float:
        """The error, in standard errors."""
        return (self.estimate - self.truth) / self.stderr


def report(folder: Path) -> Iterator[Estimate]:
    """Let all devices report, and compare every estimate with the truth."""
    rng = random.Random(20261118)
    everything = [recorded(rng) for _ in range(DEVICES)]
    with services(folder) as (shuffler, aggregator), closing(Wire()) as wire:
        limits = Limits(min_period=1, max_epsilon=Fraction(1000))

        def device() -> Device:
            return Device(shuffler, None, wire, time.time, os.urandom, system, storage={}, limits=limits)

        wait_for_bundle(device())
        start = (int(time.time()) // 30 + 1) * 30
        time.sleep(start + 0.1 - time.time())
        devices = [device() for _ in range(DEVICES)]
        for one, values in zip(devices, everything, strict=True):
            one.cycle()
            for mechanism, value in values.items():
                assert one.record(metric_name(mechanism), value) == "recorded"
        pending = devices
        assert time.time() < start + 30, "this machine is too slow for the period"
        closes = start + 80
        time.sleep(start + 30.1 - time.time())
        while pending:
            if time.time() >= closes:
                unsent = {name: pending[0].storage[name] for name in ("outbox", "waits", "pauses", "failures")}
                pytest.fail(f"{len(pending)} devices have not sent all, such as this one: {unsent}")
            for one in pending:
                one.cycle()
            time.sleep(0.2)
            pending = [d for d in pending if any(one["due"] <= start + 30 for one in d.storage["outbox"])]
        assert set(wire.uploads) == {(202, b"")}, wire.uploads
        time.sleep(max(0.0, closes + 2 - time.time()))
        for mechanism in ["rr", *CATEGORIES, *MEANS]:
            give_up = time.time() + 60
            while "error" in (answer := query(aggregator, mechanism, start)) and time.time() < give_up:
                time.sleep(1)
            assert "error" not in answer, answer
            (segment,) = answer["segments"]
            assert segment["reports"] == DEVICES
            expected = truth(mechanism, everything)
            for value in segment["values"]:
                if value["label"] in expected:
                    yield Estimate(
                        mechanism, value["label"], expected[value["label"]], value["estimate"], value["stderr"]
                    )


@pytest.mark.full
def test_a_device_written_from_the_page_reports_by_every_mechanism(tmp_path: Path) -> None:
    estimates = list(report(tmp_path))
    for one in estimates:
        print(f"{one.mechanism:12} {one.label:5} {one.truth:8.4f} {one.estimate:8.4f} {one.off:+5.2f}")  # noqa: T201
    assert len(estimates) == 218
    assert not [one for one in estimates if abs(one.off) > SIGMAS]
