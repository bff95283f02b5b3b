"""A worker that stood still while another gave the verdict: what it does afterwards changes and counts nothing."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.publication.keys import new_identity
from hubbub_aggregator.storage import Batch
from tests.aggregator.world import Site
from tests.support.redis_server import one_server


@pytest.fixture(params=["sqlite", "redis"])
def site(request: pytest.FixtureRequest, tmp_path: Path, pool: Pool) -> Iterator[Site]:
    if request.param == "sqlite":
        site = Site.open(tmp_path, pool)
        yield site
        site.close()
        return
    new_identity(tmp_path)
    with one_server(tmp_path / "redis") as server:
        site = Site.open(tmp_path, pool, storage=SecretStr(server.url), identity=tmp_path / "identity.key")
        yield site
        site.close()


def waiting(site: Site) -> tuple[Batch, bytes]:
    """A batch that waits, as a process saw it, and its body."""
    body = site.batch("dark_mode", [True] * 200)
    assert site.put(body, os.urandom(16)).status_code == 202
    (batch,) = site.service.storage.pending()
    assert batch.spool is not None
    return batch, site.service.spool.path(batch.spool).read_bytes()


def settle(site: Site, batch: Batch) -> None:
    asyncio.run(site.service.accumulator.settle(batch))


def told(site: Site, caplog: pytest.LogCaptureFixture) -> tuple[dict[str, int], int, list[str]]:
    """What the operator sees of verdicts: counted by the process, refused by the storage, in the log."""
    lines = [
        record.getMessage() for record in caplog.records if hasattr(record, "batch") or "batch " in record.getMessage()
    ]
    given = {verdict: number for verdict, number in site.service.accumulator.progress.batches.items() if number}
    return given, site.json("/v1/status")["batches"]["refused"], lines


def test_a_refusal_that_comes_after_the_verdict_is_neither_counted_nor_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """It finds that every nonce was counted, by the very batch that it works on."""
    caplog.set_level(logging.INFO)
    batch, body = waiting(site)
    site.work()
    before = told(site, caplog)
    assert (before[0], before[1], len(before[2])) == ({"accepted": 1}, 0, 1)
    reports = dict(site.service.accumulator.progress.reports)
    assert batch.spool is not None
    site.service.spool.path(batch.spool).write_bytes(body)
    settle(site, batch)
    assert told(site, caplog) == before
    assert dict(site.service.accumulator.progress.reports) == reports
    assert site.service.storage.opened_and_refused() == []
    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 200


def test_of_two_that_accept_the_same_batch_one_counts_it(
    site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    batch, _ = waiting(site)
    accept = site.service.storage.accept

    def second(*given: Any) -> Any:
        accept(*given)  # by another process, while this one stood still
        return accept(*given)

    monkeypatch.setattr(site.service.storage, "accept", second)
    settle(site, batch)
    assert told(site, caplog) == ({}, 0, [])
    assert site.json(f"/v1/batches/{batch.id.hex()}")["state"] == "accepted"
    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 200


def test_a_batch_that_was_sent_again_is_not_dropped_for_its_old_file(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    batch, body = waiting(site)
    assert batch.spool is not None
    site.service.spool.remove(batch.spool)
    settle(site, batch)
    assert site.service.storage.batch(batch.id) is None
    assert told(site, caplog)[2] == [f"batch {batch.id.hex()} is dropped: its file is gone"]

    header = batch.header.encode()
    assert site.put(header + body.removeprefix(header), batch.id).status_code == 202
    caplog.clear()
    settle(site, batch)  # by a process that saw the first upload only
    (again,) = site.service.storage.pending()
    assert (again.id, again.spool != batch.spool, told(site, caplog)[2]) == (batch.id, True, [])
    site.work()
    assert site.json(f"/v1/batches/{batch.id.hex()}")["valid"] == 200
