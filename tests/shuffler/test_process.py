"""The shuffler's process among others: it ends in order, shares a port, speaks TLS and logs as it was told."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hubbub.wire import sealed_bytes
from tests.shuffler.forked_process import ForkedProcess
from tests.shuffler.process import AppServer, ShufflerProcess
from tests.shuffler.raw_connections import HEAD, TYPE, answers, body, connect, daily_aggregator, get, post, request
from tests.shuffler.world import StubAggregator, codebook, files_of, key, signed, unique, upload
from tests.support import http
from tests.support.patience import PATIENCE, wait_for

SHORT = codebook(min_batch=2, period="1s", grace="1s")
METRIC = SHORT.metric("dark_mode")


def ready(shuffler: ShufflerProcess) -> bool:
    return get(f"{shuffler.address}/readyz")[0] == 200


def self_signed(directory: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key, as files."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shuffler.test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(private, hashes.SHA256())
    )
    files = directory / "chain.pem", directory / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files


@pytest.mark.full
def test_with_a_certificate_it_speaks_tls_and_as_json_each_line_of_its_log_is_an_object(tmp_path: Path) -> None:
    chain, private = self_signed(tmp_path)
    trusted = ssl.create_default_context(cafile=str(chain))
    settings = {"tls_certificate": str(chain), "tls_key": str(private), "log_format": "json", "admin_port": "0"}
    stub = daily_aggregator()
    with (
        AppServer(stub) as address,
        ForkedProcess(tmp_path / "state", address, tmp_path / "log", **settings) as shuffler,
    ):
        assert shuffler.address.startswith("https://")
        wait_for(lambda: http.get(f"{shuffler.address}/readyz", verify=trusted).status_code == 200)
        told = http.get(f"{shuffler.address}/healthz", verify=trusted).headers["strict-transport-security"]
        assert told == "max-age=31536000"
        answer = http.post(f"{shuffler.address}/v1/reports", content=body(), headers=TYPE, verify=trusted)
        assert answer.status_code == 202
        assert shuffler.stop(signal.SIGINT) == 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) >= 3
    for line in lines:
        assert {"time", "level", "logger", "message"} <= set(json.loads(line))


@pytest.mark.parametrize("by", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)])
def test_told_to_stop_it_finishes_the_upload_that_it_has_begun(tmp_path: Path, by: signal.Signals) -> None:
    state, content = tmp_path / "state", body()
    with (
        AppServer(daily_aggregator()) as address,
        ForkedProcess(state, address, tmp_path / "log", shutdown_timeout="100") as shuffler,
    ):
        wait_for(lambda: ready(shuffler))
        with connect(shuffler.address) as connection, connect(shuffler.address) as idle:
            idle.sendall(request(body()))
            assert next(answers(idle))[0] == 202
            head = f"{HEAD}Content-Length: {len(content)}\r\nExpect: 100-continue\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"  # it has begun
            connection.sendall(content[:-5])
            shuffler.process.send_signal(by)
            wait_for(lambda: not accepts(shuffler.address))
            connection.sendall(content[-5:])
            assert next(answers(connection))[0] == 202
        assert shuffler.process.wait(PATIENCE) == 0
    assert content[-30:] in files_of(state)


def accepts(address: str) -> bool:
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return False
    return True


class HangingAggregator(StubAggregator):
    """Takes batches and says nothing, until it is told to."""

    def __init__(self, bundle: bytes) -> None:
        super().__init__(bundle)
        self.hangs, self.asked = True, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "PUT":
            self.asked += 1
            while self.hangs:
                await asyncio.sleep(0.02)
        await super().__call__(scope, receive, send)


def test_told_to_stop_while_it_forwards_it_gives_the_batch_back_at_once(tmp_path: Path) -> None:
    """With a lease of ten minutes, the next process could not have it otherwise."""
    now, index = time.time(), METRIC.calendar.index_at(time.time())
    stub = HangingAggregator(signed(now, book=SHORT, keys=(key(1, index - 100, index + 1_000),)))
    sealed = unique(10, sealed_bytes(METRIC.mechanism.report_bytes))
    settings = {"min_batch_floor": "2", "tick": "0.1", "lease": "600", "shutdown_timeout": "1"}
    with AppServer(stub) as address:
        with ForkedProcess(tmp_path / "state", address, tmp_path / "log", **settings) as shuffler:
            wait_for(lambda: ready(shuffler))

            def taken() -> bool:
                content = upload(sealed, metric=METRIC.id, period=METRIC.calendar.index_at(time.time()))
                return post(shuffler.address, content) == 202

            wait_for(taken)  # on a slow machine the period is over before the upload is there
            wait_for(lambda: stub.asked > 0)
            assert shuffler.stop() == 0
        stub.hangs = False
        with ForkedProcess(tmp_path / "state", address, tmp_path / "log", **settings) as shuffler:
            wait_for(lambda: len(stub.delivered()) >= len(sealed))
            assert shuffler.stop() == 0
    assert sorted(stub.delivered()) == sorted(sealed)


@pytest.mark.full
def test_several_processes_share_one_port_and_one_storage(tmp_path: Path) -> None:
    stub, state = daily_aggregator(), tmp_path / "state"
    with (
        AppServer(stub) as address,
        ForkedProcess(state, address, tmp_path / "one", reuse_port="true", admin_port="0") as one,
    ):
        port = one.address.rpartition(":")[2]
        with ForkedProcess(state, address, tmp_path / "two", reuse_port="true", admin_port="0", port=port) as two:
            wait_for(lambda: ready(one))
            wait_for(lambda: all(get(f"{each.admin}/readyz")[0] == 200 for each in (one, two)))
            for _ in range(60):
                assert post(one.address, body(100)) == 202
            taken = [accepted(each) for each in (one, two)]
            assert sum(taken) == 6_000
            assert min(taken) > 0  # the odds that one of them got all: one in 2**59
            assert two.stop() == 0
        assert post(one.address, body()) == 202


def accepted(shuffler: ShufflerProcess) -> int:
    text = get(f"{shuffler.admin}/metrics")[1].decode()
    (line,) = [line for line in text.splitlines() if line.startswith("hubbub_shuffler_accepted_reports_total ")]
    return int(float(line.split()[1]))
