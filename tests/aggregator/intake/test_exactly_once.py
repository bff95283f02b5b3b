"""Counting exactly once under kills: every report has its own value, so a 2 is a double count and a 0 is a loss."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from hubbub.bundle import Bundle, verify
from hubbub.codebook import Codebook
from hubbub.sealing import Sealer
from hubbub.trust_anchor import anchor_of
from hubbub.wire import BATCH_TYPE, BatchHeader, Plaintext, ReportHeader
from hubbub_aggregator.main import open_state
from hubbub_aggregator.publication.keys import new_identity
from hubbub_aggregator.settings import Settings
from tests.aggregator.process import Served
from tests.support import http
from tests.support.compiled import write_compiled
from tests.support.patience import wait_for
from tests.support.ports import reserved_port
from tests.support.redis_server import one_server

BATCHES, FRESH, AGAIN = 10, 100, 20
VALUES = BATCHES * FRESH
PATIENCE = 250
"""Seconds until there must be verdicts, restarts included."""
CODEBOOK = f"""
[collection]
name = "oracle"
period = "1d"
device_epsilon = 1.0
release = {{ epsilon = 2.0, delta = 1e-3 }}

[metrics.number]
type = "category"
values = [{", ".join(f'"v{value}"' for value in range(VALUES))}]
epsilon = 1.0
mechanism = "krr"
"""


@dataclass
class Shufflers:
    """Send batches as a shuffler does, to whichever process answers: twice, out of order, until there is a verdict."""

    servers: list[Served]
    bodies: dict[str, bytes]
    seed: int
    verdicts: dict[str, str] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)

    def run(self, threads: int) -> None:
        names = list(self.bodies)
        random.Random(self.seed).shuffle(names)
        shares = [names[number::threads] for number in range(threads)]
        workers = [threading.Thread(target=self._send, args=(share, self.seed + n)) for n, share in enumerate(shares)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _send(self, names: list[str], seed: int) -> None:
        rng, until = random.Random(seed), time.monotonic() + PATIENCE
        waiting = list(names)
        try:
            with http.client(timeout=10) as client:
                while waiting:
                    assert time.monotonic() < until, "it took too long"
                    name = rng.choice(waiting)
                    state = self._once(client, rng, name)
                    if state in ("accepted", "refused"):
                        self.verdicts[name] = state
                        if rng.random() < 0.8:  # now and then it forgets the answer and asks again
                            waiting.remove(name)
                    else:
                        time.sleep(0.2)
        except BaseException as error:  # noqa: BLE001  told in the main thread
            self.failures.append(error)

    def _once(self, client: httpx2.Client, rng: random.Random, name: str) -> str:
        path = f"{rng.choice(self.servers).address}/v1/batches/{name}"
        try:
            if rng.random() < 0.5:
                answer = client.get(path)
                if answer.status_code == 200:
                    return str(answer.json()["state"])
                assert answer.status_code in (404, 503), answer.text
            answer = client.put(path, content=self.bodies[name], headers={"Content-Type": BATCH_TYPE})
            assert answer.status_code in (200, 202, 503), answer.text
            return str(answer.json().get("state", ""))
        except httpx2.TransportError:
            return ""


def batches(bundle: Bundle, codebook: Codebook) -> dict[str, bytes]:
    """Batches of unlike values; each also repeats some reports of the one before, sealed afresh."""
    metric = codebook.metric("number")
    period = codebook.collection.calendar.index_at(time.time())
    key = bundle.body.key_for(period)
    assert key is not None
    sealer, report = Sealer(key.public_key), ReportHeader(metric.id, period, key.id)
    texts = [Plaintext(period, os.urandom(16), metric.mechanism.encode(value)).encode() for value in range(VALUES)]
    found = {}
    for number in range(BATCHES):
        first = number * FRESH
        sealed = [sealer.seal(report, text) for text in texts[max(0, first - AGAIN) : first + FRESH]]
        header = BatchHeader(metric.id, period, key.id, len(sealed), len(sealed[0]))
        found[os.urandom(16).hex()] = header.encode() + b"".join(sealed)
    return found


def counted(settings: Settings, codebook: Codebook) -> list[int]:
    """How often each value was counted, over all releases."""
    _, storage = open_state(settings)
    mechanism = codebook.metric("number").mechanism
    tallies = [mechanism.tally_from_bytes(release.tally) for release in storage.releases()]
    storage.close()
    total = tallies[0]
    for tally in tallies[1:]:
        total += tally
    return [int(cell) for cell in total.cells]


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.full), "redis"])
def storage_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
        return
    with one_server(tmp_path / "redis") as server:
        yield server.url


@pytest.mark.full  # every day tests/e2e/test_path.py kills both services
@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.full)])
def test_every_report_counts_once_while_processes_are_killed(
    tmp_path: Path, storage_url: str | None, kills: int
) -> None:
    """On Redis three processes share the work; on SQLite, and in the short run, there is one."""
    write_compiled(tmp_path / "codebook.json", CODEBOOK)
    codebook = Codebook.from_toml(CODEBOOK)
    anchor = anchor_of(new_identity(tmp_path))
    common: dict[str, object] = {
        "codebook": tmp_path / "codebook.json",
        "identity": tmp_path / "identity.key",
        "processes": 1,
        "lease": 1,
    }
    if storage_url is not None:
        common["storage"] = storage_url
    number = 1 if storage_url is None or kills == 1 else 3
    rng = random.Random(kills)
    with ExitStack() as stack:
        # asked while it is dead, so its port is nobody else's
        served = [
            Served(tmp_path / f"log-{n}", state_dir=tmp_path / f"state-{n}", port=reserved_port(), **common)
            for n in range(number)
        ]
        for one in served:
            stack.enter_context(one)
        raw = http.get(f"{served[-1].address}/v1/bundle").content
        bodies = batches(verify(raw, [anchor], time.time()), codebook)
        sending = Shufflers(served, bodies, seed=kills)
        sender = threading.Thread(target=sending.run, args=(3,))
        sender.start()
        wait_for(lambda: sending.verdicts or sending.failures)
        for _ in range(kills):
            victim = rng.choice(served)
            victim.kill()
            time.sleep(rng.random() / 2)
            victim.start()
            time.sleep(rng.random())
        sender.join()
        assert not sending.failures, sending.failures
        assert sorted(sending.verdicts) == sorted(bodies)
        states = [
            http.get(f"{one.address}/v1/batches/{name}").json()["state"] for one in served for name in sorted(bodies)
        ]
        assert states == ["accepted"] * len(bodies) * number
        status = http.get(f"{served[0].address}/v1/status").json()
        assert status["batches"] == {"pending": 0, "accepted": BATCHES, "refused": 0}
        assert status["invalid_reports"] == {"duplicate": AGAIN * (BATCHES - 1)}
        assert [one.stop() for one in served] == [0] * number
        # a worker whose parent is killed while it starts ends in multiprocessing's own traceback; ours would be a bug
        assert not any("hubbub_aggregator/" in line for one in served for line in one.log().splitlines())
    assert counted(Settings(**{**common, "state_dir": tmp_path / "state-0"}), codebook) == [1] * VALUES  # type: ignore[arg-type]  # checked by pydantic


@pytest.mark.full
@pytest.mark.parametrize("storage_url", ["redis"], indirect=True)
def test_what_a_dead_process_acknowledged_another_finishes(tmp_path: Path, storage_url: str) -> None:
    write_compiled(tmp_path / "codebook.json", CODEBOOK)
    codebook = Codebook.from_toml(CODEBOOK)
    anchor = anchor_of(new_identity(tmp_path))
    common = {
        "codebook": tmp_path / "codebook.json",
        "identity": tmp_path / "identity.key",
        "storage": storage_url,
        "processes": 1,
        "port": 0,
        "lease": 1,
    }
    gone = Served(tmp_path / "log-0", state_dir=tmp_path / "state-0", **common)
    with gone:
        raw = http.get(f"{gone.address}/v1/bundle").content
        name, body = next(iter(batches(verify(raw, [anchor], time.time()), codebook).items()))
        put = http.put(f"{gone.address}/v1/batches/{name}", content=body, headers={"Content-Type": BATCH_TYPE})
        assert put.status_code == 202
        gone.kill()  # its workers have not even started
    for path in (tmp_path / "state-0").rglob("*"):
        if path.is_file():
            path.unlink()  # its disk is lost too
    with Served(tmp_path / "log-1", state_dir=tmp_path / "state-1", **common) as left:
        wait_for(lambda: http.get(f"{left.address}/v1/batches/{name}").json()["state"] == "accepted")
        assert list((tmp_path / "state-1" / "spool").iterdir()) == []
