"""What every storage of the shuffler promises. A backend joins by being added to `BACKENDS`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from hubbub_shuffler.permute import ordered, part_of
from hubbub_shuffler.storage import LONGEST_PAUSE, Arrivals, Bucket, Closed, Contents, Plan, Storage, Terms
from hubbub_shuffler.storage.sqlite import SqliteStorage
from tests.shuffler.world import Clock, files_of

BUCKET = Bucket(bytes(16), 7, 1)
OTHER = Bucket(bytes(16), 7, 2)
TERMS = Terms("theme", 64, 1_000, 2)
LEASE = 60.0
LATE = "period-closed"

Open: TypeAlias = Callable[[], Storage]
"""Another handle on the same storage, as a second process has."""


def sqlite(directory: Path, clock: Clock) -> Storage:
    return SqliteStorage(directory / "reports.sqlite", clock=clock, entropy=os.urandom, forget_after=5_000)


BACKENDS = [pytest.param(sqlite, id="sqlite")]


@pytest.fixture
def clock() -> Clock:
    return Clock(0)


@pytest.fixture(params=BACKENDS)
def open_storage(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Open:
    return lambda: request.param(tmp_path, clock)


def run(open_storage: Open, scenario: Callable[[Storage], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        storage = open_storage()
        try:
            await scenario(storage)
        finally:
            await storage.aclose()

    asyncio.run(main())


def unique(count: int) -> list[bytes]:
    return [os.urandom(TERMS.size) for _ in range(count)]


def arrivals(sealed: list[bytes], bucket: Bucket = BUCKET) -> list[Arrivals]:
    return [Arrivals(bucket, TERMS, sealed)]


async def planned(storage: Storage, clock: Clock, sealed: list[bytes], parts: int = 1) -> Plan:
    await storage.add(arrivals(sealed))
    clock.now = TERMS.closes_at
    await storage.close(())
    plan = Plan(tuple(os.urandom(16) for _ in range(parts)), os.urandom(32), len(sealed), 0)
    assert await storage.plan(BUCKET, plan)
    return plan


def test_what_was_added_is_read_back_whole(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        sealed = unique(50)
        for each in sealed:
            assert await storage.add(arrivals([each])) == {}
        clock.now = TERMS.closes_at
        assert await storage.close(()) == [Closed(BUCKET, TERMS, revoked=False)]
        contents = await storage.read(BUCKET)
        assert sorted(contents.reports) == sorted(sealed)
        assert contents.seed is None

    run(open_storage, scenario)


def test_reports_are_not_read_in_the_order_of_their_arrival(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        singles, together = unique(20), unique(20)
        for each in singles:
            await storage.add(arrivals([each]))
        await storage.add(arrivals(together, OTHER))
        clock.now = TERMS.closes_at
        await storage.close(())
        # Each is the order of arrival by chance once in 20! = 2.4e18.
        assert (await storage.read(BUCKET)).reports != singles
        assert (await storage.read(OTHER)).reports != together

    run(open_storage, scenario)


def test_a_due_bucket_refuses_and_the_others_of_the_same_commit_are_kept(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        clock.now = TERMS.closes_at
        later = Terms("theme", 64, 2_000, 2)
        kept = unique(3)
        late = await storage.add([*arrivals(unique(2)), Arrivals(OTHER, later, kept)])
        assert late == {BUCKET: LATE}
        clock.now = later.closes_at
        assert await storage.close(()) == [Closed(OTHER, later, revoked=False)]
        assert sorted((await storage.read(OTHER)).reports) == sorted(kept)

    run(open_storage, scenario)


def test_a_closed_bucket_stays_closed_whatever_the_clock_says_later(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        await storage.add(arrivals(unique(2)))
        clock.now = TERMS.closes_at
        await storage.close(())
        clock.now = 0
        assert await storage.add(arrivals(unique(1))) == {BUCKET: LATE}
        again = open_storage()
        assert await again.add(arrivals(unique(1))) == {BUCKET: LATE}
        await again.aclose()

    run(open_storage, scenario)


def test_a_bucket_that_was_settled_and_deleted_stays_closed(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")
        assert await storage.forget()
        clock.now = 0
        assert await storage.add(arrivals(unique(1))) == {BUCKET: LATE}

    run(open_storage, scenario)


def test_a_revoked_key_closes_its_bucket_before_time_and_no_other(open_storage: Open) -> None:
    async def scenario(storage: Storage) -> None:
        await storage.add([*arrivals(unique(2)), *arrivals(unique(2), OTHER)])
        assert await storage.close({OTHER.key}) == [Closed(OTHER, TERMS, revoked=True)]
        assert await storage.close(()) == [Closed(OTHER, TERMS, revoked=True)]
        assert await storage.add([*arrivals(unique(1)), *arrivals(unique(1), OTHER)]) == {OTHER: "revoked-key"}

    run(open_storage, scenario)


def test_a_report_racing_the_close_is_in_the_bucket_or_refused(open_storage: Open) -> None:
    async def scenario(storage: Storage) -> None:
        other_process = open_storage()
        taken: list[bytes] = []
        refused: list[bytes] = []

        async def keep_adding() -> None:
            while not refused:
                (each,) = unique(1)
                (refused if await storage.add(arrivals([each])) else taken).append(each)

        async def close_meanwhile() -> Contents:
            while len(taken) < 20:
                await asyncio.sleep(0)
            await other_process.close({BUCKET.key})
            return await other_process.read(BUCKET)

        _, contents = await asyncio.gather(keep_adding(), close_meanwhile())
        assert sorted(contents.reports) == sorted(taken)
        await other_process.aclose()

    run(open_storage, scenario)


def test_only_one_of_two_plans_is_kept(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        plan = await planned(storage, clock, unique(3))
        other = Plan((os.urandom(16),), os.urandom(32), 3, 0)
        assert not await storage.plan(BUCKET, other)
        assert (await storage.read(BUCKET)).seed == plan.seed
        claim = await storage.claim(LEASE)
        assert claim
        assert (claim.batch.id,) == plan.ids

    run(open_storage, scenario)


def test_two_workers_never_hold_the_same_batch(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        other_process = open_storage()
        plan = await planned(storage, clock, unique(40), parts=10)
        workers = [storage, other_process] * 10
        claims = await asyncio.gather(*(worker.claim(LEASE) for worker in workers))
        held = [claim.batch.id for claim in claims if claim]
        assert sorted(held) == sorted(plan.ids)
        await other_process.aclose()

    run(open_storage, scenario)


def test_an_abandoned_batch_comes_back_under_the_same_id_membership_and_order(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        await planned(storage, clock, unique(30), parts=2)
        before = await bodies(storage)
        assert await storage.claim(LEASE) is None
        clock.now += LEASE
        assert await bodies(storage) == before
        assert len(before) == 2

    async def bodies(storage: Storage) -> dict[bytes, list[bytes]]:
        found = {}
        while claim := await storage.claim(LEASE):
            contents = await storage.read(claim.batch.bucket)
            assert contents.seed
            found[claim.batch.id] = list(
                part_of(ordered(contents.reports, contents.seed), claim.batch.part, claim.batch.parts)
            )
        return found

    run(open_storage, scenario)


@pytest.mark.parametrize(
    "late_act",
    [
        lambda storage, claim: storage.settle(claim, "accepted"),
        lambda storage, claim: storage.postpone(claim, 0.0, sent=True),
    ],
    ids=["settle", "postpone"],
)
def test_a_worker_that_lost_its_lease_changes_nothing(
    open_storage: Open, clock: Clock, late_act: Callable[[Storage, object], Awaitable[bool]]
) -> None:
    async def scenario(storage: Storage) -> None:
        await planned(storage, clock, unique(3))
        paused = await storage.claim(LEASE)
        clock.now += LEASE
        new = await storage.claim(LEASE)
        assert new
        before = await storage.overview()
        assert not await late_act(storage, paused)
        assert await storage.overview() == before
        assert await storage.settle(new, "accepted")

    run(open_storage, scenario)


def test_a_settled_batch_never_comes_back(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")
        assert not await storage.settle(claim, "accepted")
        clock.now += 10 * LEASE
        assert await storage.claim(LEASE) is None
        assert await storage.close(()) == []
        assert (await storage.overview()).counts["theme", "accepted"] == (3, 1)

    run(open_storage, scenario)


def test_a_postponed_batch_comes_back_when_its_time_has_come(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.postpone(claim, 10.0, sent=True)
        assert await storage.claim(LEASE) is None
        clock.now += 10
        again = await storage.claim(LEASE)
        assert again
        assert again.batch.id == claim.batch.id
        assert (again.batch.sent, again.batch.attempts) == (True, 1)

    run(open_storage, scenario)


def test_a_pause_is_kept_to_its_end_however_long_it_may_be(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LONGEST_PAUSE)
        assert claim
        assert await storage.claim(LEASE) is None
        assert await storage.postpone(claim, LONGEST_PAUSE, sent=False)
        clock.now += LONGEST_PAUSE - 1
        assert await storage.claim(LEASE) is None
        clock.now += 1
        assert await storage.claim(LEASE)

    run(open_storage, scenario)


@pytest.mark.parametrize("discard", [False, True])
def test_settled_and_discarded_reports_and_the_seed_are_gone_from_every_file(
    open_storage: Open, clock: Clock, tmp_path: Path, discard: bool
) -> None:
    """Also while another bucket lives on in the same files."""

    async def scenario(storage: Storage) -> None:
        sealed, staying = unique(400), unique(400)
        later = Terms("theme", 64, 9_000, 2)
        for at in range(0, 400, 10):
            await storage.add([*arrivals(sealed[at : at + 10]), Arrivals(OTHER, later, staying[at : at + 10])])
        clock.now = TERMS.closes_at
        await storage.close(())
        plan = Plan((os.urandom(16),), os.urandom(32), 400, 0, discard)
        assert await storage.plan(BUCKET, plan)
        if not discard:
            assert plan.seed in files_of(tmp_path)
        assert all(each in files_of(tmp_path) for each in sealed[:3])
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")
        assert await storage.forget()

        left = files_of(tmp_path)
        assert not [each for each in sealed if each[:16] in left or each[-16:] in left]
        assert plan.seed not in left
        assert all(each in left for each in staying)

    run(open_storage, scenario)


def test_deletion_that_a_crash_cut_short_is_finished_by_the_next_process(
    open_storage: Open, clock: Clock, tmp_path: Path
) -> None:
    async def scenario(storage: Storage) -> None:
        sealed = unique(100)
        await planned(storage, clock, sealed)
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")  # and the process dies here
        again = open_storage()
        assert await again.forget()
        assert not [each for each in sealed if each in files_of(tmp_path)]
        await again.aclose()

    run(open_storage, scenario)


def test_a_closed_bucket_is_forgotten_only_after_its_time(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LEASE)
        assert claim
        await storage.settle(claim, "accepted")
        clock.now = TERMS.closes_at + 4_999
        await storage.forget()
        assert await storage.add([Arrivals(BUCKET, Terms("theme", 64, 99_999, 2), unique(1))]) == {BUCKET: LATE}
        clock.now = TERMS.closes_at + 5_000
        await storage.forget()
        assert await storage.add([Arrivals(BUCKET, Terms("theme", 64, 99_999, 2), unique(1))]) == {}

    run(open_storage, scenario)


def test_the_counts_add_up(open_storage: Open, clock: Clock) -> None:
    async def scenario(storage: Storage) -> None:
        await storage.add(arrivals(unique(5)))
        clock.now = TERMS.closes_at
        await storage.close(())
        assert await storage.plan(BUCKET, Plan((os.urandom(16),), bytes(32), 4, 1, discard=True))
        counts = (await storage.overview()).counts
        assert counts["theme", "ingested"] == (5, 0)
        assert counts["theme", "duplicate"] == (1, 0)
        assert counts["theme", "discarded"] == (4, 1)

    run(open_storage, scenario)
