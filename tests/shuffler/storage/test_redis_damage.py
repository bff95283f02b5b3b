"""A Redis that lost reports of a closed bucket: what is left goes on, and the loss is logged and counted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hubbub_cli.all_commands import hubbub
from hubbub_shuffler.storage import Arrivals, AsyncStorage, BucketDamaged, Plan, StorageError
from hubbub_shuffler.storage.redis.backend import RedisStorage
from hubbub_shuffler.storage.redis.key_names import SHARDS, member_of
from tests.shuffler.backends import BUCKET, LEASE, TERMS, all_of, forgotten
from tests.shuffler.operations.test_metrics import Operated
from tests.shuffler.storage.test_sqlite_damage import adds_up
from tests.shuffler.world import CLOSES, NOW, unique, upload
from tests.support.clock import Clock
from tests.support.redis_server import RedisServer

REPORTS = 60
LOST: dict[str, Callable[[Any, str], bool]] = {
    "all of a shard": lambda client, shard: bool(client.delete(f"{shard}:shard", f"{shard}:blobs")),
    "its reports": lambda client, shard: bool(client.delete(f"{shard}:blobs")),
    "a part of them": lambda client, shard: bool(client.zremrangebyrank(f"{shard}:blobs", 0, 0)),
}
"""What of one shard a Redis may lose: by an eviction, a restore, a failover or a hand."""


class Lossy:
    """A storage in Redis with one bucket of reports that came one by one."""

    def __init__(self, server: RedisServer, prefix: str | None = None, after: float = 0.0) -> None:
        self.server, self.clock, self.prefix = server, Clock(NOW), prefix or os.urandom(8).hex()
        self.storage = AsyncStorage(
            RedisStorage(
                server.url,
                clock=self.clock,
                lease_clock=self.clock,
                entropy=os.urandom,
                prefix=self.prefix,
                salvage_after=after,
            )
        )

    def lose(self, how: Callable[[Any, str], bool]) -> None:
        """Of the fullest shard."""
        client = self.server.client()
        blobs = max(client.scan_iter(f"{self.prefix}:{{*}}:blobs"), key=client.zcard)
        assert how(client, blobs.decode().removesuffix(":blobs"))
        client.close()


@pytest.mark.parametrize("how", LOST.values(), ids=LOST)
async def test_what_is_left_of_a_bucket_goes_on_and_the_rest_is_counted_as_lost(
    redis_server: RedisServer, tmp_path: Path, how: Callable[[Any, str], bool], caplog: pytest.LogCaptureFixture
) -> None:
    lossy = Lossy(redis_server)

    async with Operated(tmp_path, clock=lossy.clock, storage=lossy.storage) as world:
        sealed = unique(REPORTS)
        for each in sealed:
            assert (await world.post(upload([each]))).status_code == 202
        lossy.clock.now = CLOSES
        await world.storage.close((), due=CLOSES)
        lossy.lose(how)
        await world.settle_all()
        delivered = set(world.aggregator.delivered())
        assert REPORTS // 2 < len(delivered) < REPORTS
        assert delivered < set(sealed)
        overview = await world.storage.overview()
        assert overview.counts["dark_mode", "damaged"] == (REPORTS - len(delivered), 1)
        assert adds_up(overview)
        assert not overview.waiting
        assert (await world.metrics())["damaged_buckets_total", "dark_mode"] == 1
        await world.admin.aclose()
    assert caplog.text.count("ARE LOST") == 1


async def test_too_few_that_are_left_are_discarded_as_ever(redis_server: RedisServer, tmp_path: Path) -> None:
    lossy = Lossy(redis_server)

    async with Operated(tmp_path, clock=lossy.clock, storage=lossy.storage, min_batch_floor=REPORTS) as world:
        for each in unique(REPORTS):
            await world.post(upload([each]))
        lossy.clock.now = CLOSES
        await world.storage.close((), due=CLOSES)
        lossy.lose(LOST["its reports"])
        await world.settle_all()
        overview = await world.storage.overview()
        assert not world.aggregator.delivered()
        assert overview.counts["dark_mode", "discarded"].reports > REPORTS // 2
        assert adds_up(overview)
        await world.admin.aclose()


async def test_one_look_decides_nothing(redis_server: RedisServer) -> None:
    lossy = Lossy(redis_server, after=1_000.0)
    await closed(lossy)
    lossy.lose(LOST["its reports"])
    for _ in range(3):
        with pytest.raises(BucketDamaged, match="LOST DATA"):
            await all_of(lossy.storage)
        await lossy.storage.forget()
    assert [bucket.reports for bucket in (await lossy.storage.overview()).waiting] == [REPORTS]
    await lossy.storage.aclose()


async def test_damage_that_can_not_be_mended_holds_up_no_deletion(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = Lossy(redis_server)
    await closed(lossy)
    assert await lossy.storage.plan(BUCKET, Plan((bytes(16),), b"", REPORTS, 0, discard=True))

    def fail() -> None:
        raise StorageError("not now")

    monkeypatch.setattr(lossy.storage.blocking.repair, "salvage", fail)
    with pytest.raises(StorageError, match="not now"):
        await lossy.storage.forget()
    client = lossy.server.client()
    assert not list(client.scan_iter(f"{lossy.prefix}:*:blobs"))
    client.close()
    await lossy.storage.aclose()


async def closed(lossy: Lossy) -> list[bytes]:
    sealed = unique(REPORTS, TERMS.size)
    lossy.clock.now = 0.0
    for each in sealed:
        assert not await lossy.storage.add([Arrivals(BUCKET, TERMS, [each])])
    lossy.clock.now = TERMS.closes_at
    await lossy.storage.close((), due=lossy.clock.now)
    return sealed


@pytest.mark.parametrize("planned", [False, True])
async def test_a_shard_of_which_only_the_name_is_lost_costs_nothing(redis_server: RedisServer, planned: bool) -> None:
    """Also on its way: its batches have the members that they had."""
    lossy = Lossy(redis_server)
    sealed = await closed(lossy)
    if planned:
        assert await lossy.storage.plan(BUCKET, Plan((bytes(16), b"1" * 16), os.urandom(32), REPORTS, 0))
        claim = await lossy.storage.claim(LEASE)
        assert claim
        assert await lossy.storage.settle(claim, "accepted")
    lossy.lose(lambda client, shard: bool(client.delete(f"{shard}:shard")))
    with pytest.raises(BucketDamaged):
        await all_of(lossy.storage)
    assert [found.lost for found in lossy.storage.blocking.repair.find()] == [0]
    await lossy.storage.forget()
    assert sorted(await all_of(lossy.storage)) == sorted(sealed)
    assert ("theme", "damaged") not in (await lossy.storage.overview()).counts
    await lossy.storage.aclose()


async def test_a_planned_bucket_is_planned_again_unless_it_is_on_its_way(redis_server: RedisServer) -> None:
    lossy = Lossy(redis_server)
    sealed = await closed(lossy)
    repair = lossy.storage.blocking.repair
    assert await lossy.storage.plan(BUCKET, Plan((bytes(16),), os.urandom(32), REPORTS - 2, 2))
    lossy.lose(LOST["all of a shard"])
    (found,) = repair.find()
    assert (found.state, found.reports, found.on_its_way) == ("planned", REPORTS, False)
    assert repair.mend(BUCKET) == found
    assert repair.mend(BUCKET) is None
    left = await all_of(lossy.storage)
    assert set(left) < set(sealed)
    assert len(left) == REPORTS - found.lost
    assert await lossy.storage.claim(LEASE) is None
    overview = await lossy.storage.overview()
    assert [bucket.state for bucket in overview.waiting] == ["closed"]
    assert adds_up(overview)
    assert await lossy.storage.plan(BUCKET, Plan((b"1" * 16,), os.urandom(32), len(left), 0))
    claim = await lossy.storage.claim(LEASE)
    assert claim
    assert await lossy.storage.postpone(claim, 0.0, sent=True)
    lossy.lose(LOST["all of a shard"])
    (found,) = repair.find()
    assert found.on_its_way
    mended = repair.mend(BUCKET)
    assert mended
    assert mended.on_its_way
    assert repair.discard(BUCKET) == len(left)
    overview = await lossy.storage.overview()
    assert (overview.waiting, overview.batches) == ([], {"planned": 0, "sent": 0})
    assert adds_up(overview)
    await forgotten(lossy.storage)
    client = lossy.server.client()
    assert not list(client.scan_iter(f"{lossy.prefix}:*:blobs"))
    client.close()
    await lossy.storage.aclose()


async def test_an_operator_sees_salvages_and_gives_up_damaged_buckets(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = redis_server.client()
    client.flushall()  # the command takes no prefix
    client.close()
    monkeypatch.setenv("HUBBUB_SHUFFLER_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("HUBBUB_SHUFFLER_STORAGE", redis_server.url)

    def command(*arguments: str) -> Any:
        return CliRunner().invoke(hubbub, ["shuffler", "damaged", *arguments])

    assert "can be read" in command("list").stderr
    lossy = Lossy(redis_server, "hubbub-shuffler")
    await closed(lossy)
    lossy.lose(LOST["its reports"])
    await lossy.storage.aclose()
    (row,) = json.loads(command("list", "--json").stdout)["buckets"]
    assert (row["metric"], row["state"], row["reports"], row["on its way"]) == ("theme", "closed", REPORTS, "no")
    done = command("salvage", row["bucket"])
    assert (done.exit_code, f"{row['unreadable']} are lost" in done.stderr) == (0, True)
    assert f"theme: {row['unreadable']} reports were lost before" in command("list").stderr
    lossy = Lossy(redis_server, "hubbub-shuffler")
    lossy.lose(LOST["its reports"])
    assert command("discard", "--yes").exit_code == 0
    overview = await lossy.storage.overview()
    assert overview.counts["theme", "damaged"] == (REPORTS, 2)
    assert adds_up(overview)
    assert not overview.waiting
    await lossy.storage.aclose()
    assert not list(tmp_path.iterdir())


def lose_control(lossy: Lossy) -> None:
    """As a cluster does that loses the node with the control slot."""
    client = lossy.server.client()
    assert client.delete(*client.scan_iter(f"{lossy.prefix}:{{control}}:*"))
    client.close()


async def kept_one_by_one(lossy: Lossy, count: int) -> list[bytes]:
    sealed = unique(count, TERMS.size)
    for each in sealed:
        assert not await lossy.storage.add([Arrivals(BUCKET, TERMS, [each])])
    return sealed


@pytest.mark.parametrize("later", [0, 1, REPORTS])
async def test_reports_go_on_though_the_record_of_their_bucket_is_lost(
    redis_server: RedisServer, later: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Also those that come after the loss, to shards of before it and to new ones."""
    lossy = Lossy(redis_server)
    lossy.clock.now = 0.0
    sealed = await kept_one_by_one(lossy, 5)  # most likely in less than eight shards
    lose_control(lossy)
    assert not await lossy.storage.close(())
    sealed += await kept_one_by_one(lossy, later)
    lossy.clock.now = TERMS.closes_at
    assert [found.bucket for found in await lossy.storage.close((), due=lossy.clock.now)] == [BUCKET]
    assert sorted(await all_of(lossy.storage)) == sorted(sealed)
    assert (await lossy.storage.overview()).waiting[0].reports == len(sealed)
    assert await lossy.storage.plan(BUCKET, Plan((bytes(16),), os.urandom(32), len(sealed), 0))
    claim = await lossy.storage.claim(LEASE)
    assert claim
    assert await lossy.storage.settle(claim, "accepted")
    await forgotten(lossy.storage)
    client = lossy.server.client()
    assert not list(client.scan_iter(f"{lossy.prefix}:*:blobs"))
    client.close()
    assert "REDIS LOST DATA" in caplog.text
    assert "their reports go on" in caplog.text
    await lossy.storage.aclose()


async def test_a_process_that_came_after_the_loss_records_what_it_adds_to(redis_server: RedisServer) -> None:
    """Its reports go to shards that are open already."""
    before = Lossy(redis_server)
    before.clock.now = 0.0
    sealed = await kept_one_by_one(before, REPORTS)
    await before.storage.aclose()
    lose_control(before)
    after = Lossy(redis_server, before.prefix)
    after.clock.now = 0.0
    sealed += await kept_one_by_one(after, 1)
    after.clock.now = TERMS.closes_at
    assert [found.bucket for found in await after.storage.close((), due=after.clock.now)] == [BUCKET]
    assert sorted(await all_of(after.storage)) == sorted(sealed)
    await after.storage.aclose()


@pytest.mark.parametrize("planned", [False, True])
async def test_a_bucket_that_was_closed_goes_on_after_its_record_was_lost(
    redis_server: RedisServer, planned: bool
) -> None:
    lossy = Lossy(redis_server)
    sealed = await closed(lossy)
    if planned:
        assert await lossy.storage.plan(BUCKET, Plan((bytes(16),), os.urandom(32), REPORTS, 0))
    lose_control(lossy)
    assert [found.bucket for found in await lossy.storage.close((), due=lossy.clock.now)] == [BUCKET]
    assert sorted(await all_of(lossy.storage)) == sorted(sealed)
    assert await lossy.storage.plan(BUCKET, Plan((b"1" * 16,), os.urandom(32), REPORTS, 0))
    await lossy.storage.aclose()


async def test_a_bucket_whose_reports_are_deleted_gets_no_record_again(redis_server: RedisServer) -> None:
    lossy = Lossy(redis_server)
    await closed(lossy)
    assert await lossy.storage.plan(BUCKET, Plan((bytes(16),), b"", REPORTS, 0, discard=True))
    await lossy.storage.forget()
    lose_control(lossy)
    assert not await lossy.storage.close((), due=lossy.clock.now)
    assert not (await lossy.storage.overview()).waiting
    await lossy.storage.aclose()


async def test_a_process_that_was_paused_takes_no_shard_of_a_bucket_that_was_opened_again(
    redis_server: RedisServer,
) -> None:
    """What it read of the bucket before it was paused was forgotten since."""
    lossy = Lossy(redis_server)
    await closed(lossy)
    records = lossy.storage.blocking._records  # type: ignore[attr-defined]  # it is a RedisStorage
    shards = [-1] * SHARDS
    assert records.take_over(member_of(BUCKET), b"an earlier one", b"1000", b"0", shards) is None
    assert len(await all_of(lossy.storage)) == REPORTS
    await lossy.storage.aclose()


def lose_batches(lossy: Lossy, count: int) -> None:
    client = lossy.server.client()
    found = sorted(client.scan_iter(f"{lossy.prefix}:{{control}}:batch:*"))
    assert client.delete(*found[:count]) == count
    client.close()


@pytest.mark.parametrize("again", [False, True], ids=["seen by this process", "seen by the next process"])
async def test_a_bucket_whose_only_batch_is_missing_is_planned_again(
    redis_server: RedisServer, again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With the members that the batch had: if the aggregator counted them, it counts none of them twice."""
    lossy = Lossy(redis_server)
    sealed = await closed(lossy)
    await lossy.storage.forget()
    assert await lossy.storage.plan(BUCKET, Plan((bytes(16),), os.urandom(32), REPORTS - 2, 2))
    lose_batches(lossy, 1)
    assert await lossy.storage.claim(LEASE) is None
    assert "is missing" in caplog.text
    if again:
        await lossy.storage.aclose()
        lossy = Lossy(redis_server, lossy.prefix)
        lossy.clock.now = TERMS.closes_at
    assert [found.on_its_way for found in lossy.storage.blocking.repair.find()] == [False]
    await lossy.storage.forget()
    assert "get another one" in caplog.text
    assert [found.bucket for found in await lossy.storage.close((), due=lossy.clock.now)] == [BUCKET]
    assert sorted(await all_of(lossy.storage)) == sorted(sealed)
    assert adds_up(await lossy.storage.overview())
    assert await lossy.storage.plan(BUCKET, Plan((b"1" * 16,), os.urandom(32), REPORTS - 2, 2))
    claim = await lossy.storage.claim(LEASE)
    assert claim
    assert await lossy.storage.settle(claim, "accepted")
    overview = await lossy.storage.overview()
    assert not overview.waiting
    assert overview.counts["theme", "accepted"].reports == REPORTS - 2
    assert adds_up(overview)
    await lossy.storage.aclose()


async def test_a_bucket_that_lacks_some_of_its_batches_is_shown_and_can_be_given_up(redis_server: RedisServer) -> None:
    """The aggregator may have counted the one that is missing, and other parts of the bucket would be others."""
    lossy = Lossy(redis_server)
    await closed(lossy)
    ids = tuple(bytes([number]) * 16 for number in range(4))
    assert await lossy.storage.plan(BUCKET, Plan(ids, os.urandom(32), REPORTS, 0))
    claim = await lossy.storage.claim(LEASE)
    assert claim
    assert await lossy.storage.settle(claim, "accepted")
    lose_batches(lossy, 2)
    assert await lossy.storage.claim(LEASE)
    assert await lossy.storage.claim(LEASE) is None
    await lossy.storage.forget()
    repair = lossy.storage.blocking.repair
    (found,) = repair.find()
    assert (found.lost, found.on_its_way) == (0, True)
    assert repair.discard(BUCKET) == REPORTS - claim.batch.reports
    overview = await lossy.storage.overview()
    assert (overview.waiting, overview.batches) == ([], {"planned": 0, "sent": 0})
    assert overview.counts["theme", "damaged"].reports == REPORTS - claim.batch.reports
    assert adds_up(overview)
    await lossy.storage.aclose()
