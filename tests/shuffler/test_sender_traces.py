"""Traces of senders: none is on disk, in Redis, in a log, in a metric or in an answer."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

import pytest

from hubbub_service_common.process.logs import LogFormat, configure
from tests.shuffler.forked_process import ForkedProcess
from tests.shuffler.process import AppServer, ShufflerProcess
from tests.shuffler.raw_connections import answers, body, connect, daily_aggregator, get, post, request
from tests.shuffler.world import files_of
from tests.support.patience import wait_for
from tests.support.redis_server import one_server

WORD = "canary-7c31e5"
SOURCES = ["127.83.61.47", "127.212.9.101"]
FORWARDED = ["203.0.113.77", "2001:db8:c0ff:ee::77"]
HEADERS = [
    f"User-Agent: {WORD}/1.0",
    f"Cookie: id={WORD}",
    f"X-Device-Id: {WORD}",
    f"Referer: https://{WORD}.example/",
    f"Origin: https://{WORD}.example",
    f"Authorization: Bearer {WORD}",
    f"traceparent: 00-{WORD}-01",
    f"Forwarded: for={FORWARDED[0]}",
]


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.full)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where reports wait: its settings. All files of either are below the test's directory."""
    with ExitStack() as running:
        if request.param == "sqlite":
            yield {}
        else:
            server = running.enter_context(one_server(tmp_path / "redis"))
            yield {"storage": server.url}
            server.client().save()  # a dump, beside the log of all commands


def everything(shuffler: ShufflerProcess) -> list[bytes]:
    """Every kind of request, from every address; what was answered."""
    said: list[bytes] = []
    for source in SOURCES:
        for address in [*FORWARDED, "127.0.0.1"]:  # the last one has no limit
            listed = [*HEADERS, f"X-Forwarded-For: 6.6.6.6, {address}"]
            raw = request(body(3), *listed)
            for wire in (
                raw,
                raw.replace(b"/v1/reports", f"/v1/reports?{WORD}".encode()),
                raw.replace(b"/v1/reports", f"/{WORD}".encode()),
                raw.replace(b"vnd.hubbub.reports", WORD.encode()),
                raw.replace(b"POST", b"GET"),
                request(WORD.encode(), *listed),
                f"{WORD} is not HTTP\r\n\r\n".encode(),
                f"GET /v1/bundle?{WORD} HTTP/1.1\r\nHost: {WORD}\r\nIf-None-Match: {WORD}\r\n\r\n".encode(),
            ):
                with connect(shuffler.address, source) as connection:
                    connection.sendall(wire)
                    said.append(str(next(answers(connection))).encode())
            with connect(shuffler.address, source) as connection:
                connection.sendall(raw[:-5])  # and goes away
    return said


def test_nothing_of_who_sent_a_report_is_anywhere_afterwards(tmp_path: Path, storage: dict[str, str]) -> None:
    stub = daily_aggregator()
    settings = {"admin_port": "0", "log_format": "json", "proxy_hops": "1", "rate": "0.001", "burst": "4", **storage}
    settings["cors_origins"] = "https://app.example.com"
    log = tmp_path / "log"
    with (
        AppServer(stub) as address,
        ForkedProcess(tmp_path / "state", address, log, **settings) as shuffler,
    ):
        wait_for(lambda: get(f"{shuffler.address}/readyz")[0] == 200)
        before = log.read_bytes()
        said = everything(shuffler)
        assert post(shuffler.address, body()) == 202
        seen = [get(f"{shuffler.admin}{path}")[1] for path in ("/metrics", "/v1/status")]
        seen.append(get(f"{shuffler.address}/v1/status")[1])
        assert log.read_bytes() == before  # a line has a time: one about a request would tell when it came
        assert shuffler.stop() == 0
    statuses = {int(answer[1:4]) for answer in said}
    assert statuses >= {202, 404, 415, 429, 400}, statuses
    assert b'reason="rate-limited"' in seen[0]
    if storage:
        assert (tmp_path / "redis" / "dump.rdb").exists() or list((tmp_path / "redis").rglob("*.aof"))
    held = files_of(tmp_path) + b"".join(said + seen) + str(stub.requests).encode()
    assert b"dark_mode" in held  # so we look where reports are
    for text in [WORD, *SOURCES, *FORWARDED, "6.6.6.6"]:
        assert text.encode() not in held, text
    assert ip_address(FORWARDED[1]).packed[:8] not in held
    for line in log.read_text().splitlines():
        assert set(json.loads(line)) <= {"time", "level", "logger", "message", "error"}


def test_a_failure_of_ours_is_logged_by_its_place_and_not_by_its_text() -> None:
    """The text of an exception may repeat what was sent."""
    names = ["", "hubbub_shuffler", "uvicorn", "uvicorn.error"]
    before = [(log, log.level, list(log.handlers), log.propagate) for log in map(logging.getLogger, names)]
    server = logging.getLogger("uvicorn.error")
    kinds: list[LogFormat] = ["text", "json"]
    try:
        for kind in kinds:
            said = io.StringIO()
            configure(kind, "hubbub_shuffler", said)
            try:
                raise ValueError(WORD)
            except ValueError:
                server.exception("failed")
            server.warning("Invalid HTTP request received.")
            assert "ValueError at test_sender_traces.py:" in said.getvalue()
            assert WORD not in said.getvalue()
            assert "Invalid" not in said.getvalue()
    finally:
        for log, level, handlers, propagate in before:
            log.setLevel(level)  # not the attribute: what is enabled is cached
            log.handlers[:], log.propagate = handlers, propagate
