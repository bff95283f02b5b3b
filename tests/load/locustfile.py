"""Load on running services: devices that report, and analysts who ask. Loopback only.

    make load USERS=20 MINUTES=1                  # starts the services itself
    locust -f tests/load/locustfile.py --host http://127.0.0.1:8701          # against running ones

Reports are sealed ahead, so that what is measured is the services and not this file. HUBBUB_QUERY_ADDRESS names the
aggregator (default http://127.0.0.1:8702).
"""

from __future__ import annotations

import os
import random
import time
from urllib.parse import urlsplit

from gevent.lock import Semaphore
from locust import HttpUser, between, task

from hubbub.bundle import verify
from hubbub.codebook import Codebook, Metric
from hubbub.mechanisms import Bounds
from hubbub.randomness import SystemRandomness
from hubbub.sealing import Sealer
from hubbub.wire import NONCE_BYTES, REPORTS_TYPE, Plaintext, ReportHeader, encode_report, encode_upload

QUERY = os.environ.get("HUBBUB_QUERY_ADDRESS", "http://127.0.0.1:8702")
SEALED_AHEAD = 2_000
_sealing = Semaphore()
_stock: list[bytes] = []
_names: list[str] = []


def refuse_other_hosts(address: str) -> None:
    """This file makes traffic; it makes it on this machine only."""
    host = urlsplit(address).hostname or ""
    if host != "localhost" and not host.startswith("127."):
        raise SystemExit(f"load tests run against this machine only, not {host}")


def fill_stock(bundle: bytes) -> None:
    """Seal reports of every metric for the current period; each is used once, then duplicated now and then."""
    signer = bundle.split(b"\n", 2)[1].split(b" ")[0].decode()
    body = verify(bundle, [signer], time.time()).body
    codebook = Codebook.from_compiled(body.codebooks[-1].document)
    _names.extend(metric.name for metric in codebook.metrics)
    rng, period = SystemRandomness(), codebook.collection.calendar.at(time.time()).index
    key = body.key_for(period)
    assert key is not None
    sealer = Sealer(key.public_key)
    for _ in range(SEALED_AHEAD):
        metric = random.choice(codebook.metrics)
        header = ReportHeader(metric.id, period, key.id)
        payload = metric.mechanism.encode(metric.mechanism.randomize(_value(metric), rng))
        sealed = sealer.seal(header, Plaintext(period, os.urandom(NONCE_BYTES), payload).encode())
        _stock.append(encode_report(header, sealed))


def _value(metric: Metric) -> object:
    domain = metric.mechanism.domain
    return domain.lower if isinstance(domain, Bounds) else random.randrange(domain.size)


class Device(HttpUser):
    """Reports one value at a time; sometimes the same bytes again, as a retry would, and sometimes junk."""

    weight = 20
    wait_time = between(0.01, 0.05)

    def on_start(self) -> None:
        refuse_other_hosts(self.host or "")
        with _sealing:
            if not _stock:
                fill_stock(self.client.get("/v1/bundle").content)

    @task(20)
    def report(self) -> None:
        self._send([random.choice(_stock)], "/v1/reports (one)")

    @task(2)
    def report_many(self) -> None:
        self._send(random.sample(_stock, 50), "/v1/reports (fifty)")

    @task(1)
    def junk(self) -> None:
        headers = {"content-type": REPORTS_TYPE}
        with self.client.post(
            "/v1/reports", os.urandom(64), headers=headers, name="/v1/reports (junk)", catch_response=True
        ) as answer:
            if answer.status_code < 500:
                answer.success()

    def _send(self, reports: list[bytes], name: str) -> None:
        headers = {"content-type": REPORTS_TYPE}
        with self.client.post(
            "/v1/reports", encode_upload(reports), headers=headers, name=name, catch_response=True
        ) as answer:
            if answer.status_code == 202:
                answer.success()
            else:
                answer.failure(f"{answer.status_code} {answer.text[:200]}")


class Analyst(HttpUser):
    """Asks for what there is."""

    weight = 1
    wait_time = between(0.2, 1)

    def on_start(self) -> None:
        refuse_other_hosts(QUERY)

    @task
    def metrics(self) -> None:
        self.client.get(f"{QUERY}/v1/metrics", name="metrics")

    @task
    def estimate(self) -> None:
        if _names:
            name = random.choice(_names)
            with self.client.get(f"{QUERY}/v1/metrics/{name}/estimate", name="estimate", catch_response=True) as answer:
                if answer.status_code in (200, 404):  # nothing is released before the first period closes
                    answer.success()
