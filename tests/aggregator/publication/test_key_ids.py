"""Key ids: they never run out, and none means two keys in one period, after restores, revocations and changes."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from hubbub.bundle import verify
from hubbub.bundle_body import Body
from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.operations.backup_and_restore import _MOST_LISTED, backup, restore
from hubbub_aggregator.publication.bundles import Publisher
from hubbub_aggregator.publication.codebook_versions import Codebooks
from hubbub_aggregator.publication.key_id_allocation import AT_ONCE, IDS, LIVE, REGULAR, gaps
from hubbub_aggregator.publication.keys import IDENTITY, KeyRing, new_identity
from hubbub_aggregator.storage import SqliteStorage, StoredCodebook
from tests.aggregator.publication.test_begun_periods import refuse_if_changed
from tests.aggregator.world import CODEBOOK, DAY, START

HOUR = 3_600
DATABASE = "aggregator.db"
LIFETIME = 7 * DAY


def written(period: str, grace: str | None = None, horizon: str = "7d") -> Codebook:
    chosen = f'period = "{period}"\nforward_horizon = "{horizon}"' + (f'\ngrace = "{grace}"' if grace else "")
    text = CODEBOOK.replace('period = "1d"\ngrace = "1d"', chosen)
    return Codebook.from_toml(text).with_min_batch(lambda _: 100)


@dataclass
class Life:
    """What an aggregator does with keys, on a clock that the test moves; and everything that it ever published."""

    root: Path
    codebook: Codebook
    max_age: int = HOUR
    now: float = float(START)
    published: defaultdict[int, dict[tuple[int, int], bytes]] = field(default_factory=lambda: defaultdict(dict))
    """By id: for which first and last period, which public key."""
    most: int = 0
    """Keys that were listed at once."""

    def __post_init__(self) -> None:
        self.identity = new_identity(self.root / "0")
        self.state = self.root / "0"
        storage = SqliteStorage(self.state / DATABASE)
        first = self.codebook.collection.calendar.index_at(self.now)
        storage.add_codebook(StoredCodebook(first, self.codebook.to_bytes()))
        storage.close()
        self.open()

    def open(self) -> None:
        self.storage = SqliteStorage(self.state / DATABASE)
        self.storage._connection.execute("PRAGMA synchronous = OFF")  # no power cut is tested here
        self.codebooks = Codebooks(self.storage, self.max_age)
        self.ring = KeyRing(self.storage, self.codebooks, self.max_age)
        self.publisher = Publisher(self.storage, self.identity, self.codebooks, self.ring, LIFETIME, self.max_age)
        self.tick()

    def tick(self) -> Body:
        """As the service does; an hour after the horizon keys are erased."""
        self.step()
        body = verify(self.publisher.current(self.now).raw, [anchor_of(self.identity)], self.now).body
        calendar = self.codebook.collection.calendar
        current = calendar.index_at(self.now)
        revoked = [(key.first_period, key.last_period) for key in body.keys if key.state == "revoked"]
        live = [(key.first_period, key.last_period) for key in body.keys if key.state != "revoked"]
        assert not list(gaps([*live, *revoked], current, current + self.ring.ahead)), "a period without a key"
        told = calendar.index_at(self.now + 2 * max(self.max_age, HOUR)) + 1  # as the last bundle may have said
        assert not list(gaps(live, max(told, current + 1), current + self.ring.ahead)), (
            "a coming one without a live key"
        )
        return body

    def step(self) -> None:
        """The same without signing, which takes longest."""
        self.ring.ensure(self.now)
        self.ring.forget(self.now - self.codebooks.erase_after)
        keys = self.storage.sealing_keys()
        for key in keys:
            self.published[key.id][key.first_period, key.last_period] = key.public_key
        self.most = max(self.most, len(keys))

    def run(self, seconds: float, steps: int = 40) -> None:
        for _ in range(steps):
            self.now += seconds / steps
            self.step()
        self.tick()

    def copy(self, file: Path, *, keys: bool) -> Path:
        backup(self.state / DATABASE, file, identity=self.state / IDENTITY if keys else None)
        return file

    def restored(self, file: Path, *, bundle: bool) -> None:
        """Lose everything but the identity, and go on from a copy."""
        relayed = self.publisher.current(self.now).raw if bundle else None
        self.storage.close()
        state = self.root / str(int(self.now))
        state.mkdir(mode=0o700)
        shutil.copy(self.state / IDENTITY, state / IDENTITY)
        restore(file, state, DATABASE, self.now, relayed, max_age=self.max_age)
        self.state = state
        self.open()

    def refuse_two_meanings(self) -> None:
        """One id and one period are one key: reports name no more than these two."""
        for id, given in self.published.items():  # noqa: A001  it is an id
            spans = sorted((first, last, public) for (first, last), public in given.items())
            for (_, last, public), (first, _, other) in pairwise(spans):
                assert public == other or last < first, f"id {id} had two keys in period {first}"


@pytest.fixture
def life() -> Iterator[list[Life]]:
    """Those that a test has opened."""
    opened: list[Life] = []
    yield opened
    for one in opened:
        one.storage.close()


def test_the_daily_copy_of_hourly_periods_is_brought_back_at_any_age(tmp_path: Path, life: list[Life]) -> None:
    one = Life(tmp_path, written("1h"))
    life.append(one)
    one.run(8 * DAY, steps=8 * 24)
    held = one.storage.sealing_keys()
    assert len(held) > 80
    file = one.copy(tmp_path / "copy", keys=False)
    for age in (0, 3 * DAY, 20 * DAY):
        if age:
            one.run(age, steps=80)
        one.restored(file, bundle=False)
        one.run(DAY, steps=48)
    one.refuse_two_meanings()
    assert one.most <= IDS - 32


CASES = [
    # period, grace, horizon, max_age
    ("20s", "20s", "1h", 10),
    ("20s", "20s", "1h", 3_600),
    ("1m", "10m", "7d", 3_600),
    ("1h", None, "7d", 3_600),
    ("1h", "7d", "1h", 3_600),
    ("1d", "1d", "7d", 3_600),
    ("1w", "1d", "30d", 86_400),
]


def wander(root: Path, case: tuple[str, str | None, str, int], seed: int, turns: int) -> Life:
    """Copies of every kind, brought back at any age; keys are revoked and rotated, and a setting changes."""
    period, grace, horizon, max_age = case
    rng, one = random.Random(seed), Life(root, written(period, grace, horizon), max_age)
    lived = one.ring.lived * one.codebook.collection.calendar.seconds
    copies: list[Path] = []
    restores = 0
    for turn in range(turns):
        one.run(rng.choice([0.01, 0.1, 0.5, 2]) * lived, steps=rng.choice([3, 10]))
        what = rng.random()
        if what < 0.4 or not copies:
            copies.append(one.copy(root / f"copy{turn}", keys=rng.random() < 0.5))
        elif what < 0.8:
            # without the bundle an older copy than the last restore's knows nothing of the ids which that one chose
            one.restored(rng.choice(copies), bundle=True)
            restores += 1
        elif what < 0.9:
            live = [key.id for key in one.storage.sealing_keys() if not key.revoked]
            one.ring.revoke(rng.choice(live[-5:]), one.now)
            one.ring.rotate(one.now)
        else:
            one.max_age = rng.choice([10, 3_600])
            one.storage.close()
            one.open()
    one.refuse_two_meanings()
    assert restores
    return one


@pytest.mark.everyday("20s-20s-1h-10", "1w-*")
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_no_history_of_copies_and_restores_uses_up_the_ids(
    tmp_path: Path, life: list[Life], case: tuple[str, str | None, str, int]
) -> None:
    life.append(wander(tmp_path, case, seed=1, turns=12))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_no_long_history_of_copies_and_restores_uses_up_the_ids(
    tmp_path: Path, life: list[Life], case: tuple[str, str | None, str, int], seed: int
) -> None:
    life.append(wander(tmp_path, case, seed, turns=60))


@pytest.mark.everyday("20s-20s-1h-10-True", "1d-1d-7d-3600-False")
@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_without_the_bundle_no_id_means_two_keys_either(
    tmp_path: Path, life: list[Life], case: tuple[str, str | None, str, int], keys: bool
) -> None:
    """What was made after the copy is not known then. Its ids are not used for the same periods, however many."""
    period, grace, horizon, max_age = case
    one = Life(tmp_path, written(period, grace, horizon), max_age)
    life.append(one)
    lived = one.ring.lived * one.codebook.collection.calendar.seconds
    one.run(lived)
    for turn, age in enumerate((0.01, 0.3, 1.5)):
        file = one.copy(tmp_path / f"copy{turn}", keys=keys)
        one.run(age * lived)
        one.restored(file, bundle=False)
        one.run(0.05 * lived, steps=5)
    one.refuse_two_meanings()


def test_no_time_between_two_restores_of_one_copy_gives_both_the_same_ids(tmp_path: Path, life: list[Life]) -> None:
    """All six start at one id by chance once in 96^5, which is 8e9."""
    one = Life(tmp_path, written("1h"))
    life.append(one)
    one.run(8 * DAY, steps=8 * 24)
    file = one.copy(tmp_path / "copy", keys=False)
    before = {key.id for key in one.storage.sealing_keys()}
    one.now += HOUR
    chosen = set()
    for _ in range(6):
        one.now += 24  # with ids that follow from the time, four for each second, 96 in all, that would be a whole turn
        one.restored(file, bundle=False)
        new = [key.id for key in one.storage.sealing_keys() if key.id not in before]
        assert new
        assert min(new) >= REGULAR
        chosen.add(frozenset(new))
    assert len(chosen) > 1


@pytest.mark.everyday("0.0-False", "1800.0-True")
@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("age", [0.0, 30 * 60.0, 2 * DAY])
def test_a_shuffler_takes_what_is_published_after_a_restore(
    tmp_path: Path, life: list[Life], keys: bool, age: float
) -> None:
    one = Life(tmp_path, written("1h", "3h"))
    life.append(one)
    one.run(8 * DAY, steps=8 * 12)
    file = one.copy(tmp_path / "copy", keys=keys)
    if age:
        one.run(age, steps=96)
    held = one.tick()
    one.restored(file, bundle=True)
    for _ in range(12):
        body = one.tick()
        refuse_if_changed(held, body, one.now)
        held = body
        one.now += HOUR / 2


@pytest.mark.everyday("False")
@pytest.mark.parametrize("bundle", [False, True])
def test_a_restore_of_many_keys_drops_none_of_an_open_period(tmp_path: Path, life: list[Life], bundle: bool) -> None:
    """A shuffler takes no bundle that forgets the key of a begun period. Here most keys are of open periods, and those
    of many rotations are too far ahead for any device to have used."""
    one = Life(tmp_path, written("1h", "30d", "1h"))
    life.append(one)
    one.run(30 * DAY, steps=120)
    while len(one.storage.sealing_keys()) < _MOST_LISTED + 8:
        one.ring.rotate(one.now)
    opened = one.codebook.collection.calendar.index_at(one.now - 30 * DAY)
    needed = {key.id for key in one.tick().keys if key.last_period >= opened and key.state != "pending"}
    assert len(needed) > 100
    one.restored(one.copy(tmp_path / "copy", keys=False), bundle=bundle)
    assert needed <= {key.id for key in one.tick().keys}
    one.refuse_two_meanings()


def test_a_longer_cache_lifetime_after_a_restore_is_taken(tmp_path: Path, life: list[Life]) -> None:
    one = Life(tmp_path, written("20s", "20s", "1h"), max_age=10)
    life.append(one)
    one.run(2 * HOUR, steps=400)
    one.restored(one.copy(tmp_path / "copy", keys=False), bundle=False)
    one.storage.close()
    one.max_age = HOUR
    one.open()
    one.run(HOUR, steps=200)
    assert one.most <= IDS - 32


def test_a_clock_that_jumps_about_leaves_ids_for_the_right_time(tmp_path: Path, life: list[Life]) -> None:
    one = Life(tmp_path, written("1h"))
    life.append(one)
    one.run(2 * DAY, steps=96)
    rng, right = random.Random(1), one.now
    for turn in range(200):
        one.ring.ensure(right + rng.uniform(-500, 500) * DAY, sure=False)
        one.now = right + turn * 600
        one.step()
    assert one.most < IDS


def test_keys_that_can_not_be_erased_for_months_do_not_silence_devices(tmp_path: Path, life: list[Life]) -> None:
    """As under a clock that is disputed: what is made then covers ever more periods."""
    one = Life(tmp_path, written("1h"))
    life.append(one)
    for _ in range(120 * 4):
        one.now += 6 * HOUR
        one.ring.ensure(one.now)
        current = one.codebook.collection.calendar.index_at(one.now)
        live = [key for key in one.storage.sealing_keys() if not key.revoked]
        assert sum(key.covers(current + 2) for key in live) == 1
    assert len(one.storage.sealing_keys()) < IDS


def test_who_rotates_too_often_is_told_the_cause_and_what_to_do(tmp_path: Path, life: list[Life]) -> None:
    one = Life(tmp_path, written("1d", "1d"))
    life.append(one)
    for _ in range(IDS - len(one.storage.sealing_keys())):
        one.ring.rotate(one.now)
    with pytest.raises(InvalidParameter, match=r"all 256 key ids are in use.*keys list.*Rotate and revoke no more"):
        one.ring.rotate(one.now)
    one.tick()  # what is there is published


def test_the_numbers_fit() -> None:
    assert LIVE + 2 * AT_ONCE < REGULAR < IDS
    assert list(gaps([(3, 4), (4, 6), (9, 9)], 1, 12)) == [(1, 2, 3), (7, 8, 9), (10, 12, None)]
    assert list(gaps([(0, 5)], 2, 5)) == []
    assert list(gaps([(4, 4)], 1, 2)) == [(1, 2, 4)]
