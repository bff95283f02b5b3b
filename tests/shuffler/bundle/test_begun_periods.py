"""Begun periods: they keep the metrics and the key that they began with, and no bundle can split their crowds."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.bundle import BundledCodebook, SealingKey
from hubbub.bundle_body import Body
from hubbub.canonical import canonical_bytes
from hubbub.codebook import Codebook
from hubbub.errors import ChangedPeriod
from hubbub.trust_anchor import base64_text
from hubbub.wire import REPORTS_TYPE
from hubbub_shuffler.bundle.begun_periods import NOTHING_HELD, Held, HeldKey, Said, Stretch
from hubbub_shuffler.storage import StorageError
from tests.shuffler.backends import BACKENDS, Backend
from tests.shuffler.world import (
    CLOSES,
    HOUR,
    KEYS,
    METRIC,
    NOW,
    PERIOD,
    SEALED,
    TRUST,
    StubAggregator,
    World,
    codebook,
    key,
    signed,
    toml,
    unique,
    upload,
)
from tests.support.clock import Clock
from tests.support.codebooks import IDENTITY
from tests.support.patience import PATIENCE, within

NEXT = PERIOD + 1


def edited(epsilon: str) -> Codebook:
    """In which `dark_mode` has another epsilon, so another id."""
    text = toml().replace("epsilon = 1\n", f"epsilon = {epsilon}\n", 1)
    return Codebook.from_toml(text).with_min_batch(lambda _metric: 3)


EDITED = edited("1.5")


async def offered(world: World, raw: bytes) -> bool:
    """Whether a bundle is taken; one that is not leaves the one before it in force."""
    before = world.bundles.current
    world.aggregator.bundle = raw
    taken = await world.bundles.refresh()
    assert world.bundles.current is not None
    assert (world.bundles.current.raw == raw) == taken
    assert taken or world.bundles.current is before
    return taken


def without(name: str) -> Codebook:
    book = codebook()
    return replace(book, metrics=tuple(metric for metric in book.metrics if metric.name != name))


def switched(*off: str) -> Codebook:
    """With these metrics off, and the others on."""
    book = codebook()
    return replace(book, metrics=tuple(replace(metric, enabled=metric.name not in off) for metric in book.metrics))


# -- attacks ---------------------------------------------------------------------------------------


async def test_of_thirty_ids_of_one_name_only_that_of_the_period_s_codebook_is_admitted(tmp_path: Path) -> None:
    """Attack: partition by the time of fetching, through many live codebooks that one bundle has."""
    books = {PERIOD - 29 + at: edited(f"1.{at + 1:02}") for at in range(30)}

    async with World(tmp_path, StubAggregator(signed(books=books))) as world:
        ids = [book.metric("dark_mode").id for book in books.values()]
        assert len(set(ids)) == 30
        taken = [(await world.post(upload(unique(1), metric=each))).status_code == 202 for each in ids]
        assert taken == [False] * 29 + [True]


CHANGES = {
    "another id": (signed(NOW + 5, book=EDITED), "metric 'dark_mode' would have the id"),
    "another id from the running period on": (
        signed(NOW + 5, books={0: codebook(), PERIOD: EDITED}),
        f"instead of {METRIC.hex()}",
    ),
    "another id for a period in its grace": (
        signed(NOW + 5, books={0: EDITED, PERIOD: codebook()}),
        "1-15T07:00Z has begun",
    ),
    "a metric more": (signed(NOW + 5, book=codebook()), "it would get a metric 'theme'"),
    "a metric less": (signed(NOW + 5, book=without("theme")), "it would lose the metric 'theme'"),
    "a smaller crowd": (signed(NOW + 5, book=codebook(2)), "min_batch 2 instead of 3"),
    "a longer grace": (signed(NOW + 5, book=codebook(grace="2h")), "grace would be 7200 s instead of 3600 s"),
    "another length": (signed(NOW + 5, book=codebook(period="30m"), keys=()), "periods would get another length"),
    "no codebook": (signed(NOW + 5, first_period=NEXT), "no longer have a codebook"),
    "the key replaced": (
        signed(NOW + 5, keys=(key(4, PERIOD - 100, PERIOD), *KEYS[1:])),
        "key 1 would no longer be listed",
    ),
    "the key replaced under its id": (
        signed(NOW + 5, keys=(SealingKey(1, bytes([9] * 32), PERIOD - 100, PERIOD), *KEYS[1:])),
        "key 1 would be CQkJ",
    ),
    "the key of a period in its grace replaced": (
        signed(NOW + 5, keys=(key(1, PERIOD, PERIOD), key(4, PERIOD - 100, PERIOD - 1), *KEYS[1:])),
        "1-15T07:00Z has begun",
    ),
    "the key revoked and replaced": (
        signed(NOW + 5, keys=(key(1, PERIOD - 100, PERIOD, "revoked"), key(4, PERIOD, PERIOD), *KEYS[1:])),
        "it would get key 4 beside key 1",
    ),
    "a revoked key in use again": (
        signed(NOW + 5, keys=(key(1, PERIOD - 100, PERIOD - 2), KEYS[1], key(3, PERIOD - 1, PERIOD))),
        "has begun, and its key",
    ),
    "a revoked key that is listed no more": (signed(NOW + 5, keys=KEYS[:2]), "key 3 would no longer be listed"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_bundle_that_changes_a_begun_period_is_refused_counted_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: str
) -> None:
    raw, why = CHANGES[change]

    first = signed(book=without("theme")) if change == "a metric more" else signed()
    async with World(tmp_path, StubAggregator(first)) as world:
        assert not await offered(world, raw)
        assert not await offered(world, raw)
        assert world.bundles.refused["ChangedPeriod"] == 2
        said = [record.message for record in caplog.records if "ChangedPeriod" in record.message]
        assert len(said) == 1
        assert why in said[0]
        assert (await world.post(upload(unique(1)))).status_code == 202


async def test_a_codebook_with_a_name_twice_is_refused(tmp_path: Path) -> None:
    """Attack: two ids of one name in one codebook. `sign` would not do it; whoever has the identity can."""
    text = signed(NOW + 5).split(b"\n")[2]
    first = json.loads(text)["codebooks"][0]["codebook"]["metrics"][0]
    listed = canonical_bytes(first)
    assert listed in text
    twice = text.replace(listed, listed + b"," + canonical_bytes({**first, "id": "00" * 16}))
    signature = base64_text(IDENTITY.sign(b"hubbub-01 bundle\0" + twice))

    async with World(tmp_path) as world:
        assert not await offered(world, b"\n".join([b"hubbub-bundle 1", f"{TRUST[0]} {signature}".encode(), twice]))
        assert world.bundles.refused["MalformedBundle"] == 1


async def test_a_revoked_key_is_not_replaced_in_two_steps_either(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        revoked = key(1, PERIOD - 100, PERIOD, "revoked")
        assert await offered(world, signed(NOW + 1, keys=(revoked, *KEYS[1:])))
        assert not await offered(world, signed(NOW + 2, keys=KEYS[1:]))  # first drop it
        assert not await offered(world, signed(NOW + 3, keys=(key(4, PERIOD, PERIOD), *KEYS[1:])))
        assert not await offered(world, signed(NOW + 4))  # or bring it back
        assert (await world.post(upload(unique(1), key_id=4))).json()["failures"][0]["reason"] == "unknown-key"


async def test_a_restart_forgets_nothing_of_what_begun_periods_are_held_to(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        (tmp_path / "bundle").unlink()  # not even if there is no earlier bundle to compare with
        async with World(tmp_path, StubAggregator(signed(NOW + 5, book=EDITED)), world.clock) as again:
            assert again.bundles.current is None
            assert again.bundles.refused["ChangedPeriod"] == 1


# -- several processes on one storage ------------------------------------------------------------------


@pytest.fixture(params=BACKENDS)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    made: Backend = request.param(request, tmp_path, Clock(NOW))
    return made


def two(shared: Backend, tmp_path: Path, clock: Clock, one: bytes, other: bytes) -> tuple[World, World]:
    """Two processes on one storage, each with a state directory and an aggregator's answer of its own."""
    directories = tmp_path / "one", tmp_path / "other"
    for directory in directories:
        directory.mkdir()
    first, second = (
        World(directory, StubAggregator(raw), clock, shared.open())
        for directory, raw in zip(directories, (one, other), strict=True)
    )
    return first, second


async def test_processes_on_one_storage_cannot_be_served_different_bundles(shared: Backend, tmp_path: Path) -> None:
    first, second = two(shared, tmp_path, Clock(NOW), signed(), signed(NOW + 5, book=EDITED))

    async with first, second:
        assert first.bundles.current
        assert second.bundles.current is None
        assert (await second.post(upload(unique(1)))).status_code == 503
        second.aggregator.bundle = signed(NOW + 6)
        assert await second.bundles.refresh()
        assert (await second.post(upload(unique(1)))).status_code == 202


async def test_of_two_processes_the_first_in_a_new_period_says_what_it_is_held_to(
    shared: Backend, tmp_path: Path
) -> None:
    """Both bundles were good while the period had not begun. The one that comes second gives up its own."""
    clock, later = Clock(NOW), signed(NOW + 5, books={0: codebook(), NEXT: EDITED})
    first, second = two(shared, tmp_path, clock, signed(), later)

    async with first, second:
        clock.now = NEXT * HOUR
        new = EDITED.metric("dark_mode").id
        assert (await second.post(upload(unique(1), metric=new, period=NEXT, key_id=2))).status_code == 202
        answer = await first.post(upload(unique(1), period=NEXT, key_id=2))
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:hubbub:problem:no-bundle")
        assert first.bundles.refused["ChangedPeriod"] == 1
        first.aggregator.bundle = later
        assert await first.bundles.refresh()
        assert (await first.post(upload(unique(1), metric=new, period=NEXT, key_id=2))).status_code == 202
        waiting = (await first.storage.overview()).waiting
        assert [(each.name, each.reports) for each in waiting] == [("dark_mode", 2)]


async def test_a_process_with_the_bundle_from_before_a_revocation_does_not_use_the_key_again(
    shared: Backend, tmp_path: Path
) -> None:
    clock, keys = Clock(NOW), (key(1, PERIOD - 100, NEXT), KEYS[2])
    revoked = (key(1, PERIOD - 100, NEXT, "revoked"), KEYS[2])
    first, second = two(shared, tmp_path, clock, signed(keys=keys), signed(NOW + 5, keys=revoked))

    async with first, second:
        clock.now = NEXT * HOUR
        assert (await first.post(upload(unique(1), period=NEXT))).status_code == 503
        assert (await first.client.get("/readyz")).status_code == 503


async def test_no_report_is_taken_before_its_period_is_held(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.clock.now = NEXT * HOUR

        async def locked() -> bytes:
            raise StorageError("database is locked")

        found, world.storage.held_periods = world.storage.held_periods, locked  # type: ignore[method-assign]  # a file that someone else holds
        answer = await world.post(upload(unique(1), period=NEXT, key_id=2))
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:hubbub:problem:overloaded")
        world.storage.held_periods = found  # type: ignore[method-assign]  # it answers again
        assert (await world.post(upload(unique(1), period=NEXT, key_id=2))).status_code == 202
        held = Held.from_bytes(await world.storage.held_periods())
        assert held.stretches[-1].last == NEXT
        assert not await offered(world, signed(NOW + 5, books={0: codebook(), NEXT: EDITED}))


@pytest.mark.parametrize("answers", [True, False], ids=["a storage that answers", "a storage that does not"])
async def test_uploads_that_come_together_when_a_period_begins_ask_the_storage_once(
    tmp_path: Path, answers: bool
) -> None:
    async with World(tmp_path) as world:
        asked, found = 0, world.storage.held_periods

        async def counted() -> bytes:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0.1)  # until all have come
            if not answers:
                raise StorageError("timeout")
            return await found()

        world.storage.held_periods = counted  # type: ignore[method-assign]  # to count
        world.clock.now = NEXT * HOUR
        bodies = [upload(unique(1), period=NEXT, key_id=2) for _ in range(20)]
        got = await asyncio.gather(*(world.post(body) for body in bodies))
        assert {answer.status_code for answer in got} == {202 if answers else 503}
        assert asked == 1


async def test_a_body_that_takes_until_the_next_period_brings_no_report_of_it(tmp_path: Path) -> None:
    """It was let in before the period began, so nothing holds that one yet."""
    async with World(tmp_path) as world:

        async def slow() -> AsyncIterator[bytes]:
            body = upload(unique(1), period=NEXT, key_id=2)
            yield body[:10]
            world.clock.now = NEXT * HOUR
            yield body[10:]

        answer = await world.client.post("/v1/reports", content=slow(), headers={"Content-Type": REPORTS_TYPE})
        assert answer.json()["failures"][0]["reason"] == "period-in-future"


# -- what may change ---------------------------------------------------------------------------------


async def test_what_has_not_begun_may_change(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        assert await offered(world, signed(NOW + 1, books={0: codebook(), NEXT: EDITED}))
        assert await offered(world, signed(NOW + 2, keys=(KEYS[0], key(5, NEXT, NEXT), KEYS[2])))
        world.clock.now = NEXT * HOUR - 60  # from here on reports of the next period are taken
        assert not await offered(world, signed(NOW + 3, books={0: codebook(), NEXT: EDITED}))


async def test_what_is_closed_may_change(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        raw = signed(NOW + 1, books={0: EDITED, PERIOD + 1: codebook()}, keys=(key(2, PERIOD + 1, PERIOD + 100),))
        world.clock.now = CLOSES - 1
        assert not await offered(world, raw)
        world.clock.now = CLOSES
        assert await offered(world, raw)


async def test_a_revocation_in_a_running_period_discards_what_waits_and_ends_it_for_the_period(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        await world.post(upload(unique(50)))
        revoked = (key(1, PERIOD - 100, PERIOD, "revoked"), key(4, NEXT, NEXT), KEYS[2])
        assert await offered(world, signed(NOW + 1, keys=revoked))
        await world.settle_all()
        assert [header.kind for header in world.aggregator.headers()] == ["discard"]
        assert world.aggregator.delivered() == []
        answer = await world.post(upload(unique(1)))
        assert answer.json()["failures"][0]["reason"] == "revoked-key"
        world.clock.now = NEXT * HOUR
        assert (await world.post(upload(unique(1), period=NEXT, key_id=4))).status_code == 202


@pytest.mark.parametrize("before", [(), (key(2, NEXT, NEXT),)], ids=["no key at all", "keys of later periods"])
async def test_a_period_that_had_no_key_may_get_one_and_then_no_other(
    tmp_path: Path, before: tuple[SealingKey, ...]
) -> None:
    async with World(tmp_path, StubAggregator(signed(keys=before))) as world:
        assert await offered(world, signed(NOW + 1, keys=(key(5, PERIOD, PERIOD), *before)))
        assert (await world.post(upload(unique(1), key_id=5))).status_code == 202
        assert not await offered(world, signed(NOW + 2, keys=(key(6, PERIOD, PERIOD), *before)))


async def test_a_restore_without_keys_ends_the_running_period_and_the_next_one_is_whole(tmp_path: Path) -> None:
    """Such an aggregator lists the keys that it lost as revoked, and new ones for periods that have not begun."""
    async with World(tmp_path) as world:
        await world.post(upload(unique(50)))
        lost = [replace(each, state="revoked") for each in KEYS]
        assert await offered(world, signed(NOW + 1, keys=(*lost, key(105, NEXT, NEXT + 9))))
        world.clock.now = NEXT * HOUR
        assert (await world.post(upload(unique(5), period=NEXT, key_id=105))).status_code == 202
        world.clock.now = CLOSES + HOUR
        await world.settle_all()
        assert sorted(header.count for header in world.aggregator.headers()) == [0, 5]


async def test_an_old_backup_is_refused_until_the_periods_that_it_does_not_know_are_closed(tmp_path: Path) -> None:
    """It has neither the newest codebook nor the newest keys. Its operator publishes that codebook again."""
    newest = signed(books={0: codebook(), NEXT: EDITED}, keys=(KEYS[0], key(2, NEXT, NEXT + 2)))
    async with World(tmp_path, StubAggregator(newest)) as world:
        world.clock.now = NEXT * HOUR  # begins under the newest bundle
        await world.bundles.hold()
        again = signed(
            NEXT * HOUR + 1, books={0: codebook(), NEXT + 1: EDITED}, keys=(KEYS[0], key(105, NEXT, NEXT + 100))
        )
        assert not await offered(world, again)
        for period in (NEXT + 1, NEXT + 2):
            world.clock.now = period * HOUR
            await world.bundles.hold()
            assert not await offered(world, again)
        world.clock.now = (NEXT + 4) * HOUR - 1  # the last period that had a key here is in its grace
        assert not await offered(world, again)
        world.clock.now += 1
        assert await offered(world, again)


async def test_a_bundle_that_expired_holds_no_period_that_began_after_it(tmp_path: Path) -> None:
    async with World(tmp_path, StubAggregator(signed(lifetime=600))) as world:
        world.clock.now = (PERIOD + 3) * HOUR  # all that began under it is closed
        assert world.bundles.current is None
        assert await offered(world, signed(world.clock.now, book=EDITED, keys=(key(9, 0, PERIOD + 9),)))


async def test_what_began_while_no_process_ran_begins_with_the_newest_bundle(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        world.clock.now = (PERIOD + 3) * HOUR
        changed = signed(world.clock.now, books={0: codebook(), PERIOD + 2: EDITED}, keys=(key(9, 0, PERIOD + 9),))
        again = World(tmp_path, StubAggregator(changed), world.clock)
        new = EDITED.metric("dark_mode").id
        answer = await again.post(
            upload(unique(1), metric=new, period=PERIOD + 3, key_id=9)
        )  # before it asked by itself
        assert answer.status_code == 202
        await again.__aexit__()


async def test_a_shuffler_without_an_earlier_bundle_takes_the_one_in_force(tmp_path: Path) -> None:
    async with World(tmp_path, StubAggregator(signed(books={0: codebook(), PERIOD: EDITED}))) as world:
        assert (await world.post(upload(unique(1), metric=EDITED.metric("dark_mode").id))).status_code == 202


@pytest.mark.parametrize("whose", ["the batcher's clock", "the next upload"])
async def test_switching_a_metric_off_acts_at_once_in_a_running_period(tmp_path: Path, whose: str) -> None:
    async with World(tmp_path) as world:
        await world.post(upload(unique(50)))
        assert await offered(world, signed(NOW + 1, book=switched("dark_mode", "old")))
        if whose == "the next upload":
            answer = await world.post(upload(unique(1)))
            assert answer.json()["failures"][0]["reason"] == "metric-disabled"
        await world.settle_all()
        assert [header.kind for header in world.aggregator.headers()] == ["discard"]
        assert world.aggregator.delivered() == []
        assert await offered(world, signed(NOW + 2))  # on again: the period is over for it all the same
        answer = await world.post(upload(unique(1)))
        assert answer.json()["failures"][0]["reason"] == "metric-disabled"


async def test_a_metric_may_be_switched_on_in_a_running_period(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        assert await offered(world, signed(NOW + 1, book=switched()))
        old = codebook().metric("old").id
        assert (await world.post(upload(unique(1, SEALED), metric=old))).status_code == 202


# -- when it is looked at ------------------------------------------------------------------------------


async def test_the_bundle_is_fetched_shortly_before_a_period_begins_and_when_it_does(tmp_path: Path) -> None:
    async with World(tmp_path) as world:
        begins = NEXT * HOUR - 60  # a clock may be ahead by so much
        world.clock.now = begins - 100
        assert world.bundles._pause(0) == 95  # max_age alone would say 300
        world.clock.now = begins - 5
        assert world.bundles._pause(0) == 5
        world.clock.now = begins
        assert world.bundles._pause(0) == 300
        await world.bundles.hold()
        assert world.bundles.held.until == begins + HOUR


async def test_an_overtaken_process_asks_again_at_once(shared: Backend, tmp_path: Path) -> None:
    clock, later = Clock(NOW), signed(NOW + 5, books={0: codebook(), NEXT: EDITED})
    first, second = two(shared, tmp_path, clock, signed(), later)

    async with first, second:
        sleeps = asyncio.Event()

        def pause(_failures: int) -> float:
            sleeps.set()
            return PATIENCE

        first.bundles._pause = pause  # type: ignore[method-assign, assignment]  # longer than the test waits
        job = asyncio.create_task(first.bundles.run())
        await sleeps.wait()
        clock.now = NEXT * HOUR
        await second.bundles.hold()
        first.aggregator.bundle = later
        await first.post(upload(unique(1), period=NEXT, key_id=2))  # it learns of it here, and sleeps no longer
        async with asyncio.timeout(PATIENCE / 2):
            while first.bundles.current is None or first.bundles.current.raw != later:
                await asyncio.sleep(0.01)
        job.cancel()


# -- the crowd -----------------------------------------------------------------------------------------


async def a_period(world: World, period: int, reports: int) -> None:
    world.clock.now = period * HOUR + 600
    if reports:
        key_id = 1 if period <= PERIOD else 2
        assert (await world.post(upload(unique(reports), period=period, key_id=key_id))).status_code == 202
    world.clock.now = (period + 2) * HOUR
    await world.settle_all()


async def test_a_crowd_below_half_of_the_last_one_is_a_warning_and_holds_nothing_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "hubbub_shuffler")

    async with World(tmp_path) as world:
        for period, reports in ((PERIOD, 100), (PERIOD + 2, 50), (PERIOD + 4, 24)):
            await a_period(world, period, reports)
        assert [record.message for record in caplog.records if "crowd" in record.message] == [
            "the crowd of dark_mode is below half of its last period's"
        ]
        assert (await world.storage.overview()).counts["dark_mode", "halved"] == (0, 1)
        assert sorted(header.count for header in world.aggregator.headers()) == [24, 50, 100]
        assert "halved" not in (await world.client.get("/v1/status")).text


async def test_a_revoked_bucket_is_no_crowd_that_fell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with World(tmp_path, clock=Clock((PERIOD - 1) * HOUR)) as world:
        await a_period(world, PERIOD - 1, 100)
        world.clock.now = PERIOD * HOUR + 600
        await world.post(upload(unique(10)))
        assert await offered(world, signed(NOW + 1, keys=(key(1, PERIOD - 100, PERIOD, "revoked"), *KEYS[1:])))
        await world.settle_all()
        assert "the crowd of" not in caplog.text
        await a_period(world, PERIOD + 2, 49)  # against the last that was whole
        assert caplog.text.count("the crowd of dark_mode is below half") == 1


# -- the record ------------------------------------------------------------------------------------------


def body(books: dict[int, Codebook], keys: tuple[SealingKey, ...]) -> Body:
    codebooks = tuple(BundledCodebook(start, book.compiled()) for start, book in books.items())
    return Body("photo-app", 1, NOW, NOW + 86_400, 600, codebooks, keys)


def test_the_record_has_one_stretch_for_periods_that_are_held_to_the_same() -> None:
    said = Said(body({0: codebook(), PERIOD: EDITED}, KEYS))
    held = said.held(NOTHING_HELD, PERIOD, NOW)
    first, second = held.stretches
    assert (first.first, first.last, second.first, second.last) == (PERIOD - 1, PERIOD - 1, PERIOD, PERIOD)
    assert first.codebook != second.codebook
    assert [listed.id for listed in first.keys] == [1, 3]
    assert second.keys[1] == HeldKey(3, "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM", revoked=True)
    assert Held.from_bytes(held.to_bytes()) == held
    after = said.held(held, PERIOD + 30, (PERIOD + 30) * HOUR)
    assert [(each.first, each.last) for each in after.stretches] == [(PERIOD + 29, PERIOD + 30)]


def test_switching_off_is_no_change_and_the_order_of_metrics_neither() -> None:
    book = codebook()
    turned = replace(switched("theme"), metrics=switched("theme").metrics[::-1])
    one, other = (Said(body({0: each}, KEYS)).held(NOTHING_HELD, PERIOD, NOW) for each in (book, turned))
    assert one == other


def test_a_clock_that_was_ahead_takes_nothing_back() -> None:
    said = Said(body({0: codebook()}, KEYS))
    held = said.held(NOTHING_HELD, PERIOD + 5, NOW)
    assert said.held(held, PERIOD, NOW) == held
    with pytest.raises(ChangedPeriod):
        Said(body({0: codebook(), PERIOD + 5: EDITED}, KEYS)).held(held, PERIOD, NOW)


def test_seconds_long_periods_with_a_long_grace_and_thousands_of_metrics_are_compared_quickly() -> None:
    """A million periods are open, under a hundred keys and two codebooks of 3,000 metrics."""
    document: Any = codebook(period="1s", grace="2w").compiled()
    one = document["metrics"][0]
    document["metrics"] = [{**one, "name": f"m{at}", "id": os.urandom(16).hex()} for at in range(3_000)]
    now, span = 2_000_000_000, 10_000
    keys = tuple(key(at, now - 10**6 + at * span, now - 10**6 + (at + 1) * span - 1) for at in range(101))
    codebooks = (BundledCodebook(0, document), BundledCodebook(now - 1_000, document))
    said = Said(Body("photo-app", 1, now, now + 9, 600, codebooks, keys))
    with within(1.0):
        held = said.held(NOTHING_HELD, now, now)
        assert said.held(held, now, now) == held
    assert len(held.stretches) == 102  # one key each, and the time before there were keys
    assert held.stretches[-1] == Stretch(
        now,
        now,
        held.stretches[0].codebook,
        14 * 86_400,
        (HeldKey(100, base64_text(bytes([100] * 32)), revoked=False),),
    )
