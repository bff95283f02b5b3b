"""The operator's view: metrics, readiness, status, logs, settings, and an orderly end."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from hubbub.refusals import Refused
from hubbub_aggregator.api.operations import health_of
from hubbub_aggregator.dashboard.pages.operations import INVALID
from hubbub_aggregator.operations.admin_listener import create_admin
from hubbub_aggregator.operations.metrics import exposition, stored_now
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.storage import SqliteStorage
from hubbub_cli.commands.aggregator import aggregator
from hubbub_service_common.http.tokens import Tokens
from hubbub_service_common.process.logs import configure
from scripts.reference.settings import settings
from tests.aggregator.api.test_batches import problem
from tests.aggregator.process import Served
from tests.aggregator.world import CODEBOOK, DAY, Site, remember, whole
from tests.support import http
from tests.support.compiled import write_compiled
from tests.support.patience import PATIENCE
from tests.support.ports import reserved_port

TOKEN = "a-token-of-an-operator"  # noqa: S105  it opens nothing


def metrics(site: Site) -> dict[tuple[str, ...], float]:
    """Every sample: its name without the prefix and its labels' values, to its value."""
    families = text_string_to_metric_families(exposition(site.service, stored_now(site.service)).decode())
    return {
        (sample.name.removeprefix("hubbub_aggregator_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def ask(site: Site, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
    """One request to the admin listener."""
    app = create_admin(site.service, Tokens([TOKEN]))
    return http.ask(app, method, path, headers={"Authorization": f"Bearer {TOKEN}"} | headers)


def test_the_metrics_say_what_came_of_batches_and_reports(site: Site) -> None:
    before = metrics(site)
    assert before["storage_up",] == 1
    assert ("last_batch_age_seconds",) not in before
    for result in ("valid", *INVALID):  # there before the first one: else it would not be seen to rise
        assert before["opened_reports_total", result] == 0
    header = site.header("dark_mode", 260)
    reports = site.seal(header, site.plaintexts("dark_mode", [True] * 250)) + [os.urandom(header.size)] * 10
    site.settle(whole(header, reports))
    site.settle(site.batch("dark_mode", [True] * 3))
    site.put(site.header("theme", 0, size=0, kind="discard").encode())
    site.put(b"nonsense")
    site.put(site.batch("dark_mode", [True] * 250))
    site.clock.now += 60

    found = metrics(site)
    assert found["batches_total", "accepted"] == 1
    assert found["batches_total", "refused"] == 1
    assert found["refused_batches_total", "batch-too-small"] == 1
    assert found["invalid_reports_total", "cannot-open"] == 10
    assert found["opened_reports_total", "valid"] == 250
    assert found["opened_reports_total", "cannot-open"] == 10
    assert found["worked_batches_total", "batch-too-small"] == 1
    assert found["discarded_buckets_total",] == 1
    assert found["refused_requests_total", "malformed-batch"] == 1
    assert found["open_queue",] == 1
    assert found["last_batch_age_seconds",] == 60
    assert found["key_age_seconds", "0", "active"] == 3600 + 60
    assert found["key_age_seconds", "1", "pending"] == 3600 + 60 - DAY
    assert found["storage_errors_total",] == 0
    assert found["bundle_sequence",] == site.bundle().body.sequence


def test_the_admin_listener_needs_its_token_and_has_nothing_else(site: Site) -> None:
    assert ask(site, "/metrics").headers["content-type"].startswith("text/plain")
    assert ask(site, "/healthz").json() == ask(site, "/readyz").json() == {"ok": True}
    for wrong in ("", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}"):
        refused = ask(site, "/metrics", Authorization=wrong)
        problem(refused, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
    problem(ask(site, "/v1/bundle"), "not-found")
    problem(ask(site, "/metrics", "POST"), "method-not-allowed")
    problem(site.get("/metrics"), "not-found")  # nor is it where others ask


def test_readiness_is_whether_the_storage_can_be_written(site: Site) -> None:
    assert site.get("/readyz").status_code == 200
    storage = site.service.storage
    assert isinstance(storage, SqliteStorage)
    storage._connection.execute("PRAGMA query_only = ON")  # as good as a full disk
    site.clock.now += 5
    for answer in (site.get("/readyz"), site.get("/readyz"), ask(site, "/readyz")):
        problem(answer, "not-ready")
        assert answer.headers["retry-after"]
        assert not answer.json()["ok"]
        assert [reason["name"] for reason in answer.json()["reasons"]] == ["storage"]
    assert site.get("/healthz").status_code == 200
    storage._connection.execute("PRAGMA query_only = OFF")
    assert site.get("/readyz").status_code == 200
    assert metrics(site)["storage_errors_total",] == 3
    site.service.healthy = False
    problem(answer := site.get("/readyz"), "not-ready")
    assert [reason["name"] for reason in answer.json()["reasons"]] == ["bundle"]


async def test_a_storage_that_hangs_is_not_ready_and_is_asked_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is answered; what was asked goes on, once for all."""
    let_go, asked = threading.Event(), []

    def hang() -> None:
        asked.append(1)
        assert let_go.wait(PATIENCE)

    monkeypatch.setattr(site.service.storage, "check", hang)

    site.clock.now += 5
    health = health_of(site.service, patience=0.05)
    for _ in range(3):
        with pytest.raises(Refused, match="the check of the storage takes too long"):
            await health.ready()
    let_go.set()
    assert len(asked) == 1


def test_metrics_are_there_while_the_storage_is_not(site: Site) -> None:
    site.settle(site.batch("dark_mode", [True] * 250))
    site.close()
    found = metrics(site)
    assert (found["storage_up",], found["storage_errors_total",]) == (0, 1)
    assert found["worked_batches_total", "accepted"] == 1


def test_the_status_has_ages_the_last_batch_and_codebooks(site: Site) -> None:
    assert (site.json("/v1/status")["last_batch_seconds"], site.json("/v1/status")["last_release"]) == (None, None)
    site.settle(site.batch("dark_mode", [True] * 250))
    site.clock.now += 90
    found = site.json("/v1/status")
    assert (found["last_batch_seconds"], found["storage_errors"]) == (90, 0)
    assert found["last_release"] == site.service.codebooks.collection.calendar.period(site.period).label
    assert [key["age_seconds"] for key in found["keys"]] == [3690, 3690 - DAY, 3690 - 2 * DAY]
    assert found["codebooks"][0]["id"] == site.service.codebooks.newest.id.hex()


# -- retention ------------------------------------------------------------------------------------


def test_releases_go_after_their_retention_and_never_before_their_horizon(site: Site) -> None:
    site.service.retention = 20 * DAY
    name = os.urandom(16)
    body = site.batch("dark_mode", [True] * 250)
    site.settle(body, name)
    record = site.get(f"/v1/releases/{name.hex()}").content
    tally = site.service.storage.releases()[0].tally
    start = site.clock.now // DAY * DAY
    for days, there in [(20.9, True), (21.1, False)]:
        site.clock.now = start + days * DAY
        site.service.tick()
        assert (len(site.service.storage.releases()) == 1) is there
        assert (site.get(f"/v1/releases/{name.hex()}").status_code == 200) is there
    problem(site.get("/v1/metrics/dark_mode/estimate"), "nothing-released")
    assert site.put(body, name).json()["state"] == "accepted"  # and it can't come back
    site.service.tick()
    files = b"".join(path.read_bytes() for path in site.state_dir.glob("aggregator.db*"))
    assert tally not in files
    (kept,) = site.service.storage.expired()  # what it cost stays, for the ledger
    assert json.loads(kept.record) == json.loads(record)
    assert site.json("/v1/privacy")["total"]["releases"] == 1

    site.service.retention = DAY  # shorter than the horizon, which is nine days here
    site.service.tick()
    site.settle(site.batch("dark_mode", [True] * 250))
    start = site.clock.now // DAY * DAY
    for days, there in [(8.9, True), (9.1, False)]:
        site.clock.now = start + days * DAY
        site.service.tick()
        assert (len(site.service.storage.releases()) == 1) is there


# -- logs and settings ----------------------------------------------------------------------------


@pytest.fixture
def _logging_as_it_was() -> Iterator[None]:
    root, ours, theirs = logging.getLogger(), logging.getLogger("hubbub_aggregator"), logging.getLogger("uvicorn.error")
    before = (root.handlers[:], root.level, ours.level, theirs.level)
    yield
    root.handlers[:] = before[0]
    for logger, level in zip((root, ours, theirs), before[1:], strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("_logging_as_it_was")
def test_a_log_line_is_one_json_object_and_an_error_has_no_text() -> None:
    stream = io.StringIO()
    configure("json", "hubbub_aggregator", stream)
    log = logging.getLogger("hubbub_aggregator")
    log.info("batch %s accepted", "ab")
    try:
        raise ValueError("what a caller sent")
    except ValueError:
        log.exception("it failed")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("info", "hubbub_aggregator", "batch ab accepted")
    assert second["error"].startswith("ValueError at test_metrics.py:")
    assert "what a caller sent" not in stream.getvalue()


def test_every_setting_is_in_the_help_and_in_the_docs() -> None:
    shown = CliRunner().invoke(aggregator, ["--help"]).output
    page = settings("aggregator")  # what docs/reference/settings.md is built with
    for name, _, text in Settings.table():
        assert text, name
        assert f"HUBBUB_AGGREGATOR_{name.upper()}" in shown
        assert f"`HUBBUB_AGGREGATOR_{name.upper()}`" in page, name
        assert " ".join(text.split()) in page, name


def test_unsafe_settings_are_refused_without_showing_a_secret() -> None:
    secret = "a-password-" + "that-nobody-must-see"
    raw: dict[str, Any] = {"storage": f"mysql://:{secret}@host/0"}
    with pytest.raises(ValueError, match="write redis://") as refused:
        Settings(**raw)
    assert secret not in str(refused.value)
    assert secret not in repr(Settings(storage=SecretStr(f"redis://:{secret}@host/0")))
    with pytest.raises(ValueError, match="set admin_token"):
        Settings(admin_host="10.0.0.1", admin_port=9000)
    Settings(admin_host="10.0.0.1")  # it does not listen


@pytest.mark.full
def test_the_process_has_an_admin_listener_logs_json_and_ends_in_order(tmp_path: Path) -> None:
    write_compiled(tmp_path / "codebook.json", CODEBOOK)
    remember(Settings(state_dir=tmp_path / "state"))
    port = reserved_port()
    settings = {
        "codebook": tmp_path / "codebook.json",
        "state_dir": tmp_path / "state",
        "port": 0,
        "admin_port": port,
        "log_format": "json",
        "processes": 1,
        "retention_days": 30,
    }
    with Served(tmp_path / "log", **settings) as served:
        text = http.get(f"http://127.0.0.1:{port}/metrics").text
        assert "hubbub_aggregator_storage_up 1.0" in text
        assert "process_resident_memory_bytes" in text
        assert http.get(f"{served.address}/metrics").status_code == 404
        http.get(f"{served.address}/v1/metrics?canary-4711", headers={"User-Agent": "canary-4712"})
        assert served.stop() == 0
        for line in served.log().splitlines():
            json.loads(line)
        assert "canary" not in served.log()
