"""Several aggregators on one Redis: each has its own files, and all give the same answers."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from hubbub.errors import InvalidParameter
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.publication.keys import new_identity
from hubbub_aggregator.storage import StorageError
from tests.aggregator.api.test_batches import problem, spooled
from tests.aggregator.backends import counted
from tests.aggregator.world import CODEBOOK, DAY, START, WAIT, Site, whole
from tests.support.compiled import compiled
from tests.support.redis_server import RedisServer, one_server

Open = Callable[..., Site]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with one_server(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def opening(tmp_path: Path, pool: Pool, server: RedisServer) -> Iterator[Open]:
    """Aggregators that share a Redis and an identity."""
    new_identity(tmp_path)
    sites: list[Site] = []

    def open_(name: str, **settings: Any) -> Site:
        root = tmp_path / name
        root.mkdir()
        chosen = {"storage": SecretStr(server.url), "identity": tmp_path / "identity.key", **settings}
        sites.append(Site.open(root, pool, **chosen))
        return sites[-1]

    yield open_
    for site in sites:
        site.close()


def test_two_aggregators_take_work_and_answer_as_one(opening: Open) -> None:
    one, two = opening("one"), opening("two")
    assert one.get("/v1/bundle").content == two.get("/v1/bundle").content
    first = one.settle(one.batch("dark_mode", [True] * 200))
    assert two.json(f"/v1/batches/{first['id']}") == first

    body, name = two.batch("dark_mode", [False] * 200, seed=2), os.urandom(16)
    assert one.put(body, name).status_code == 202
    assert two.put(body, name).status_code == 202
    two.work()  # what the other one has spooled
    one.work()
    assert spooled(two) == []
    verdict = one.json(f"/v1/batches/{name.hex()}")
    assert (verdict["state"], verdict["valid"]) == ("accepted", 200)
    problem(one.put(two.batch("dark_mode", [True] * 200), name), "batch-conflict")

    path = "/v1/metrics/dark_mode/estimate"
    assert one.get(path).content == two.get(path).content
    assert one.json(path)["segments"][0]["reports"] == 400
    one.service._sweep()
    assert spooled(one) == []


def test_a_nonce_counts_once_whoever_opens_it(opening: Open) -> None:
    one, two = opening("one"), opening("two")
    plaintexts = one.plaintexts("dark_mode", [True] * 300)
    header = one.header("dark_mode", 300)
    for site in (one, two):
        site.put(whole(header, site.seal(header, plaintexts)))

    async def together() -> list[int]:
        return await asyncio.gather(*(site.service.accumulator.drain() for site in (one, two)))

    assert asyncio.run(together()) == [0, 0]
    one.work()
    assert one.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 300
    assert two.json("/v1/status")["batches"] == {"pending": 0, "accepted": 1, "refused": 1}


def test_what_one_acknowledged_another_finishes_even_if_its_disk_is_lost(opening: Open, server: RedisServer) -> None:
    gone, left = opening("one"), opening("two")
    body, name = gone.batch("dark_mode", [True] * 200), os.urandom(16)
    assert gone.put(body, name).status_code == 202
    shutil.rmtree(gone.state_dir)

    left.work()
    verdict = left.json(f"/v1/batches/{name.hex()}")
    assert (verdict["state"], verdict["valid"]) == ("accepted", 200)
    assert spooled(left) == []
    client = server.client()
    assert client.keys("*{body:*") == []
    client.close()


def test_a_batch_is_worked_on_by_one_of_them_while_its_lease_lasts(opening: Open) -> None:
    one, two = opening("one", lease=1), opening("two", lease=1)
    name = os.urandom(16)
    one.put(one.batch("dark_mode", [True] * 200), name)
    assert one.service.storage.lease(name, one.service.accumulator._holder, 60)
    two.work()
    assert two.json(f"/v1/batches/{name.hex()}")["state"] == "pending"
    one.work()
    assert two.json(f"/v1/batches/{name.hex()}")["state"] == "accepted"


def test_a_body_that_is_nowhere_is_asked_for_again(opening: Open, server: RedisServer) -> None:
    one, two = opening("one"), opening("two")
    body, name = one.batch("dark_mode", [True] * 200), os.urandom(16)
    one.put(body, name)
    shutil.rmtree(one.state_dir / "spool")
    client = server.client()
    (key,) = client.keys("*{body:*")
    client.hdel(key, 1)  # a piece is gone, which is as bad
    client.close()
    two.work()
    problem(two.get(f"/v1/batches/{name.hex()}"), "not-found")
    assert two.settle(body, name)["state"] == "accepted"


def test_a_codebook_that_one_publishes_the_others_follow(opening: Open) -> None:
    one, two = opening("one"), opening("two")
    edited = compiled(CODEBOOK.replace("Whether the dark theme is on", "Whether it is dark"))
    one.service.codebooks.publish(edited, one.clock())
    two.service.tick()
    assert two.get("/v1/bundle").content == one.get("/v1/bundle").content
    assert len(two.bundle().body.codebooks) == 2


def test_a_process_with_another_identity_is_refused(opening: Open) -> None:
    opening("one")
    with pytest.raises(InvalidParameter, match=r"copy identity\.key"):
        opening("two", identity=None)


def test_keys_and_nonces_go_after_the_horizon_whoever_erases_them(opening: Open) -> None:
    one, two = opening("one"), opening("two")
    one.settle(one.batch("dark_mode", [True] * 200))
    period, metric = one.period, one.metric("dark_mode").id
    two.clock.now = START + 9 * DAY + WAIT - 1
    two.service.tick()
    assert len(counted(one.service.storage, metric, period)) == 1
    two.clock.now += 1
    two.service.tick()
    assert counted(one.service.storage, metric, period) == []
    assert one.service.ring.find(period, 0) is None
    assert one.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 200


def test_while_redis_is_away_callers_are_told_to_come_back(opening: Open, server: RedisServer) -> None:
    site = opening("one")
    body, name = site.batch("dark_mode", [True] * 200), os.urandom(16)
    bundle = site.get("/v1/bundle").content
    server.stop()
    asked = {f"/v1/batches/{name.hex()}": "overloaded", "/readyz": "not-ready"}
    for answer, said in [
        (site.put(body, name), "overloaded"),
        *((site.get(path), said) for path, said in asked.items()),
    ]:
        problem(answer, said)
        assert int(answer.headers["retry-after"]) > 0
    with pytest.raises(StorageError):
        site.service.tick()
    assert spooled(site) == []
    server.start()
    site.service.tick()
    assert site.get("/readyz").status_code == 200
    assert site.settle(body, name)["state"] == "accepted"
    assert site.get("/v1/bundle").content == bundle
    assert site.json("/v1/status")["storage_errors"] == 3


def test_the_address_of_redis_is_never_shown(opening: Open) -> None:
    assert "redis://" not in repr(opening("one").settings)
