"""The contract of every storage of the shuffler, tested on each of `BACKENDS`."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from hubbub_shuffler.batching.permute import stretch
from hubbub_shuffler.storage import (
    LONGEST_PAUSE,
    PIECE_BYTES,
    Arrivals,
    AsyncStorage,
    Bucket,
    BucketGone,
    Claim,
    Closed,
    HeldBatch,
    Plan,
    StorageError,
    Terms,
)
from hubbub_shuffler.storage.redis import layout_version
from hubbub_shuffler.storage.sqlite import schema
from tests.shuffler.backends import (
    BACKENDS,
    BUCKET,
    LEASE,
    OTHER,
    TERMS,
    Backend,
    all_of,
    batch_order,
    forgotten,
    look_random,
)
from tests.shuffler.storage_processes import bring_out, keep_adding
from tests.shuffler.world import NOW
from tests.support.clock import Clock
from tests.support.patience import PATIENCE

LATE = "period-closed"
NEWEST = 3
"""The layout of either backend."""

Open: TypeAlias = Callable[[], AsyncStorage]
"""Another handle on the same storage, as a second process has."""


@pytest.fixture
def clock() -> Clock:
    return Clock(0)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Backend:
    made: Backend = request.param(request, tmp_path, clock)
    return made


@pytest.fixture
def open_storage(backend: Backend) -> Open:
    return backend.open


@asynccontextmanager
async def opened(open_storage: Open) -> AsyncIterator[AsyncStorage]:
    storage = open_storage()
    try:
        yield storage
    finally:
        await storage.aclose()


def unique(count: int) -> list[bytes]:
    return [os.urandom(TERMS.size) for _ in range(count)]


def arrivals(sealed: list[bytes], bucket: Bucket = BUCKET) -> list[Arrivals]:
    return [Arrivals(bucket, TERMS, sealed)]


async def planned(storage: AsyncStorage, clock: Clock, sealed: list[bytes], parts: int = 1) -> Plan:
    await storage.add(arrivals(sealed))
    clock.now = TERMS.closes_at
    await storage.close((), due=clock.now)
    plan = Plan(tuple(os.urandom(16) for _ in range(parts)), os.urandom(32), len(sealed), 0)
    assert await storage.plan(BUCKET, plan)
    return plan


async def test_what_was_added_is_read_back_whole(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        sealed = unique(50)
        for each in sealed:
            assert await storage.add(arrivals([each])) == {}
        clock.now = TERMS.closes_at
        assert await storage.close((), due=clock.now) == [Closed(BUCKET, TERMS, early=False)]
        assert sorted(await all_of(storage)) == sorted(sealed)
        assert sorted(await all_of(storage)) == sorted(sealed)  # as often as one likes
        assert await storage.seed(BUCKET) is None


async def test_reports_are_not_read_in_the_order_of_their_arrival(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        singles, together = unique(20), unique(20)
        for each in singles:
            await storage.add(arrivals([each]))
        await storage.add(arrivals(together, OTHER))
        clock.now = TERMS.closes_at
        await storage.close((), due=clock.now)
        # Each is the order of arrival by chance once in 20! = 2.4e18.
        assert await all_of(storage) != singles
        assert await all_of(storage, OTHER) != together


async def test_what_is_stored_does_not_predict_the_order_of_arrival(open_storage: Open, clock: Clock) -> None:
    """Of single reports, one group commit each: the two correlations together fail by chance once in 4 million."""
    async with opened(open_storage) as storage:
        sealed = unique(500)
        for each in sealed:
            await storage.add(arrivals([each]))
        clock.now = TERMS.closes_at
        await storage.close((), due=clock.now)
        look_random([sealed.index(each) for each in await all_of(storage)])


async def test_a_due_bucket_refuses_and_the_others_of_the_same_commit_are_kept(
    open_storage: Open, clock: Clock
) -> None:
    async with opened(open_storage) as storage:
        clock.now = TERMS.closes_at
        later = Terms("theme", 64, 2_000, 2)
        kept = unique(3)
        late = await storage.add([*arrivals(unique(2)), Arrivals(OTHER, later, kept)])
        assert late == {BUCKET: LATE}
        clock.now = later.closes_at
        assert await storage.close((), due=clock.now) == [Closed(OTHER, later, early=False)]
        assert sorted(await all_of(storage, OTHER)) == sorted(kept)


async def test_a_closed_bucket_stays_closed_whatever_the_clock_says_later(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await storage.add(arrivals(unique(2)))
        clock.now = TERMS.closes_at
        await storage.close((), due=clock.now)
        clock.now = 0
        assert await storage.add(arrivals(unique(1))) == {BUCKET: LATE}
        again = open_storage()
        assert await again.add(arrivals(unique(1))) == {BUCKET: LATE}
        await again.aclose()


async def test_a_bucket_that_was_settled_and_deleted_stays_closed(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")
        await forgotten(storage)
        clock.now = 0
        assert await storage.add(arrivals(unique(1))) == {BUCKET: LATE}


async def test_a_revoked_key_closes_its_bucket_before_time_and_no_other(open_storage: Open) -> None:
    async with opened(open_storage) as storage:
        await storage.add([*arrivals(unique(2)), *arrivals(unique(2), OTHER)])
        assert await storage.close({OTHER.key}) == [Closed(OTHER, TERMS, early=True)]
        assert await storage.close(()) == [Closed(OTHER, TERMS, early=True)]
        assert await storage.add([*arrivals(unique(1)), *arrivals(unique(1), OTHER)]) == {OTHER: "revoked-key"}


async def test_a_metric_that_is_switched_off_closes_its_buckets_before_time_and_no_other(open_storage: Open) -> None:
    async with opened(open_storage) as storage:
        off = Bucket(b"m" * 16, 7, 1)
        await storage.add([*arrivals(unique(2)), *arrivals(unique(2), off)])
        assert await storage.close((), {off.metric, bytes([9] * 16)}) == [Closed(off, TERMS, early=True)]
        assert await storage.close(()) == [Closed(off, TERMS, early=True)]
        assert await storage.add([*arrivals(unique(1)), *arrivals(unique(1), off)]) == {off: "metric-disabled"}


async def test_of_two_who_write_what_periods_are_held_to_the_second_has_to_read_again(open_storage: Open) -> None:
    async with opened(open_storage) as storage:
        other_process = open_storage()
        assert await storage.held_periods() == b""
        assert await storage.hold_periods(b"", b"one")
        assert not await other_process.hold_periods(b"", b"two")
        assert await other_process.held_periods() == b"one"
        assert await other_process.hold_periods(b"one", b"two")
        assert await other_process.hold_periods(b"one", b"two")  # as when an answer was lost, and it is sent again
        assert not await storage.hold_periods(b"one", b"three")
        assert await storage.held_periods() == b"two"
        await other_process.aclose()


async def test_a_crowd_has_halved_if_it_is_below_half_of_the_last_period_s(open_storage: Open) -> None:
    async with opened(open_storage) as storage:
        assert not await storage.halved("theme", 5, 100)  # the first
        assert not await storage.halved("theme", 6, 50)
        assert not await storage.halved("dark_mode", 7, 1)  # another's
        assert await storage.halved("theme", 8, 24)
        assert not await storage.halved("theme", 8, 1)  # noted already
        assert not await storage.halved("theme", 7, 1)  # an older one that was planned late
        again = open_storage()
        assert await again.halved("theme", 9, 11)
        assert not await again.halved("theme", 10, 6)
        assert (await again.overview()).counts == {("theme", "halved"): (0, 2)}
        await again.aclose()


async def test_a_report_racing_the_close_is_in_the_bucket_or_refused(open_storage: Open) -> None:
    async with opened(open_storage) as storage:
        other_process = open_storage()
        taken: list[bytes] = []
        refused: list[bytes] = []

        async def keep_adding() -> None:
            while not refused:
                (each,) = unique(1)
                (refused if await storage.add(arrivals([each])) else taken).append(each)

        async def close_meanwhile() -> list[bytes]:
            while len(taken) < 20:
                await asyncio.sleep(0)
            await other_process.close({BUCKET.key})
            return await all_of(other_process)

        _, found = await asyncio.gather(keep_adding(), close_meanwhile())
        assert sorted(found) == sorted(taken)
        await other_process.aclose()


@pytest.mark.everyday
@pytest.mark.parametrize(("commits", "reports"), [(3, 20_000), (700, 3)], ids=["large", "many"])
async def test_a_bucket_is_read_in_pieces_of_bounded_size(
    open_storage: Open, clock: Clock, commits: int, reports: int
) -> None:
    async with opened(open_storage) as storage:
        terms = Terms("theme", 200, 1_000, 2)
        for _ in range(commits):
            body = os.urandom(200 * reports)
            sealed = [body[at : at + 200] for at in range(0, len(body), 200)]
            await storage.add([Arrivals(BUCKET, terms, sealed)])
        clock.now = terms.closes_at
        await storage.close((), due=clock.now)
        sizes, found = [], set[bytes]()
        async for piece in storage.read(BUCKET):
            sizes.append(len(piece))
            found |= {piece[at : at + 200] for at in range(0, len(piece), 200)}
        assert max(sizes) <= PIECE_BYTES
        assert sum(sizes) == commits * reports * 200
        assert len(found) == commits * reports
        await storage.plan(BUCKET, Plan((os.urandom(16),), b"", len(found), 0, discard=True))
        await forgotten(storage)  # the server is others' too


async def test_what_is_not_closed_or_not_there_any_more_is_not_read_in_part(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        with pytest.raises(BucketGone):
            await all_of(storage)
        await storage.add(arrivals(unique(1)))
        with pytest.raises(BucketGone):
            await all_of(storage)
        await planned(storage, clock, [os.urandom(TERMS.size) for _ in range(20_000)])
        reader = storage.read(BUCKET)
        assert await anext(reader)
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")
        await forgotten(storage)
        with pytest.raises(BucketGone):
            async for _ in reader:
                pass
        assert await storage.seed(BUCKET) is None


async def test_only_one_of_two_plans_is_kept(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        plan = await planned(storage, clock, unique(3))
        other = Plan((os.urandom(16),), os.urandom(32), 3, 0)
        assert not await storage.plan(BUCKET, other)
        assert await storage.seed(BUCKET) == plan.seed
        claim = await storage.claim(LEASE)
        assert claim
        assert (claim.batch.id,) == plan.ids


async def test_two_workers_never_hold_the_same_batch(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        other_process = open_storage()
        plan = await planned(storage, clock, unique(40), parts=10)
        workers = [storage, other_process] * 10
        claims = await asyncio.gather(*(worker.claim(LEASE) for worker in workers))
        held = [claim.batch.id for claim in claims if claim]
        assert sorted(held) == sorted(plan.ids)
        await other_process.aclose()


async def test_an_abandoned_batch_comes_back_under_the_same_id_membership_and_order(
    open_storage: Open, clock: Clock
) -> None:
    async def bodies(storage: AsyncStorage) -> dict[bytes, list[bytes]]:
        found = {}
        while claim := await storage.claim(LEASE):
            seed = await storage.seed(claim.batch.bucket)
            assert seed
            distinct = batch_order(await all_of(storage), seed)
            members = distinct[stretch(len(distinct), claim.batch.part, claim.batch.parts)]
            assert len(members) == claim.batch.reports
            found[claim.batch.id] = members
        return found

    async with opened(open_storage) as storage:
        await planned(storage, clock, unique(30), parts=2)
        before = await bodies(storage)
        assert await storage.claim(LEASE) is None
        clock.now += LEASE
        assert await bodies(storage) == before
        assert len(before) == 2


@pytest.mark.parametrize(
    "late_act",
    [
        lambda storage, claim: storage.settle(claim, "accepted"),
        lambda storage, claim: storage.postpone(claim, 0.0, sent=True),
        lambda storage, claim: storage.extend(claim, LEASE),
    ],
    ids=["settle", "postpone", "extend"],
)
async def test_a_worker_that_lost_its_lease_changes_nothing(
    open_storage: Open, clock: Clock, late_act: Callable[[AsyncStorage, object], Awaitable[bool]]
) -> None:
    async with opened(open_storage) as storage:
        await planned(storage, clock, unique(3))
        paused = await storage.claim(LEASE)
        clock.now += LEASE
        new = await storage.claim(LEASE)
        assert new
        before = await storage.overview()
        assert not await late_act(storage, paused)
        assert await storage.overview() == before
        assert await storage.settle(new, "accepted")


async def test_a_settled_batch_never_comes_back(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")
        assert not await storage.settle(claim, "accepted")
        clock.now += 10 * LEASE
        assert await storage.claim(LEASE) is None
        assert await storage.close((), due=clock.now) == []
        assert (await storage.overview()).counts["theme", "accepted"] == (3, 1)


async def test_a_postponed_batch_comes_back_when_its_time_has_come(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
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


async def test_a_pause_is_kept_to_its_end_however_long_it_may_be(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LONGEST_PAUSE)
        assert claim
        assert await storage.claim(LEASE) is None
        assert await storage.postpone(claim, LONGEST_PAUSE, sent=False)
        clock.now += LONGEST_PAUSE - 1
        assert await storage.claim(LEASE) is None
        clock.now += 1
        assert await storage.claim(LEASE)


async def test_a_lease_is_extended_from_now_on(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LEASE)
        assert claim
        clock.now += LEASE - 1
        assert await storage.extend(claim, LEASE)
        clock.now += LEASE - 1
        assert await storage.claim(LEASE) is None
        clock.now += 1
        again = await storage.claim(LEASE)
        assert again
        assert again.batch == claim.batch  # no attempt was counted, nothing sent


async def test_a_batch_that_a_wrong_clock_put_off_comes_back(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await planned(storage, clock, unique(3))
        clock.now += 10 * LONGEST_PAUSE
        assert await storage.claim(LEASE)
        clock.now -= 10 * LONGEST_PAUSE
        assert await storage.claim(LEASE)


@pytest.mark.parametrize("offset", [sign * far for far in (8, 7_200, 5 * 86_400, 400 * 86_400) for sign in (1, -1)])
async def test_a_clock_that_is_set_for_a_minute_delays_a_batch_and_changes_nothing_else(
    open_storage: Open, clock: Clock, offset: float
) -> None:
    """Leases lapse early or last long: the batch is sent again at worst, and one who lost it settles nothing."""
    async with opened(open_storage) as storage:
        clock.now = NOW  # so that it can be set back
        later = Terms("theme", 64, NOW + 10, 2)
        await storage.add([Arrivals(BUCKET, later, unique(3))])
        clock.now += 10
        await storage.close((), due=clock.now)
        assert await storage.plan(BUCKET, Plan((os.urandom(16),), os.urandom(32), 3, 0))
        first = await storage.claim(LEASE)
        clock.now += offset
        second = await storage.claim(LEASE)
        clock.now += 60 - offset
        third = await storage.claim(LEASE)
        claims = [claim for claim in (first, second, third) if claim]
        waited = 0.0
        while claims == [first] or not third:
            clock.now += LEASE
            waited += LEASE
            assert waited <= LONGEST_PAUSE + 2 * LEASE
            if third := await storage.claim(LEASE):
                claims.append(third)
        assert not await storage.settle(claims[0], "accepted")
        assert await storage.settle(claims[-1], "accepted")
        assert (await storage.overview()).counts["theme", "accepted"] == (3, 1)


async def held_back(storage: AsyncStorage, clock: Clock, sealed: list[bytes], parts: int = 1) -> list[Claim]:
    """Planned, refused and held."""
    await planned(storage, clock, sealed, parts)
    claims = []
    for _ in range(parts):
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.hold_back(claim, "unknown-key", since=3_600, until=90_000, seconds=600)
        claims.append(claim)
    return claims


async def test_what_is_held_waits_and_comes_back(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        (claim,) = await held_back(storage, clock, unique(3))
        assert not await storage.settle(claim, "accepted")  # it was given back
        overview = await storage.overview()
        assert (overview.batches, overview.held) == ({"planned": 0, "sent": 0}, {"unknown-key": (3, 1)})
        assert [bucket.reports for bucket in overview.waiting] == [3]
        assert await storage.held_batches() == [
            HeldBatch(claim.batch.id, "theme", BUCKET.period, 3, "unknown-key", 3_600, 90_000)
        ]
        assert await storage.claim(LEASE) is None
        clock.now += 600
        again = await storage.claim(LEASE)
        assert again
        assert again.batch == replace(claim.batch, attempts=1, held="unknown-key", until=90_000)
        assert await storage.hold_back(again, "batch-too-late", since=7_200, until=95_000, seconds=600)
        assert (await storage.held_batches())[0][4:] == ("batch-too-late", 3_600, 95_000)  # since it was held first
        clock.now += 600
        last = await storage.claim(LEASE)
        assert last
        assert await storage.settle(last, "accepted")
        overview = await storage.overview()
        assert (overview.held, overview.counts["theme", "accepted"]) == ({}, (3, 1))
        assert not await storage.held_batches()


async def test_a_held_batch_that_is_taken_and_given_back_stays_held(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await held_back(storage, clock, unique(3))
        clock.now += 600
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.postpone(claim, 0.0, sent=True)
        again = await storage.claim(LEASE)
        assert again
        assert (again.batch.held, again.batch.sent) == ("unknown-key", True)
        assert (await storage.overview()).held == {"unknown-key": (3, 1)}


async def test_held_batches_are_offered_when_someone_says_so(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        one, two, three = [claim.batch.id for claim in await held_back(storage, clock, unique(9), parts=3)]
        other_process = open_storage()
        assert await other_process.offer([two, os.urandom(16)]) == 1
        claim = await storage.claim(LEASE)
        assert claim
        assert claim.batch.id == two
        assert await storage.claim(LEASE) is None
        assert await other_process.offer() == 2  # the other one is being offered
        assert {found.batch.id for _ in range(2) if (found := await storage.claim(LEASE))} == {one, three}
        assert await storage.claim(LEASE) is None
        await other_process.aclose()


async def test_an_operator_can_claim_what_is_held_and_nothing_else(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        plan = await planned(storage, clock, unique(3))
        assert await storage.claim_held(plan.ids[0], LEASE) is None
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.hold_back(claim, "unknown-key", since=0, until=0, seconds=600)
        assert await storage.claim_held(os.urandom(16), LEASE) is None
        other_process = open_storage()
        mine = await other_process.claim_held(plan.ids[0], LEASE)
        assert mine
        assert await storage.claim_held(plan.ids[0], LEASE) is None
        assert await storage.offer() == 0
        assert await other_process.settle(mine, mine.batch.held)
        assert (await storage.overview()).counts["theme", "unknown-key"] == (3, 1)
        await other_process.aclose()


async def test_nothing_is_closed_but_by_the_time_that_is_given(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await storage.add(arrivals(unique(2)))
        clock.now = 2 * TERMS.closes_at
        assert await storage.close(()) == []
        assert await storage.close((), due=TERMS.closes_at - 1) == []
        assert await storage.close((), due=TERMS.closes_at) == [Closed(BUCKET, TERMS, early=False)]


@pytest.mark.everyday
@pytest.mark.parametrize("discard", [False, True])
async def test_settled_and_discarded_reports_and_the_seed_are_gone_from_every_file(
    backend: Backend, clock: Clock, discard: bool
) -> None:
    """Also while another bucket lives on in the same files."""
    async with opened(backend.open) as storage:
        sealed, staying = unique(150), unique(150)
        later = Terms("theme", 64, 9_000, 2)
        for at in range(0, 150, 10):
            await storage.add([*arrivals(sealed[at : at + 10]), Arrivals(OTHER, later, staying[at : at + 10])])
        clock.now = TERMS.closes_at
        await storage.close((), due=clock.now)
        plan = Plan((os.urandom(16),), os.urandom(32), 150, 0, discard)
        assert await storage.plan(BUCKET, plan)
        if not discard:
            assert plan.seed in backend.files()
        assert sealed[0] in backend.files()
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")
        await forgotten(storage)

        left = backend.files()
        assert not [each for each in sealed if each[:16] in left or each[-16:] in left]
        assert plan.seed not in left
        assert all(each in left for each in staying)


async def test_deletion_that_a_crash_cut_short_is_finished_by_the_next_process(backend: Backend, clock: Clock) -> None:
    async with opened(backend.open) as storage:
        sealed = unique(100)
        await planned(storage, clock, sealed)
        claim = await storage.claim(LEASE)
        assert claim
        assert await storage.settle(claim, "accepted")  # and the process dies here
        again = backend.open()
        await forgotten(again)
        left = backend.files()
        assert not [each for each in sealed if each in left]
        await again.aclose()


async def test_a_closed_bucket_is_forgotten_only_after_its_time(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await planned(storage, clock, unique(3))
        claim = await storage.claim(LEASE)
        assert claim
        await storage.settle(claim, "accepted")
        clock.now = TERMS.closes_at + 5_000
        await forgotten(storage)  # one clock says so, and that is not enough
        await forgotten(storage, TERMS.closes_at + 4_999)
        assert await storage.add([Arrivals(BUCKET, Terms("theme", 64, 99_999, 2), unique(1))]) == {BUCKET: LATE}
        await forgotten(storage, TERMS.closes_at + 5_000)
        assert await storage.add([Arrivals(BUCKET, Terms("theme", 64, 99_999, 2), unique(1))]) == {}


async def test_the_counts_add_up(open_storage: Open, clock: Clock) -> None:
    async with opened(open_storage) as storage:
        await storage.add(arrivals(unique(5)))
        clock.now = TERMS.closes_at
        await storage.close((), due=clock.now)
        assert await storage.plan(BUCKET, Plan((os.urandom(16),), bytes(32), 4, 1, discard=True))
        counts = (await storage.overview()).counts
        assert counts["theme", "ingested"] == (5, 0)
        assert counts["theme", "duplicate"] == (1, 0)
        assert counts["theme", "discarded"] == (4, 1)


# -- versions -------------------------------------------------------------------------------------


async def fill(backend: Backend, sealed: list[bytes]) -> None:
    """As a process that took these and ended."""
    async with opened(backend.open) as storage:
        assert await storage.add(arrivals(sealed)) == {}


async def waiting(backend: Backend, clock: Clock) -> list[bytes]:
    """As the next process finds them when the bucket closes."""
    async with opened(backend.open) as storage:
        clock.now = TERMS.closes_at
        assert await storage.close((), due=clock.now) == [Closed(BUCKET, TERMS, early=False)]
        return sorted(await all_of(storage))


async def test_a_newer_versions_storage_is_refused_with_what_to_do_and_left_as_it_is(
    backend: Backend, clock: Clock
) -> None:
    sealed = unique(20)
    await fill(backend, sealed)
    ours = backend.version()
    backend.claim(ours + 1)
    with pytest.raises(StorageError, match=rf"newer version .*\(layout {ours + 1}; .* Install the newer version again"):
        backend.open()
    assert backend.version() == ours + 1
    backend.claim(ours)
    assert await waiting(backend, clock) == sorted(sealed)


async def test_a_storage_from_before_there_were_versions_is_taken_over_with_all_that_waits(
    backend: Backend, clock: Clock
) -> None:
    sealed = unique(20)
    await fill(backend, sealed)
    backend.claim(0)
    await fill(backend, sealed[:1])  # the first process of a version that marks it
    assert backend.version() == NEWEST
    assert await waiting(backend, clock) == sorted([*sealed, sealed[0]])


@pytest.mark.parametrize("before", [False, True], ids=["fresh", "from before"])
async def test_processes_that_start_at_once_agree_on_one_version(backend: Backend, clock: Clock, before: bool) -> None:
    sealed = unique(20) if before else []
    if before:
        await fill(backend, sealed)
        backend.claim(0)
    with ThreadPoolExecutor(8) as processes:
        handles = list(processes.map(lambda _: backend.open(), range(8)))
    assert backend.version() == NEWEST

    for handle in handles:
        await handle.add(arrivals(more := unique(1)))
        sealed.extend(more)
    for handle in handles:
        await handle.aclose()
    assert await waiting(backend, clock) == sorted(sealed)


@pytest.mark.parametrize("marked", [1, 0], ids=["marked", "from before"])
async def test_a_later_version_can_bring_a_storage_up_to_date(
    backend: Backend, clock: Clock, monkeypatch: pytest.MonkeyPatch, marked: int
) -> None:
    sealed = unique(20)
    await fill(backend, sealed)
    backend.claim(marked)
    upgraded: list[object] = []
    later = "CREATE TABLE later (what TEXT); INSERT INTO later VALUES ('new')"
    monkeypatch.setattr(schema, "VERSION", NEWEST + 1)  # as that version would have it
    monkeypatch.setitem(schema.UPGRADES, NEWEST, later)
    monkeypatch.setattr(layout_version, "LAYOUT", NEWEST + 1)
    monkeypatch.setitem(layout_version.UPGRADES, NEWEST, lambda _client, keys: upgraded.append(keys))
    await fill(backend, [])
    assert backend.version() == NEWEST + 1
    await fill(backend, [])  # once is enough: the table is not made again
    if not backend.where.startswith("redis"):
        with closing(sqlite3.connect(backend.where)) as database:
            upgraded += database.execute("SELECT what FROM later")
    assert len(upgraded) == 1
    assert await waiting(backend, clock) == sorted(sealed)
    monkeypatch.undo()
    with pytest.raises(StorageError, match="newer version"):
        backend.open()


async def test_batches_of_the_last_layout_are_taken_over(backend: Backend, clock: Clock) -> None:
    async with opened(backend.open) as storage:
        await planned(storage, clock, unique(4), parts=2)
        claim = await storage.claim(LEASE)
        assert claim
        await storage.settle(claim, "accepted")
    backend.claim(2)
    async with opened(backend.open) as storage:
        assert (await storage.overview()).held == {}
        claim = await storage.claim(LEASE)
        assert claim
        assert (claim.batch.reports, claim.batch.held, claim.batch.until) == (2, "", 0)
        assert await storage.hold_back(claim, "unknown-key", since=0, until=0, seconds=0)
        assert (await storage.overview()).held == {"unknown-key": (2, 1)}
    assert backend.version() == NEWEST


def test_processes_that_add_while_another_closes_and_forwards_lose_and_double_nothing(
    backend: Backend, tmp_path: Path
) -> None:
    """Real processes: two take reports until the bucket is closed under their hands, a third brings it out."""
    bucket, terms = Bucket(os.urandom(16), 7, 99), Terms("theme", 64, 2**33, 2)
    spawn = multiprocessing.get_context("spawn")
    results = [tmp_path / "first", tmp_path / "second", tmp_path / "delivered"]
    works = (keep_adding, keep_adding, bring_out)
    processes = [
        spawn.Process(target=work, args=(backend.where, bucket, terms, result), daemon=True)
        for work, result in zip(works, results, strict=True)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
        assert process.exitcode == 0
    first, second, delivered = (
        [raw[at : at + 64] for at in range(0, len(raw), 64)] for raw in map(Path.read_bytes, results)
    )
    assert Counter(delivered) == Counter(first + second)
