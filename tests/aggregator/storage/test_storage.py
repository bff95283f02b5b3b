"""The contract of every storage of the aggregator, tested on each backend of the fixture."""

from __future__ import annotations

import random
import sqlite3
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.wire import BatchHeader
from hubbub_aggregator.intake.deduplicate import Duplicates, distinct
from hubbub_aggregator.storage import (
    Accepted,
    Batch,
    KeyTaken,
    Release,
    SignedBundle,
    SqliteStorage,
    Storage,
    StorageError,
    StoredCodebook,
    StoredKey,
)
from tests.aggregator.backends import BACKENDS, Backend, Make, counted
from tests.aggregator.earlier_storages import NONCES, WAITING, file_of_schema_3
from tests.aggregator.earlier_storages import OTHER as OTHER_ID
from tests.support.patience import wait_for

METRIC, OTHER = b"m" * 16, b"o" * 16


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    make: Make = request.param
    return make(request, tmp_path)


@pytest.fixture
def storage(backend: Backend) -> Iterator[Storage]:
    storage = backend.open()
    yield storage
    storage.close()


def batch(number: int, metric: bytes = METRIC, period: int = 7, content: bytes = b"") -> Batch:
    name = number.to_bytes(16)
    return Batch(name, BatchHeader(metric, period, 3, 10, 70), content or name * 2, "pending", f"file-{number}")


def accepted(number: int, nonces: bytes = b"n" * 16) -> Accepted:
    return Accepted(9, {"cannot-open": 1}, b"tally", nonces, f'{{"id":{number}}}')


def test_a_batch_is_admitted_once_and_what_was_kept_first_stays(storage: Storage) -> None:
    first = storage.admit(batch(1))
    again = storage.admit(batch(1, content=b"another"))

    assert again == first == storage.batch(first.id)
    assert [b.id for b in storage.pending()] == [first.id]


def test_accepting_writes_verdict_release_and_nonces_together(storage: Storage) -> None:
    kept = storage.admit(batch(1))
    assert storage.accept(kept.id, 0, accepted(1)) == "accepted"

    after = storage.batch(kept.id)
    assert after is not None
    assert (after.state, after.valid, after.invalid, after.spool) == ("accepted", 9, {"cannot-open": 1}, None)
    assert counted(storage, METRIC, 7) == [b"n" * 16]
    (mark,) = storage.accepted(METRIC, 7)
    assert mark.startswith(kept.id)
    release = storage.release(kept.id)
    assert release is not None
    assert (release.metric, release.period, release.tally, release.record) == (METRIC, 7, b"tally", '{"id":1}')
    assert storage.pending() == []


@pytest.mark.parametrize("spread", ["evenly", "unevenly"])
def test_a_few_nonces_are_found_among_many(storage: Storage, spread: str) -> None:
    rng = random.Random(spread)
    prefix = b"" if spread == "evenly" else bytes(14)
    many = sorted({(prefix + rng.randbytes(16))[:16] for _ in range(5_000)} | {rng.randbytes(16) for _ in range(50)})
    kept, absent = many[::2], many[1::2]
    storage.accept(storage.admit(batch(1)).id, 0, accepted(1, b"".join(kept)))
    (mark,) = storage.accepted(METRIC, 7)
    assert storage.nonces(METRIC, 7, mark) == b"".join(kept)
    for some in ([], kept[:1], kept[-1:], rng.sample(kept, 300), absent[:1], absent[-1:], rng.sample(many, 700)):
        found = storage.among(METRIC, 7, mark, b"".join(sorted(some)))
        assert found == b"".join(sorted(set(some) & set(kept)))
    edges = [bytes(16), b"\xff" * 16]
    assert storage.among(METRIC, 7, mark, b"".join(edges)) == b"".join(edge for edge in edges if edge in kept)


def test_nothing_is_found_of_what_was_forgotten(storage: Storage) -> None:
    storage.add_key(StoredKey(0, 5, 8, b"p" * 32, b"s" * 32))
    storage.accept(storage.admit(batch(1)).id, 0, accepted(1))
    (mark,) = storage.accepted(METRIC, 7)
    assert storage.among(METRIC, 7, mark, b"n" * 16) == b"n" * 16
    storage.forget(8)
    assert storage.accepted(METRIC, 7) == [mark]
    assert storage.nonces(METRIC, 7, mark) == storage.among(METRIC, 7, mark, b"n" * 16) == b""


def test_it_says_how_much_room_it_takes(storage: Storage) -> None:
    size = storage.size()
    assert size is not None
    assert size > 1000


def test_of_two_workers_that_read_the_same_pair_only_one_is_accepted(storage: Storage) -> None:
    one, two = storage.admit(batch(1)), storage.admit(batch(2))
    assert storage.accept(one.id, 0, accepted(1)) == "accepted"
    assert storage.accept(two.id, 0, accepted(2)) == "outdated"

    assert storage.release(two.id) is None
    assert [b.id for b in storage.pending()] == [two.id]
    assert storage.accept(two.id, 2, accepted(2)) == "outdated"  # a version that was never there
    assert storage.accept(two.id, 1, accepted(2)) == "accepted"
    assert [mark[:16] for mark in storage.accepted(METRIC, 7)] == [one.id, two.id]
    assert [mark[:16] for mark in storage.accepted(METRIC, 7, 1)] == [two.id]
    assert storage.accepted(METRIC, 7, 2) == []


def test_a_batch_is_accepted_only_behind_the_one_that_it_was_judged_after(storage: Storage) -> None:
    """As many as then are not enough: others may be in their places after a failover."""
    one, two, three = (storage.admit(batch(number)) for number in (1, 2, 3))
    assert storage.accept(one.id, 0, accepted(1), b"a mark of another") == "outdated"
    assert storage.accept(one.id, 0, accepted(1), b"") == "accepted"
    (mark,) = storage.accepted(METRIC, 7)
    assert storage.accept(two.id, 1, accepted(2), b"") == "outdated"
    assert storage.accept(two.id, 1, accepted(2), b"a mark of another") == "outdated"
    assert storage.accept(two.id, 1, accepted(2), mark) == "accepted"
    assert storage.accept(three.id, 2, accepted(3), mark) == "outdated"
    assert storage.accept(three.id, 2, accepted(3), storage.accepted(METRIC, 7)[-1]) == "accepted"


def test_other_pairs_do_not_disturb(storage: Storage) -> None:
    one, two, three = (storage.admit(b) for b in (batch(1), batch(2, OTHER), batch(3, period=8)))
    assert {storage.accept(b.id, 0, accepted(1)) for b in (one, two, three)} == {"accepted"}


def test_a_verdict_never_changes(storage: Storage) -> None:
    one, two = storage.admit(batch(1)), storage.admit(batch(2))
    assert storage.refuse(one.id, "batch-too-small", 3, {})
    storage.accept(two.id, 0, accepted(2))

    assert storage.accept(one.id, 1, accepted(1)) == "settled"
    assert storage.accept(two.id, 1, accepted(2)) == "settled"
    assert storage.accept((9).to_bytes(16), 1, accepted(2)) == "settled"  # nobody knows it
    for name in (one.id, two.id, (9).to_bytes(16)):
        assert not storage.refuse(name, "batch-too-small", 3, {})

    refused, released = storage.batch(one.id), storage.batch(two.id)
    assert refused is not None
    assert released is not None
    assert (refused.state, refused.reason, refused.valid) == ("refused", "batch-too-small", 3)
    assert storage.release(one.id) is None
    assert released.state == "accepted"


def test_what_reading_a_refused_batch_cost_is_kept_with_its_verdict(backend: Backend, storage: Storage) -> None:
    for number, (metric, period) in enumerate([(METRIC, 8), (METRIC, 7), (OTHER, 7), (METRIC, 7)]):
        storage.admit(batch(number, metric, period))
        record = None if number == 3 else f'{{"id":{number}}}'  # it was not opened
        storage.refuse(number.to_bytes(16), "batch-too-small", 3, {}, record)
    storage.refuse((0).to_bytes(16), "batch-too-late", None, {}, '{"again":true}')  # settled already
    storage.refuse((9).to_bytes(16), "batch-too-small", 3, {}, '{"unknown":true}')

    places = [(1, METRIC, 7), (2, OTHER, 7), (0, METRIC, 8)]
    kept = [Release(n.to_bytes(16), metric, period, b"", f'{{"id":{n}}}') for n, metric, period in places]
    assert storage.opened_and_refused() == kept
    assert storage.releases() == storage.page(None, None, 9) == storage.expired() == []
    assert storage.release((1).to_bytes(16)) is None
    storage.expire(99)
    storage.forget(99)
    other = backend.open()
    assert other.opened_and_refused() == kept
    other.close()


def test_only_a_pending_batch_can_be_dropped_and_then_sent_again(storage: Storage) -> None:
    one, two = storage.admit(batch(1)), storage.admit(batch(2))
    storage.accept(two.id, 0, accepted(2))
    assert storage.drop(one.id, "file-1")
    assert not storage.drop(one.id, "file-1")
    assert not storage.drop(two.id, "file-2")

    assert storage.batch(one.id) is None
    assert storage.batch(two.id) is not None
    assert storage.admit(batch(1, content=b"another")).digest == b"another"


def test_a_batch_that_was_sent_again_is_not_dropped_for_the_body_that_it_had_before(storage: Storage) -> None:
    old = storage.admit(batch(1))
    assert storage.drop(old.id, "file-1")
    again = storage.admit(replace(old, spool="another-file"))
    assert not storage.drop(old.id, "file-1")  # by a process that stood still since
    assert storage.batch(old.id) == again
    assert storage.pending() == [again]


def test_releases_come_by_period_and_in_pages(storage: Storage) -> None:
    for number, period in [(1, 9), (2, 7), (3, 8), (4, 7)]:
        kept = storage.admit(batch(number, period=period))
        storage.accept(kept.id, len(storage.accepted(METRIC, period)), accepted(number))
    other = storage.admit(batch(5, OTHER))
    storage.accept(other.id, 0, accepted(5))

    assert [int.from_bytes(r.id) for r in storage.releases(METRIC)] == [2, 4, 3, 1]
    assert [int.from_bytes(r.id) for r in storage.releases(METRIC, 8, 9)] == [3, 1]
    first = storage.page(None, None, 2)
    second = storage.page(None, (first[-1].period, first[-1].id), 9)
    assert [int.from_bytes(r.id) for r in first + second] == [2, 4, 5, 3, 1]
    assert storage.spans() == {METRIC: (3, 7, 9), OTHER: (1, 7, 7)}


def test_revoking_erases_the_private_key_in_the_same_step(storage: Storage) -> None:
    storage.add_key(StoredKey(0, 5, 6, b"p" * 32, b"s" * 32))
    storage.add_key(StoredKey(1, 5, 6, b"q" * 32, b"t" * 32), instead_of=0)

    old, new = storage.sealing_keys()
    assert (old.id, old.revoked, old.private_key) == (0, True, None)
    assert (new.id, new.revoked, new.private_key) == (1, False, b"t" * 32)


def test_a_key_can_be_revoked_with_nothing_in_its_place(backend: Backend, storage: Storage) -> None:
    for number, secret in enumerate([b"SECRET-A" * 4, b"SECRET-B" * 4]):
        storage.add_key(StoredKey(number, 5 + number, 5 + number, b"p" * 32, secret))
    storage.revoke_key(0)
    storage.revoke_key(99)

    gone, live = storage.sealing_keys()
    assert gone == StoredKey(0, 5, 5, b"p" * 32, None, revoked=True)
    assert (live.private_key, live.revoked) == (b"SECRET-B" * 4, False)
    wait_for(storage.scrub)
    assert b"SECRET-A" not in backend.files()


def test_a_key_that_is_dropped_leaves_no_trace_and_frees_its_id(backend: Backend, storage: Storage) -> None:
    for number, secret in enumerate([b"SECRET-A" * 4, b"SECRET-B" * 4]):
        storage.add_key(StoredKey(number, 5 + number, 5 + number, b"p" * 32, secret))
    storage.drop_key(0)
    storage.drop_key(99)

    assert [key.id for key in storage.sealing_keys()] == [1]
    wait_for(storage.scrub)
    assert b"SECRET-A" not in backend.files()
    storage.add_key(StoredKey(0, 5, 5, b"q" * 32, b"u" * 32))
    assert [key.private_key for key in storage.sealing_keys()] == [b"u" * 32, b"SECRET-B" * 4]


@pytest.mark.parametrize(("id", "first", "last"), [(2, 6, 6), (2, 4, 5), (2, 8, 9), (2, 1, 20), (1, 20, 20)])
def test_a_key_whose_id_or_periods_are_taken_is_refused_and_changes_nothing(
    storage: Storage,
    id: int,  # noqa: A002  it is an id
    first: int,
    last: int,
) -> None:
    storage.add_key(StoredKey(0, 3, 3, b"p" * 32, b"s" * 32))
    storage.add_key(StoredKey(1, 5, 8, b"p" * 32, b"s" * 32))
    before = storage.sealing_keys()

    for instead_of in (None, 0):
        with pytest.raises(KeyTaken, match="try again"):
            storage.add_key(StoredKey(id, first, last, b"q" * 32, b"t" * 32), instead_of=instead_of)

    assert storage.sealing_keys() == before


def test_a_revoked_key_may_be_added_for_periods_that_have_a_live_one(storage: Storage) -> None:
    """As a restore does, with what the newest bundle lists."""
    storage.add_key(StoredKey(1, 5, 8, b"p" * 32, b"s" * 32))
    storage.add_key(StoredKey(2, 6, 7, b"q" * 32, None, revoked=True))
    assert [(key.id, key.revoked) for key in storage.sealing_keys()] == [(1, False), (2, True)]
    with pytest.raises(KeyTaken):
        storage.add_key(StoredKey(2, 20, 20, b"q" * 32, None, revoked=True))


def test_keys_and_nonces_are_forgotten_together_and_batch_ids_stay(storage: Storage) -> None:
    for number, (first, last) in enumerate([(5, 6), (7, 8), (9, 10)]):
        storage.add_key(StoredKey(number, first, last, b"p" * 32, b"s" * 32))
    for number, period in [(1, 6), (2, 7), (3, 9)]:
        storage.accept(storage.admit(batch(number, period=period)).id, 0, accepted(number))

    assert storage.forget(8)

    assert [key.first_period for key in storage.sealing_keys()] == [9]
    assert [len(counted(storage, METRIC, period)) for period in (6, 7, 9)] == [0, 0, 1]
    assert [len(storage.accepted(METRIC, period)) for period in (6, 7, 9)] == [1, 1, 1]
    assert storage.batch((1).to_bytes(16)) is not None
    assert storage.release((1).to_bytes(16)) is not None
    assert not storage.forget(8)


def test_nothing_is_forgotten_that_a_pending_batch_needs(storage: Storage) -> None:
    for number, (first, last) in enumerate([(5, 6), (7, 8)]):
        storage.add_key(StoredKey(number, first, last, b"p" * 32, b"s" * 32))
    storage.admit(batch(1, period=8))

    assert storage.forget(8)
    assert [key.first_period for key in storage.sealing_keys()] == [7]


def test_a_bundle_is_replaced_only_by_one_that_knew_it(storage: Storage) -> None:
    assert storage.bundle() is None
    assert storage.publish(SignedBundle(10, 1, b"c", b"raw"), None)
    assert not storage.publish(SignedBundle(11, 1, b"d", b"other"), None)
    assert storage.publish(SignedBundle(12, 1, b"d", b"other"), 10)
    assert storage.bundle() == SignedBundle(12, 1, b"d", b"other")


def test_metrics_are_switched_off_and_on_again_by_name(storage: Storage) -> None:
    assert storage.switched_off() == frozenset()
    for _ in range(2):
        storage.switch("theme", off=True)
    storage.switch("dark_mode", off=True)
    storage.switch("never", off=False)
    assert storage.switched_off() == {"theme", "dark_mode"}
    storage.switch("theme", off=False)
    assert storage.switched_off() == {"dark_mode"}


def test_codebooks_answers_and_counts_are_kept(storage: Storage) -> None:
    storage.add_codebook(StoredCodebook(5, b"one"))
    storage.add_codebook(StoredCodebook(7, b"two"))
    storage.remember("question", 142)
    storage.accept(storage.admit(batch(1)).id, 0, accepted(1))
    storage.refuse(storage.admit(batch(2)).id, "batch-too-small", 1, {"cannot-open": 4})

    assert storage.codebooks() == [StoredCodebook(5, b"one"), StoredCodebook(7, b"two")]
    assert (storage.remembered("question"), storage.remembered("other")) == (142, None)
    assert storage.starts() == [5, 7]
    assert storage.tallied() == {
        "batch:accepted": 1,
        "batch:refused": 1,
        "refused:batch-too-small": 1,
        "invalid:cannot-open": 5,
    }


def test_of_two_codebooks_for_the_same_period_the_first_stays(storage: Storage) -> None:
    assert storage.add_codebook(StoredCodebook(5, b"one"))
    assert not storage.add_codebook(StoredCodebook(5, b"two"))
    assert not storage.add_codebook(StoredCodebook(4, b"earlier"))
    assert storage.codebooks() == [StoredCodebook(5, b"one")]


def test_the_only_codebook_can_start_with_another_period(storage: Storage) -> None:
    assert not storage.move_codebook(5, 3)
    assert storage.add_codebook(StoredCodebook(5, b"one"))
    assert not storage.move_codebook(4, 3)
    assert storage.move_codebook(5, 3)
    assert storage.codebooks() == [StoredCodebook(3, b"one")]
    assert storage.add_codebook(StoredCodebook(7, b"two"))
    assert not storage.move_codebook(3, 2)
    assert storage.starts() == [3, 7]


def test_a_storage_with_a_clock_of_its_own_says_what_time_it_is(storage: Storage) -> None:
    found = storage.time()
    assert (found is None) is (storage.kind == "sqlite")
    assert found is None or abs(found - time.time()) < 60


def test_a_discard_is_settled_from_the_start_and_is_no_release(storage: Storage) -> None:
    name = (1).to_bytes(16)
    notice = Batch(name, BatchHeader(METRIC, 7, 3, kind="discard"), b"d" * 32, "accepted")
    for _ in range(2):
        assert storage.admit(notice) == notice
    assert (storage.batch(name), storage.pending(), storage.release(name)) == (notice, [], None)
    assert storage.tallied() == {"discard:accepted": 1}
    assert storage.releases() == []


def test_expired_releases_are_gone_and_their_batches_stay_known(storage: Storage) -> None:
    for number, period in [(1, 6), (2, 7), (3, 8)]:
        storage.accept(storage.admit(batch(number, period=period)).id, 0, accepted(number))

    assert storage.expire(8) == 2
    assert storage.expire(8) == 0

    assert [int.from_bytes(release.id) for release in storage.releases()] == [3]
    assert storage.release((1).to_bytes(16)) is None
    assert storage.spans() == {METRIC: (1, 8, 8)}
    again = storage.admit(batch(1, period=6))
    assert (again.state, again.valid) == ("accepted", 9)
    assert storage.tallied()["batch:accepted"] == 3


def test_the_records_of_expired_releases_stay_without_their_counts(backend: Backend, storage: Storage) -> None:
    for number, period in [(1, 7), (2, 6), (3, 8)]:
        given = Accepted(9, {}, b"TALLY-%d" % number, b"n" * 16, f'{{"id":{number}}}')
        storage.accept(storage.admit(batch(number, period=period)).id, 0, given)
    assert storage.expired() == []

    storage.expire(7)
    storage.expire(8)

    kept = [Release((n).to_bytes(16), METRIC, period, b"", f'{{"id":{n}}}') for n, period in [(2, 6), (1, 7)]]
    assert storage.expired() == kept
    other = backend.open()
    assert other.expired() == kept
    other.close()


def test_the_periods_of_discards_are_told(backend: Backend, storage: Storage) -> None:
    assert storage.discarded(METRIC, 0, 99) == {}
    for number, (metric, period) in enumerate([(METRIC, 5), (METRIC, 7), (METRIC, 7), (METRIC, 9), (OTHER, 8)]):
        notice = BatchHeader(metric, period, 3, kind="discard")
        storage.admit(Batch(number.to_bytes(16), notice, b"d" * 32, "accepted"))
    storage.accept(storage.admit(batch(10, period=6)).id, 0, accepted(10))
    storage.refuse(storage.admit(batch(11, period=6)).id, "batch-too-small", None, {})

    assert storage.discarded(METRIC, 0, 99) == dict.fromkeys((5, 7, 9))
    assert storage.discarded(METRIC, 6, 7) == {7: None}
    other = backend.open()
    assert other.discarded(OTHER, 8, 8) == {8: None}
    other.close()


def test_a_discard_keeps_its_reason_which_is_no_refusal(storage: Storage) -> None:
    notice = BatchHeader(METRIC, 7, 3, kind="discard")
    storage.admit(Batch((1).to_bytes(16), notice, b"d" * 32, "accepted", reason="revoked-key"))
    storage.admit(Batch((2).to_bytes(16), notice, b"d" * 32, "accepted"))
    assert storage.discarded(METRIC, 0, 99) == {7: "revoked-key"}
    assert storage.tallied() == {"discard:accepted": 2}


def test_everything_is_seen_by_another_handle(backend: Backend, storage: Storage) -> None:
    one, two, three = (storage.admit(batch(number)) for number in (1, 2, 3))
    storage.accept(one.id, 0, accepted(1))
    storage.refuse(two.id, "revoked-key", None, {})
    storage.add_key(StoredKey(0, 5, 6, b"p" * 32, b"s" * 32))

    other = backend.open()
    assert [b.id for b in other.pending()] == [three.id]
    assert other.accepted(METRIC, 7) == storage.accepted(METRIC, 7)
    assert counted(other, METRIC, 7) == counted(storage, METRIC, 7)
    assert other.releases() == storage.releases()
    assert other.sealing_keys() == storage.sealing_keys()
    assert other.tallied() == storage.tallied()
    other.check()
    other.close()
    with pytest.raises(StorageError):
        other.check()


def test_of_many_threads_that_accept_at_once_each_succeeds_once(storage: Storage) -> None:
    names = [storage.admit(batch(number)).id for number in range(8)]

    def settle(name: bytes) -> None:
        while storage.accept(name, len(storage.accepted(METRIC, 7)), accepted(0, name)) == "outdated":
            pass

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(settle, names * 2))
    assert [mark[:16] for mark in storage.accepted(METRIC, 7)] == counted(storage, METRIC, 7)
    assert sorted(counted(storage, METRIC, 7)) == sorted(names)
    assert len(storage.releases(METRIC)) == 8
    assert storage.tallied()["batch:accepted"] == 8


def test_what_was_kept_is_there_after_reopening_and_erased_keys_are_not(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    storage = SqliteStorage(path)
    storage.add_key(StoredKey(0, 5, 6, b"p" * 32, b"SECRET-A" * 4))
    storage.add_key(StoredKey(1, 7, 8, b"p" * 32, b"SECRET-B" * 4))
    kept = storage.admit(batch(1, period=5))
    storage.accept(kept.id, 0, accepted(1, b"NONCE-16-LETTERS"))
    storage.forget(6)
    storage.close()

    again = SqliteStorage(path)
    assert again.batch(kept.id) is not None
    assert [key.id for key in again.sealing_keys()] == [1]
    files = [file for file in tmp_path.iterdir() if file.is_file()]
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    everything = b"".join(file.read_bytes() for file in files)
    assert b"SECRET-B" in everything
    assert b"SECRET-A" not in everything
    assert b"NONCE-16-LETTERS" not in everything
    again.close()


def test_forgetting_writes_nothing_twice(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path / "state.db")
    for number in (5, 6):
        storage.add_key(StoredKey(number, number, number, b"p" * 32, b"s" * 32))
        storage.accept(storage.admit(batch(number, period=number)).id, 0, accepted(number))
    storage.forget(5)
    written = storage._connection.total_changes
    storage.forget(6)
    assert storage._connection.total_changes - written == 2  # one key, one release
    storage.close()


@pytest.mark.parametrize("forgotten", [True, False])
def test_a_reader_elsewhere_delays_the_wiping_of_erased_keys_and_never_prevents_it(
    tmp_path: Path, forgotten: bool
) -> None:
    path, secret = tmp_path / "state.db", b"SECRET-A" * 4
    storage = SqliteStorage(path)
    storage.add_key(StoredKey(0, 5, 6, b"p" * 32, secret))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM keys").fetchone()
        if forgotten:
            storage.forget(6)
        else:
            storage.add_key(StoredKey(1, 5, 6, b"q" * 32, b"t" * 32), instead_of=0)
        assert not storage.scrub()
    assert storage.scrub()
    assert not any(secret in file.read_bytes() for file in tmp_path.iterdir())
    storage.close()


def test_what_another_process_erased_and_could_not_wipe_is_wiped(tmp_path: Path) -> None:
    path, secret = tmp_path / "state.db", b"SECRET-A" * 4
    storage = SqliteStorage(path)
    storage.add_key(StoredKey(0, 5, 6, b"p" * 32, secret))
    assert storage.scrub()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE keys SET private_key = NULL")  # and it dies before it wipes
        assert any(secret in file.read_bytes() for file in tmp_path.iterdir())
        assert storage.scrub()
        assert not any(secret in file.read_bytes() for file in tmp_path.iterdir())
    storage.close()


def test_a_file_of_the_version_before_is_taken_over_with_all_its_nonces(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file_of_schema_3(path)
    storage = SqliteStorage(path)
    assert storage.accepted(METRIC, 7) == [(1).to_bytes(16), (2).to_bytes(16)]
    assert (storage.accepted(METRIC, 5), counted(storage, METRIC, 5)) == ([OTHER_ID], [])
    assert counted(storage, METRIC, 7) == NONCES
    asked = NONCES[1][16 * 100 : 16 * 103] + b"\xff" * 16
    assert storage.among(METRIC, 7, (2).to_bytes(16), asked) == asked[:48]
    nonces, _ = distinct([NONCES[0][:160] + NONCES[1][-160:] + b"n" * 16])
    version, repeated, *_ = Duplicates(storage).counted(METRIC, 7, nonces)
    assert (version, int(repeated.sum())) == (2, 20)
    assert [(one.period, one.tally, one.record) for one in storage.releases()] == [
        (5, b"tally-3", '{"id":3}'),
        (7, b"tally-1", '{"id":1}'),
        (7, b"tally-2", '{"id":2}'),
    ]
    assert [one.id for one in storage.pending()] == [WAITING]
    assert storage.discarded(METRIC, 0, 9) == {7: None}
    assert storage.accept(WAITING, 1, accepted(4)) == "outdated"
    assert storage.accept(WAITING, 2, accepted(4)) == "accepted"
    assert storage.accepted(METRIC, 7, 2) == [WAITING]
    assert storage.forget(8)
    assert storage.scrub()
    assert not any(b"NONCE-" in file.read_bytes() for file in tmp_path.iterdir())
    storage.close()
    again = SqliteStorage(path)
    assert (len(again.accepted(METRIC, 7)), counted(again, METRIC, 7)) == (3, [])
    again.close()


def test_an_older_file_is_brought_up_to_date_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    file_of_schema_3(path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE expired")
        database.execute("DROP TABLE opened_and_refused")
        database.execute("UPDATE batches SET header = CAST(substr(header, 1, 29) AS BLOB)")  # as they were then
        database.execute("PRAGMA user_version = 1")

    again = SqliteStorage(path)
    assert again.expire(8) == 3
    assert [release.id for release in again.expired()] == [OTHER_ID, (1).to_bytes(16), (2).to_bytes(16)]
    assert counted(again, METRIC, 7) == []  # what is deleted takes its nonces along
    (waiting,) = again.pending()
    assert waiting.header == BatchHeader(METRIC, 7, 3, 10, 70)
    again.refuse(waiting.id, "batch-too-small", 3, {}, "{}")
    assert [one.id for one in again.opened_and_refused()] == [waiting.id]
    again.close()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StorageError, match="newer version"):
        SqliteStorage(path)
