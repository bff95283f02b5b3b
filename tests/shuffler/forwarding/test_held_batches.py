"""Held batches: a refused batch is deleted only if the shuffler's own bundle and clock agree with the aggregator."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from hubbub.bundle import verify
from hubbub_cli.all_commands import hubbub
from hubbub_service_common.clock.trusted_clock import LONGEST_WAIT
from hubbub_service_common.http.tokens import Tokens
from hubbub_shuffler.forwarding.lag import Lag
from hubbub_shuffler.forwarding.refusal_confirmation import REFUSED_FOR_GOOD, VERDICTS, confirmed, horizon
from hubbub_shuffler.operations.admin_listener import create_admin
from hubbub_shuffler.operations.metrics import Sources
from hubbub_shuffler.storage import Batch, Bucket, Plan, Terms
from tests.shuffler.world import (
    CLOSES,
    KEYS,
    METRIC,
    NOW,
    PERIOD,
    SEALED,
    TRUST,
    StubAggregator,
    World,
    codebook,
    files_of,
    signed,
    unique,
    upload,
)
from tests.shuffler.wrong_clocks import DAY, WRONG, Machine, a_minute, holding, shuffler, wait, wrong
from tests.support.redis_server import RedisServer

HORIZON = CLOSES + 7 * DAY
BODY = verify(signed(), TRUST, NOW, None).body
BATCH = Batch(bytes(16), Bucket(METRIC, PERIOD, 1), Terms("dark_mode", SEALED, CLOSES, 3), "batch", 0, 1, 3, False, 0)
NEVER = ("malformed-batch", "batch-conflict", "refused")
"""Of these we have no view of our own."""


def of(batch: Batch = BATCH, **bucket: Any) -> Batch:
    return replace(batch, bucket=batch.bucket._replace(**bucket))


OURS = {
    "unknown-key": of(key=3),
    "revoked-key": of(key=3),
    "wrong-length": replace(BATCH, terms=replace(BATCH.terms, size=SEALED + 1)),
}
"""By reason: a batch that our own bundle refuses for it."""
MISSING = {"unknown-key": of(key=9), "unknown-metric": of(metric=bytes(16))}
"""By reason: a batch of whose key or metric our bundle does not know."""


@pytest.mark.parametrize("verdict", VERDICTS)
def test_a_refusal_is_the_last_word_only_if_our_bundle_says_the_same(verdict: str) -> None:
    final = verdict in {"accepted", "batch-too-small"}
    assert confirmed(verdict, BATCH, BODY, -math.inf) is final
    assert confirmed(verdict, BATCH, None, -math.inf) is final  # nor without a bundle
    if verdict in OURS:
        assert confirmed(verdict, OURS[verdict], BODY, -math.inf)
        assert not confirmed(verdict, OURS[verdict], None, -math.inf)
        assert not [other for other in NEVER if confirmed(other, OURS[verdict], BODY, -math.inf)]
    assert confirmed(verdict, replace(BATCH, kind="discard"), None, -math.inf)  # it has no reports
    assert confirmed(verdict, BATCH, BODY, HORIZON)
    assert confirmed(verdict, BATCH, BODY, HORIZON - 1) is final


@pytest.mark.parametrize("verdict", sorted(MISSING))
def test_what_a_bundle_does_not_list_confirms_nothing(verdict: str) -> None:
    """An aggregator that was restored from an older copy hands out such a bundle, and then refuses."""
    assert not confirmed(verdict, MISSING[verdict], BODY, HORIZON - 1)
    assert confirmed(verdict, MISSING[verdict], BODY, HORIZON)


def test_the_horizon_is_our_own() -> None:
    assert horizon(BATCH, BODY) == HORIZON
    assert horizon(BATCH, None) == 0
    assert horizon(replace(BATCH, until=5), None) == 5
    later = verify(signed(first_period=PERIOD + 1), TRUST, NOW, None).body  # nothing in force in that period any more
    assert horizon(BATCH, later) == HORIZON


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture(params=["sqlite", "redis"])
def server(request: pytest.FixtureRequest) -> RedisServer | None:
    found: RedisServer | None = request.getfixturevalue("redis_server") if request.param == "redis" else None
    return found


async def refused(world: World, machine: Machine, reason: str, reports: int = 5) -> list[bytes]:
    """A crowd whose batch the aggregator has refused for this reason."""
    sealed = unique(reports)
    assert (await world.post(upload(sealed))).status_code == 202
    machine.running = CLOSES - NOW
    world.aggregator.answers = [(409, reason)]
    await wait(world, machine, 10)
    assert not world.aggregator.answers
    return sealed


@pytest.mark.everyday
@pytest.mark.parametrize("reason", sorted(REFUSED_FOR_GOOD - {"batch-too-small"}))
async def test_what_is_refused_and_not_confirmed_is_held_and_goes_through_once_the_aggregator_is_mended(
    tmp_path: Path, machine: Machine, server: RedisServer | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    async with holding(shuffler(tmp_path, machine, server)) as world:
        sealed = await refused(world, machine, reason)
        overview = await world.storage.overview()
        assert (overview.held, [bucket.reports for bucket in overview.waiting]) == ({reason: (5, 1)}, [5])
        world.aggregator.answers = [(409, reason)] * 3
        await wait(world, machine, 3_600)
        assert not world.aggregator.answers  # it was offered again
        await wait(world, machine, 2 * 3_600)  # within the longest pause
        assert sorted(world.aggregator.delivered()) == sorted(sealed)
        overview = await world.storage.overview()
        assert (overview.held, overview.waiting) == ({}, [])
        assert overview.counts["dark_mode", "accepted"] == (5, 1)
        assert ("dark_mode", reason) not in overview.counts
        assert caplog.text.count("is held, not deleted") == 1


async def test_a_refusal_that_comes_after_the_batch_was_taken_is_held_too_and_it_is_sent_again(
    tmp_path: Path, machine: Machine
) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        sealed = unique(5)
        assert (await world.post(upload(sealed))).status_code == 202
        world.aggregator.verdict = {"state": "refused", "reason": "unknown-key"}
        machine.running = CLOSES - NOW
        await wait(world, machine, 60, 10)
        assert (await world.storage.overview()).held == {"unknown-key": (5, 1)}
        assert len(world.aggregator.puts) == 1
        world.aggregator.verdict = {"state": "accepted", "reason": None}
        await wait(world, machine, 3_600)
        assert len(world.aggregator.puts) == 2
        assert (await world.storage.overview()).counts["dark_mode", "accepted"] == (5, 1)


@pytest.mark.everyday
@pytest.mark.parametrize("offset", WRONG)
async def test_no_wrong_clock_makes_a_batch_too_late(
    tmp_path: Path, machine: Machine, server: RedisServer | None, offset: float
) -> None:
    """Neither the aggregator's, which refuses, nor ours, which would confirm it."""
    async with holding(shuffler(tmp_path, machine, server)) as world:
        sealed = await refused(world, machine, "batch-too-late")
        world.aggregator.answers = [(410, "batch-too-late")] * 100
        with wrong(machine, offset):
            await world.storage.offer()
            await a_minute(world, machine)
        world.aggregator.clock = lambda: machine.right() + offset  # now theirs
        await world.storage.offer()
        await a_minute(world, machine)
        assert len(world.aggregator.answers) < 100
        world.aggregator.answers, world.aggregator.clock = [], machine.right
        assert (await world.storage.overview()).held == {"batch-too-late": (5, 1)}
        await wait(world, machine, 3_700)
        assert sorted(world.aggregator.delivered()) == sorted(sealed)


async def test_what_is_held_at_our_own_horizon_is_deleted_under_its_reason(
    tmp_path: Path, machine: Machine, server: RedisServer | None, caplog: pytest.LogCaptureFixture
) -> None:
    """And it is said aloud, once: they were acknowledged."""
    async with holding(shuffler(tmp_path, machine, server)) as world:
        sealed = await refused(world, machine, "unknown-key")
        world.aggregator.up = False
        (held,) = await world.storage.held_batches()
        assert (held.why, held.since % 3_600, held.until) == ("unknown-key", 0, HORIZON)
        machine.running = HORIZON - NOW - 10
        await wait(world, machine, LONGEST_WAIT, 300)
        assert (await world.storage.overview()).held
        await wait(world, machine, LONGEST_WAIT + 700, 300)
        overview = await world.storage.overview()
        assert (overview.held, overview.waiting) == ({}, [])
        assert overview.counts["dark_mode", "unknown-key"] == (5, 1)
        (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert "of dark_mode is deleted with its 5 reports" in said
        assert "(unknown-key)" in said
        if server is None:
            assert not [each for each in sealed if each in files_of(tmp_path)]


async def test_a_new_bundle_has_held_batches_offered_at_once(tmp_path: Path, machine: Machine) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        sealed = await refused(world, machine, "unknown-metric")
        assert (await world.storage.overview()).held
        world.aggregator.bundle = signed(machine.right())
        await world.bundles.refresh()
        await world.batcher.tick()
        machine.running += 1
        await world.batcher.tick()
        assert sorted(world.aggregator.delivered()) == sorted(sealed)


async def planned(world: World, machine: Machine) -> list[bytes]:
    """Five reports whose bucket is closed and planned, and not forwarded yet."""
    sealed = unique(5)
    assert (await world.post(upload(sealed))).status_code == 202
    machine.running = CLOSES - NOW
    world.aggregator.up = False
    await wait(world, machine, 10)
    world.aggregator.up = True
    return sealed


@pytest.mark.parametrize("doubt", [False, True])
async def test_what_our_own_bundle_confirms_is_settled_at_once_if_the_clock_is_not_in_doubt(
    tmp_path: Path, machine: Machine, doubt: bool
) -> None:
    """An aggregator whose clock is ahead drops keys from its bundle, too."""
    async with holding(shuffler(tmp_path, machine, None)) as world:
        await planned(world, machine)
        world.aggregator.bundle = signed(machine.right(), keys=(replace(KEYS[0], state="revoked"), *KEYS[1:]))
        assert await world.bundles.refresh()
        world.aggregator.answers = [(409, "revoked-key")]
        machine.running += 100
        if doubt:
            world.aggregator.clock = lambda: machine.right() + 7_200
            await world.bundles.refresh()
        await world.batcher.tick()
        overview = await world.storage.overview()
        if doubt:
            assert overview.held == {"revoked-key": (5, 1)}
        else:
            assert overview.counts["dark_mode", "revoked-key"] == (5, 1)


@pytest.mark.everyday("sqlite")
async def test_a_batch_survives_an_aggregator_that_was_restored_from_an_older_copy(
    tmp_path: Path, machine: Machine, server: RedisServer | None
) -> None:
    """Its bundle is newer, and has no such key."""
    async with holding(shuffler(tmp_path, machine, server)) as world:
        sealed = await planned(world, machine)
        good, world.aggregator.bundle = world.aggregator.bundle, signed(machine.right(), keys=KEYS[1:])
        assert await world.bundles.refresh()
        world.aggregator.answers = [(409, "unknown-key")] * 100
        await wait(world, machine, 5 * 3_600)
        assert (await world.storage.overview()).held == {"unknown-key": (5, 1)}
        world.aggregator.answers, world.aggregator.bundle = [], signed(machine.right())
        assert good != world.aggregator.bundle
        await wait(world, machine, 2 * 3_600)
        assert sorted(world.aggregator.delivered()) == sorted(sealed)


async def test_a_batch_that_is_held_while_the_bundle_has_expired_is_not_held_for_ever(
    tmp_path: Path, machine: Machine, server: RedisServer | None
) -> None:
    aggregator = StubAggregator(signed(lifetime=int(DAY)))
    async with holding(shuffler(tmp_path, machine, server, aggregator)) as world:
        assert (await world.post(upload(unique(5)))).status_code == 202
        machine.running = CLOSES - NOW
        world.aggregator.up = False
        await wait(world, machine, 10)
        machine.running = 2 * DAY
        assert world.bundles.current is None
        world.aggregator.up, world.aggregator.answers = True, [(409, "unknown-key")] * 200
        await wait(world, machine, 3_700, 300)
        (held,) = await world.storage.held_batches()
        assert held.until == HORIZON
        machine.running = HORIZON - NOW - 10
        await wait(world, machine, 2 * LONGEST_WAIT + 700, 300)
        overview = await world.storage.overview()
        assert (overview.held, overview.counts["dark_mode", "unknown-key"]) == ({}, (5, 1))


async def test_what_is_held_shows_in_the_status_the_metrics_and_not_as_lag(
    tmp_path: Path, machine: Machine, server: RedisServer | None
) -> None:
    """Nor does it hide the lag of what is not held."""
    async with holding(shuffler(tmp_path, machine, server)) as world:
        lag = Lag(machine)
        world.batcher = world.worker(lag.watch(world.storage))
        admin = create_admin(Sources(world.ingest, world.bundles, lag, None, world.trusted), world.storage, Tokens([]))
        client = httpx2.AsyncClient(transport=httpx2.ASGITransport(admin), base_url="http://admin.test")

        async def metrics() -> list[str]:
            await world.bundles.refresh()  # it has expired on the way
            return (await client.get("/metrics")).text.splitlines()

        await refused(world, machine, "unknown-key", 250)
        shown = (await world.client.get("/v1/status")).json()
        assert (shown["held"], shown["batches"]) == ({"unknown-key": 1}, {"planned": 0, "sent": 0})
        lines = await metrics()
        assert 'hubbub_shuffler_held_batches{reason="unknown-key"} 1.0' in lines
        assert 'hubbub_shuffler_held_reports{reason="unknown-key"} 200.0' in lines
        assert "hubbub_shuffler_clock_skew_seconds 0.0" in lines
        assert "hubbub_shuffler_forward_lag_seconds 0.0" in lines
        machine.running += 3 * DAY
        assert "hubbub_shuffler_forward_lag_seconds 0.0" in await metrics()
        world.aggregator.up = False  # it is offered, and stays without an answer
        await world.batcher.tick()
        assert "hubbub_shuffler_forward_lag_seconds 0.0" in await metrics()
        assert (await world.storage.overview()).waiting == [("dark_mode", "planned", 250, CLOSES, True)]
        await client.aclose()


async def test_a_bucket_of_which_one_batch_is_held_and_one_is_not_lags(
    tmp_path: Path, machine: Machine, server: RedisServer | None
) -> None:
    async with holding(shuffler(tmp_path, machine, server)) as world:
        assert (await world.post(upload(unique(10)))).status_code == 202
        machine.running = CLOSES - NOW
        (closed,) = await world.storage.close((), due=CLOSES)
        assert await world.storage.plan(closed.bucket, Plan((bytes(16), bytes(15) + b"1"), bytes(32), 10, 0))
        lag = Lag(machine)
        machine.running += 100
        first, second = await world.storage.claim(60.0), await world.storage.claim(60.0)
        assert first is not None
        assert second is not None
        assert await world.storage.hold_back(first, "unknown-key", since=0, until=int(HORIZON), seconds=3_600)
        lag.waiting(await world.storage.overview())
        assert lag.now() == 100
        assert await world.storage.settle(second, "accepted")
        lag.waiting(await world.storage.overview())
        assert lag.now() == 0


async def test_clocks_that_disagree_show_in_readiness_which_stays(tmp_path: Path, machine: Machine) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        assert (await world.client.get("/readyz")).json() == {"ok": True}
        with wrong(machine, -7_200):
            answer = await world.client.get("/readyz")
        assert answer.status_code == 200
        (warning,) = answer.json()["warnings"]
        assert warning["name"] == "clock"
        assert "7200 s behind the aggregator's" in warning["detail"]


@pytest.fixture
def command(tmp_path: Path, server: RedisServer | None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """`hubbub shuffler held` on the storage of a shuffler in this test."""
    monkeypatch.setenv("HUBBUB_SHUFFLER_STATE_DIR", str(tmp_path))
    if server is not None:
        client = server.client()
        client.flushall()  # the command takes no prefix
        client.close()
        monkeypatch.setenv("HUBBUB_SHUFFLER_STORAGE", server.url)
    return lambda *arguments, **more: CliRunner().invoke(hubbub, ["shuffler", "held", *arguments], **more)


def a_shuffler(tmp_path: Path, machine: Machine, server: RedisServer | None) -> World:
    return shuffler(tmp_path, machine, server, StubAggregator(), prefix="hubbub-shuffler")


async def test_the_operator_sees_offers_and_discards_what_is_held(
    tmp_path: Path, machine: Machine, server: RedisServer | None, command: Callable[..., Any]
) -> None:
    async with holding(a_shuffler(tmp_path, machine, server)) as world:
        sealed = await refused(world, machine, "unknown-key")
        (row,) = json.loads(command("list", "--json").stdout)
        assert {**row, "id": ""} == {
            "id": "",
            "metric": "dark_mode",
            "period": "2027-01-15T08:00Z",
            "reports": 5,
            "why": "unknown-key",
            "since": "2027-01-15T10:00Z",
            "until": "2027-01-22T10:00Z",
        }
        shown = command("list").stdout.splitlines()
        assert "15 Jan 2027, 08:00 UTC" in shown[2]  # dates for people
        assert [line.split()[0] for line in shown] == list(row)  # it fits no narrow terminal as a table
        assert shown[0].split()[1] == row["id"]
        world.aggregator.answers = [(409, "batch-too-late")]
        assert json.loads(command("offer", row["id"], "--json").stdout) == {"offered": 1}
        await world.batcher.tick()
        assert (await world.storage.overview()).held == {"batch-too-late": (5, 1)}
        assert command("discard", input="n\n").exit_code == 1
        assert command("discard", "no-such-id", "--yes").exit_code == 2
        assert (await world.storage.overview()).held
        done = command("discard", "--yes", row["id"])
        assert (done.exit_code, done.stderr) == (0, "1 discarded\n")
        overview = await world.storage.overview()
        assert (overview.held, overview.counts["dark_mode", "batch-too-late"]) == ({}, (5, 1))
        if server is None:
            assert not [each for each in sealed if each in files_of(tmp_path)]
        assert command("list").stdout == ""


async def test_an_operator_can_look_while_the_shuffler_is_stopped_and_is_told_where_there_is_none(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holding(shuffler(tmp_path, machine, None)) as world:
        await refused(world, machine, "unknown-key")
    monkeypatch.setenv("HUBBUB_SHUFFLER_STATE_DIR", str(tmp_path))
    listed = CliRunner().invoke(hubbub, ["shuffler", "held", "list", "--json"])
    assert [row["why"] for row in json.loads(listed.stdout)] == ["unknown-key"]
    elsewhere = CliRunner().invoke(hubbub, ["shuffler", "held", "list", "--state-dir", str(tmp_path / "none")])
    assert elsewhere.exit_code != 0
    assert not (tmp_path / "none").exists()
    mixed = CliRunner().invoke(hubbub, ["shuffler", "--port", "0", "held", "list"])
    assert "leave out those of the service" in mixed.output


def test_a_codebook_s_own_horizon_counts() -> None:
    short = codebook().compiled()
    assert isinstance(short["collection"], dict)
    assert short["collection"]["forward_horizon"] == 7 * DAY
    assert BODY.codebooks[0].forward_horizon == 7 * DAY
