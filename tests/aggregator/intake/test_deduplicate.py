"""Deduplication: a nonce counts once. Filters in memory are compared with a plain set, and their cost is counted."""

from __future__ import annotations

import os
import random
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hubbub.wire import BatchHeader
from hubbub_aggregator.intake import deduplicate as module
from hubbub_aggregator.intake.deduplicate import Duplicates, Fresh, as_nonces, distinct, masks
from hubbub_aggregator.intake.nonce_filter import NonceFilter, Question, hashes
from hubbub_aggregator.storage import Accepted, Batch, Storage, StorageError
from tests.aggregator.backends import BACKENDS, Backend, Make, counted
from tests.support.patience import PATIENCE

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


class Counting:
    """A storage that counts the bytes of nonces which are read from it."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self.bytes, self.marks = storage, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def accepted(self, metric: bytes, period: int, start: int = 0) -> list[bytes]:
        found = self._storage.accepted(metric, period, start)
        self.marks += len(found)
        return found

    def nonces(self, metric: bytes, period: int, mark: bytes) -> bytes:
        found = self._storage.nonces(metric, period, mark)
        self.bytes += len(found)
        return found

    def among(self, metric: bytes, period: int, mark: bytes, nonces: bytes) -> bytes:
        self.bytes += len(nonces)
        return self._storage.among(metric, period, mark, nonces)


def name(number: int) -> bytes:
    return number.to_bytes(16)


def settle(storage: Any, known: Duplicates, number: int, raw: bytes, metric: bytes = METRIC, others: int = 0) -> int:
    """One batch of these nonces, from its opened reports to its verdict; how many counted."""
    nonces, _ = distinct([raw])
    storage.admit(Batch(name(number), BatchHeader(metric, 7, 3, 10, 70), name(number) * 2, "pending", f"file-{number}"))
    while True:
        version, repeated, last, hashed = known.counted(metric, 7, nonces, others)
        fresh = nonces[~repeated].tobytes()
        accepted = Accepted(len(fresh) // 16, {}, b"tally", fresh, "{}")
        if storage.accept(name(number), version, accepted, last) == "accepted":
            known.add(metric, 7, version, name(number), hashed)
            return len(fresh) // 16


def close_together(rng: random.Random) -> bytes:
    """Nonces as an attacker may choose them: alike at their begin, zeros at their end."""
    return bytes(12) + rng.randbytes(1) + rng.randbytes(1) + bytes(2)


@pytest.mark.everyday
@pytest.mark.parametrize("limit", [module.LIMIT, 300_000, 0])
def test_every_nonce_counts_once_as_in_a_plain_set(backend: Backend, limit: int, monkeypatch: Any) -> None:
    """Two processes take turns, forget what they know now and then, and have more or less memory for filters."""
    monkeypatch.setattr(module, "_SMALLEST", 64)
    monkeypatch.setattr(module, "_FEW", 20)
    rng, seen = random.Random(limit), set[bytes]()
    storages = [backend.open(), backend.open()]
    known = [Duplicates(storage, limit) for storage in storages]
    for number in range(24):
        some = [rng.choice(sorted(seen)) for _ in range(rng.choice([0, 1, 30]))] if seen else []
        new = [rng.randbytes(16) for _ in range(rng.choice([1, 20, 200]))] + [close_together(rng) for _ in range(20)]
        batch = rng.sample(some + new + some, len(some + new + some))
        who = rng.randrange(2)
        if rng.random() < 0.1:
            known[who] = Duplicates(storages[who], limit)
        assert settle(storages[who], known[who], number, b"".join(batch)) == len(set(batch) - seen)
        seen |= set(batch)
    stored = b"".join(counted(storages[0], METRIC, 7))
    assert sorted(stored[at : at + 16] for at in range(0, len(stored), 16)) == sorted(seen)
    for storage in storages:
        storage.close()


def test_batches_that_come_again_count_nothing(storage: Storage) -> None:
    """They are too large for one step of a filter. Each came to a filter that had something in it already."""
    known, batches = Duplicates(storage), [os.urandom(16 * 20_000) for _ in range(3)]
    for number, batch in enumerate(batches):
        assert settle(storage, known, number, batch, others=40_000) == 20_000
    for number, batch in enumerate(batches):
        assert settle(storage, known, 3 + number, batch) == 0


def test_the_places_of_first_copies_are_told_part_by_part() -> None:
    a, b, c = (letter * 16 for letter in (b"a", b"b", b"c"))
    parts = [b + a + b, b"", c + a]
    nonces, first = distinct(parts)
    assert nonces.tobytes() == a + b + c
    assert [mask.tolist() for mask in masks(parts, first)] == [[True, True, False], [], [True, False]]
    assert [mask.tolist() for mask in masks(parts, first[1:])] == [[True, False, False], [], [True, False]]
    assert distinct([])[0].tobytes() == b""


def test_what_a_batch_reads_does_not_grow_with_what_was_accepted_before(storage: Storage, monkeypatch: Any) -> None:
    """Nothing is read where this process counted it; what another counted is read once, and its growth amortized."""
    monkeypatch.setattr(module, "_SMALLEST", 64)
    reports, batches = 500, 60
    own, other = Counting(storage), Counting(storage)
    first, second = Duplicates(own), Duplicates(other)
    read, followed = [], []
    for number in range(batches):
        before = own.bytes, own.marks
        settle(own, first, number, os.urandom(16 * reports))
        read.append((own.bytes - before[0], own.marks - before[1]))
        before = other.bytes, other.marks
        second.counted(METRIC, 7, distinct([os.urandom(16 * reports)])[0])
        followed.append((other.bytes - before[0], other.marks - before[1]))
    grew = [at for at, (size, _) in enumerate(read) if size > 16 * reports // 10]
    assert len(grew) <= 3  # when the filter of the pair grew: each time fourfold
    assert sum(size for size, _ in read) < 16 * reports * batches  # not one time each
    assert max(marks for _, marks in read) <= 3
    grew = [at for at, (size, _) in enumerate(followed) if size > 16 * reports * 1.1]
    assert len(grew) <= 3
    assert sum(size for size, _ in followed) <= 2 * 16 * reports * batches


def test_nothing_is_read_again_where_the_shuffler_said_how_many_are_to_come(storage: Storage) -> None:
    counting = Counting(storage)
    known = Duplicates(counting)
    for number in range(50):
        settle(counting, known, number, os.urandom(16 * 2_000), others=49 * 2_000)
    assert counting.bytes < 16 * 2_000


def test_who_comes_too_late_reads_only_what_came_in_between(storage: Storage) -> None:
    counting = Counting(storage)
    late, quick = Duplicates(counting), Duplicates(storage)
    for number in range(20):
        settle(storage, quick, number, os.urandom(16 * 1_000))
    mine = os.urandom(16 * 1_000)
    nonces, _ = distinct([mine])
    assert late.counted(METRIC, 7, nonces)[0] == 20
    settle(storage, quick, 20, mine[: 16 * 10] + os.urandom(16 * 990))
    before = counting.bytes
    version, repeated, *_ = late.counted(METRIC, 7, nonces)
    assert (version, int(repeated.sum())) == (21, 10)
    assert counting.bytes - before < 1.5 * 16 * 1_000  # that batch, and ten questions


def wait_to_settle(storage: Storage, number: int) -> None:
    header = BatchHeader(METRIC, 7, 3, 10, 70)
    storage.admit(Batch(name(number), header, name(number) * 2, "pending", f"file-{number}"))


def test_what_another_thread_has_read_meanwhile_is_not_read_again(storage: Storage) -> None:
    """Its worker says that a batch was accepted only after another worker of the same process has asked again."""
    counting = Counting(storage)
    known, reports = Duplicates(counting), 1_000
    for number in range(10):
        settle(counting, known, number, os.urandom(16 * reports), others=50 * reports)
    a, b = (distinct([os.urandom(16 * reports)])[0] for _ in range(2))
    wait_to_settle(storage, 10)
    version, _, last, _ = known.counted(METRIC, 7, a)
    known.counted(METRIC, 7, b)
    done = Accepted(reports, {}, b"tally", a.tobytes(), "{}")
    assert storage.accept(name(10), version, done, last) == "accepted"
    before = counting.bytes
    assert known.counted(METRIC, 7, b).version == 11
    assert counting.bytes - before < 1.1 * 16 * reports, "more than the one that came in between"
    known.add(METRIC, 7, version, name(10), Fresh(np.sort(hashes(a))))
    before = counting.bytes
    assert known.counted(METRIC, 7, b).version == 11
    assert counting.bytes - before < 0.1 * 16 * reports, "something was read again"
    assert known.counted(METRIC, 7, a).repeated.all()


def test_threads_that_work_on_one_pair_read_each_batch_once_at_most(storage: Storage) -> None:
    counting = Counting(storage)
    known, reports, batches, seen = Duplicates(counting), 500, 24, list[int]()
    barrier = threading.Barrier(4)

    def work(first: int) -> None:
        for number in range(first, batches, 4):
            barrier.wait(PATIENCE)  # so that they meet
            seen.append(settle(counting, known, number, os.urandom(16 * reports), others=batches * reports))

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert seen == [reports] * batches
    assert counting.bytes <= 1.1 * 16 * reports * batches


def test_what_is_known_stays_where_a_storage_does_not_answer(storage: Storage, monkeypatch: Any) -> None:
    counting = Counting(storage)
    known, raw = Duplicates(counting), [os.urandom(16 * 500) for _ in range(6)]
    for number in range(5):
        settle(counting, known, number, raw[number])

    def away(*_anything: object) -> Any:
        raise StorageError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(counting, "accepted", away)
        with pytest.raises(StorageError):
            known.counted(METRIC, 7, distinct([raw[5]])[0])
        known.add(METRIC, 7, 5, name(5), Fresh(np.sort(hashes(as_nonces(raw[5])))))
    before = counting.bytes
    assert not known.counted(METRIC, 7, distinct([raw[5]])[0]).repeated.any()
    assert counting.bytes - before < 16 * 100


def test_a_batch_that_can_not_be_taken_in_leaves_nothing_half_known(storage: Storage, monkeypatch: Any) -> None:
    """The filter of the pair has to grow for it, and what is in the pair can't be read then."""
    monkeypatch.setattr(module, "_SMALLEST", 64)
    known, raw = Duplicates(storage), [os.urandom(16 * count) for count in (60, 2_000)]
    settle(storage, known, 0, raw[0])
    nonces = distinct([raw[1]])[0]
    wait_to_settle(storage, 1)
    version, _, last, _ = known.counted(METRIC, 7, nonces[:1])
    assert storage.accept(name(1), version, Accepted(2_000, {}, b"", nonces.tobytes(), "{}"), last) == "accepted"

    def failing(*_anything: object) -> bytes:
        raise StorageError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "nonces", failing)
        known.add(METRIC, 7, version, name(1), Fresh(np.sort(hashes(nonces))))
    for each in raw:
        version, repeated, *_ = known.counted(METRIC, 7, distinct([each])[0])
        assert version == 2
        assert repeated.all()


def test_a_nonce_that_was_found_is_not_looked_for_any_further(storage: Storage) -> None:
    counting = Counting(storage)
    known, raw = Duplicates(counting, limit=0), [os.urandom(16 * 20) for _ in range(8)]
    for number, each in enumerate(raw):
        settle(counting, known, number, each)
    for place, each in enumerate(raw):
        before = counting.bytes
        assert known.counted(METRIC, 7, distinct([each])[0]).repeated.all()
        assert counting.bytes - before == (place + 1) * 16 * 20


def test_a_filter_that_is_wrong_about_everything_drops_no_report(storage: Storage, monkeypatch: Any) -> None:
    ask = NonceFilter.ask
    everything = lambda self, hashed: ask(self, hashed)._replace(maybe=np.arange(len(hashed)))  # noqa: E731
    monkeypatch.setattr(NonceFilter, "ask", everything)
    monkeypatch.setattr(NonceFilter, "may_hold", lambda _self, question: np.arange(len(question.hashed)))
    known = Duplicates(storage)
    for number, count in enumerate([3_000, 3_000, 100]):
        assert settle(storage, known, number, os.urandom(16 * count)) == count


def test_what_a_failover_lost_is_not_taken_for_counted() -> None:
    """And what was accepted in its place is not missed."""

    class Shrinking:
        def __init__(self) -> None:
            self.kept = [(b"a" * 16 + b"1", b"x" * 16), (b"b" * 16 + b"2", b"y" * 16)]

        def accepted(self, _metric: bytes, _period: int, start: int = 0) -> list[bytes]:
            return [mark for mark, _ in self.kept[start:]]

        def nonces(self, _metric: bytes, _period: int, mark: bytes) -> bytes:
            return dict(self.kept)[mark]

        def among(self, metric: bytes, period: int, mark: bytes, nonces: bytes) -> bytes:
            held = self.nonces(metric, period, mark)
            return held if held in [nonces[at : at + 16] for at in range(0, len(nonces), 16)] else b""

    storage = Shrinking()
    known = Duplicates(storage)  # type: ignore[arg-type]  # it has all that is called
    asked, _ = distinct([b"x" * 16 + b"y" * 16 + b"z" * 16])
    assert known.counted(METRIC, 7, asked)[1].tolist() == [True, True, False]
    storage.kept[1] = (b"c" * 16 + b"3", b"z" * 16)
    version, repeated, *_ = known.counted(METRIC, 7, asked)
    assert (version, repeated.tolist()) == (2, [True, False, True])
    del storage.kept[1]
    version, repeated, *_ = known.counted(METRIC, 7, asked)
    assert (version, repeated.tolist()) == (1, [True, False, False])


def test_a_storage_that_fails_in_between_leaves_nothing_half_known(storage: Storage, monkeypatch: Any) -> None:
    known, writer = Duplicates(storage), Duplicates(storage)
    batches = [os.urandom(16 * 500) for _ in range(4)]
    for number, raw in enumerate(batches[:2]):
        settle(storage, writer, number, raw)
    known.counted(METRIC, 7, distinct(batches[:1])[0])
    settle(storage, writer, 2, batches[2])
    settle(storage, writer, 3, batches[3])
    with monkeypatch.context() as patched:
        read, left = storage.nonces, [1]

        def failing(metric: bytes, period: int, mark: bytes) -> bytes:
            if left[0] == 0:
                raise StorageError("gone")
            left[0] -= 1
            return read(metric, period, mark)

        patched.setattr(storage, "nonces", failing)
        with pytest.raises(StorageError):
            known.counted(METRIC, 7, distinct(batches[:1])[0])
    for raw in batches:
        assert known.counted(METRIC, 7, distinct([raw])[0])[1].all()


def test_filters_stay_within_their_memory_and_those_used_last_stay(storage: Storage, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_SMALLEST", 64)
    limit = 40_000
    known = Duplicates(storage, limit)
    metrics = [os.urandom(16) for _ in range(12)]
    for number, metric in enumerate(metrics * 2):
        settle(storage, known, number, os.urandom(16 * 700), metric)
        assert 0 < known.size <= limit
    assert (metrics[-1], 7) in known._pairs
    assert (metrics[0], 7) not in known._pairs
    one = Duplicates(storage, limit)
    for number in range(30):  # one pair that would take more than all there is
        settle(storage, one, 100 + number, os.urandom(16 * 700), OTHER)
        assert one.size <= limit
    assert one._pairs[OTHER, 7].runs[-1].filter is None


def test_filters_stay_within_their_memory_also_while_they_grow(storage: Storage, monkeypatch: Any) -> None:
    """What is given up is given up before other filters are made, and not after."""
    monkeypatch.setattr(module, "_SMALLEST", 64)
    there, most, limit = weakref.WeakSet[NonceFilter](), [0], 40_000

    class Watched(NonceFilter):
        def __init__(self, *size: int) -> None:
            super().__init__(*size)
            there.add(self)
            most[0] = max(most[0], sum(each.size for each in there))

    monkeypatch.setattr(module, "NonceFilter", Watched)
    known = Duplicates(storage, limit)
    for number in range(40):
        settle(storage, known, number, os.urandom(16 * 700), bytes([number % 5]) * 16)
    # two of the smallest: what a pair begins with, and what stands in while its filter is made anew
    assert limit / 2 < most[0] <= limit + 2 * 64 * 2


def test_filters_that_nobody_asks_about_are_given_up(storage: Storage, monkeypatch: Any) -> None:
    known = Duplicates(storage)
    settle(storage, known, 1, os.urandom(16 * 100))
    known.trim()
    assert known.size > 0
    monkeypatch.setattr(module, "_IDLE", -1.0)
    known.trim()
    assert known.size == 0


@pytest.mark.everyday("24-*")
@pytest.mark.parametrize(("bits", "words", "most"), [(16, 1, 2_000), (24, 4, 200)])
def test_a_filter_misses_nothing_and_is_rarely_wrong_whatever_nonces_look_like(
    bits: int, words: int, most: int
) -> None:
    """Secrets are fresh each time. About 820 and 30 are expected: the bounds are 30 standard deviations away."""
    prefix, half = bytes(8), 100_000
    held = as_nonces(b"".join(prefix + os.urandom(8) for _ in range(half)) + os.urandom(16 * half))
    others = as_nonces(b"".join(prefix + os.urandom(8) for _ in range(half)) + os.urandom(16 * half))
    filter_ = NonceFilter(2 * half, bits, int.from_bytes(os.urandom(8)) | 1, words)
    for part in np.split(held, 4):
        filter_.add(np.sort(hashes(part)))
    assert len(filter_.may_hold(Question(hashes(held)))) == 2 * half
    assert len(filter_.may_hold(Question(hashes(others)))) < most
    assert filter_.size == 2 * half * bits // 8


@pytest.mark.parametrize("capacity", [1, 1_000, 100_000])
def test_what_was_asked_about_is_added_as_by_itself(capacity: int) -> None:
    """Also where many hashes share a word, and where nearly none do."""
    one, other = NonceFilter(capacity, 16, 3), NonceFilter(capacity, 16, 3)
    before, batch = (np.sort(hashes(as_nonces(os.urandom(16 * 70_000)))) for _ in range(2))
    for each in (one, other):
        each.add(before)
    asked = one.ask(batch)
    assert asked.maybe.tolist() == one.may_hold(Question(batch)).tolist()
    one.add_asked(asked)
    other.add(batch)
    assert (one._words[0] == other._words[0]).all()
    assert len(one.may_hold(Question(np.concatenate([before, batch])))) == 140_000


def test_several_filters_answer_one_question_as_each_does_alone() -> None:
    """What is worked out for one filter is used for the next only if both look in the same place by the same bits."""
    shapes = [(9_000, 24, 3, 4), (9_000, 24, 3, 4), (9_000, 24, 5, 4), (50_000, 24, 3, 4), (9_000, 16, 3, 1)]
    asked = hashes(as_nonces(os.urandom(16 * 40_000)))
    question, filters = Question(asked), [NonceFilter(*shape) for shape in shapes]
    for number, filter_ in enumerate(filters):
        filter_.add(np.sort(asked[number * 8_000 : (number + 1) * 8_000]))
    for number, filter_ in enumerate(filters):
        held = filter_.may_hold(question).tolist()
        assert held == filter_.may_hold(Question(asked)).tolist()
        assert set(range(number * 8_000, (number + 1) * 8_000)) <= set(held)
        assert len(held) < 8_400  # 132 others are expected of one word a block, 5 of four; 23 standard deviations away
    assert filters[0].may_hold(Question(asked[:0])).tolist() == []
