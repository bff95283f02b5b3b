"""A full disk or Redis: batches are refused while there is still room to settle those that were taken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hubbub_aggregator.opening import Pool
from tests.aggregator.fleet import Site
from tests.redis_server import one_server
from tests.small_disk import small_disk

REPORTS = 200


@contextmanager
def little_room(kind: str, directory: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The directory of a site with a megabyte or two for batches, and its settings."""
    if kind == "disk":
        with small_disk(directory / "disk", 2) as disk:
            yield disk.path, {}
        return
    with one_server(directory / "redis") as server:
        client = server.client()
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 3 * 2**19)
        client.close()
        (directory / "site").mkdir()
        yield directory / "site", {"storage": server.url}


@pytest.mark.parametrize("kind", ["disk", "redis"])
def test_bodies_that_wait_leave_room_for_the_work_on_them(tmp_path: Path, pool: Pool, kind: str) -> None:
    with little_room(kind, tmp_path) as (directory, settings):
        site = Site.open(directory, pool, **settings)
        body, other = (site.batch("dark_mode", [True] * REPORTS) for _ in range(2))
        taken = 0
        while (answer := site.put(body)).status_code == 202:  # under another id each time
            taken += 1
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:hubbub:problem:overloaded")
        assert int(answer.headers["Retry-After"]) > 0
        assert taken > 3
        for _ in range(5):  # as the service does: what found no room is tried again when others have left
            if not asyncio.run(site.service.accumulator.drain()):
                break
        assert site.json("/v1/status")["batches"] == {"pending": 0, "accepted": 1, "refused": taken - 1}
        assert site.settle(other)["state"] == "accepted"
        assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 2 * REPORTS
        site.close()
