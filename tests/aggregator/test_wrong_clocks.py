"""Clocks that are wrong for a while, the aggregator's or the other's: they cost no report, no key and no nonce."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr

from hubbub.bundle import Bundle, verify
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.main import DATABASE
from hubbub_aggregator.operations.metrics import snapshot, stored_now
from hubbub_aggregator.publication import keys
from hubbub_aggregator.publication.key_id_allocation import IDS
from hubbub_aggregator.publication.keys import IDENTITY, new_identity
from hubbub_aggregator.storage.redis.backend import RedisStorage
from hubbub_service_common.clock import last_seen
from hubbub_service_common.clock.trusted_clock import TrustedClock
from tests.aggregator.api.test_batches import problem
from tests.aggregator.backends import counted
from tests.aggregator.world import CODEBOOK, DAY, START, WAIT, Site, whole
from tests.support.clock import Clock
from tests.support.redis_server import RedisServer

HOUR = 3_600
OFFSETS = [sign * far for far in (8, 2 * HOUR, 5 * DAY, 20 * DAY, 400 * DAY) for sign in (1, -1)]
SHUFFLER, ANALYST = "a-token-of-the-shuffler", "a-token-of-an-analyst"
FINAL = {"batch-too-late", "unknown-key", "unknown-metric", "revoked-key", "malformed-batch", "wrong-length"}


@dataclass
class Machine(Clock):
    """The right time, as the test and the shuffler have it, and this machine's clock, which may be wrong; so may
    Redis', by `servers`. On one host the shuffler has this machine's clock.
    """

    offset: float = 0.0
    servers: float = 0.0
    on_one_host: bool = False

    def wall(self) -> float:
        return self.now + self.offset

    def monotonic(self) -> float:
        return self.now - START

    def trusted(self) -> TrustedClock:
        return TrustedClock(self.wall, self.monotonic, peer="a shuffler's", says="nothing is erased")

    def date(self) -> dict[str, str]:
        """What the shuffler sends, with the right time unless it has the same clock."""
        return {"Date": formatdate(self.wall() if self.on_one_host else self.now, usegmt=True)}


@pytest.fixture
def machine() -> Machine:
    return Machine(START + HOUR)


@pytest.fixture(params=["sqlite", "redis"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, pool: Pool, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """An aggregator on each storage that goes by a real clock and hears a shuffler."""
    settings: dict[str, Any] = {}
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        server.client().flushall()
        new_identity(tmp_path)
        monkeypatch.setattr(RedisStorage, "time", lambda _self: machine.now + machine.servers)
        settings = {"storage": SecretStr(server.url), "identity": tmp_path / IDENTITY}
    site = Site.open(tmp_path, pool, clock=machine, trusted=machine.trusted, **settings)
    yield site
    site.close()


def secrets(site: Site) -> dict[int, bytes]:
    """Private keys by period; each of these tests has one for each."""
    return {key.first_period: key.private_key for key in site.service.storage.sealing_keys() if key.private_key}


def look(site: Site, machine: Machine, times: int = 3) -> None:
    """What happens in a minute."""
    for _ in range(times):
        site.service.tick()
        machine.now += 60 / times


def right(site: Site, before: Bundle) -> Bundle:
    """The bundle as a device or a shuffler with the right time takes it that has seen the one before."""
    return verify(site.get("/v1/bundle").content, [site.service.anchor], site.clock(), before.seen)


def name_of(response: httpx2.Response) -> str:
    return "" if response.status_code < 400 else str(response.json()["type"]).rpartition(":")[2]


@pytest.mark.everyday
@pytest.mark.parametrize("on_one_host", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("offset", OFFSETS)
def test_a_minute_under_a_wrong_clock_costs_nothing(
    place: Site, machine: Machine, offset: float, restarts: bool, on_one_host: bool
) -> None:
    machine.on_one_host = on_one_host
    plaintexts = place.plaintexts("dark_mode", [True] * 250)
    header = place.header("dark_mode", 250)
    sealed, again = (whole(header, place.seal(header, plaintexts)) for _ in range(2))
    on_its_way, name = place.batch("dark_mode", [False] * 250, seed=2), os.urandom(16)
    place.settle(sealed)
    before, held, first = place.bundle(), secrets(place), place.period
    place.put(on_its_way[:200], os.urandom(16), headers=machine.date())  # heard, if nothing else comes of it
    place.service.tick()

    machine.offset = offset
    if restarts:
        place.reopen()
    look(place, machine)
    answer = place.put(on_its_way, name, headers=machine.date())
    assert name_of(answer) not in FINAL, answer.text
    look(place, machine)
    place.service._sweep()
    assert secrets(place).items() >= held.items()
    right(place, before)

    machine.offset = 0.0
    if restarts:
        place.reopen()
    look(place, machine)
    after = right(place, before)
    assert secrets(place).items() >= held.items()
    for period in range(first, first + 3):
        assert after.body.key_for(period) is not None, period - first
    assert len(after.body.keys) <= 3 + 2 * 4
    assert place.put(on_its_way, name, headers=machine.date()).status_code in (200, 202)
    place.work()
    assert place.json(f"/v1/batches/{name.hex()}")["valid"] == 250
    assert place.settle(again)["invalid"] == {"duplicate": 250}  # the nonces are there, too


@pytest.mark.everyday("sqlite")
def test_keys_are_complete_after_one_start_under_each_clock(place: Site, machine: Machine) -> None:
    """Also day 3, which comes after the keys that were made under a clock that was five days ahead."""
    for days in (20, 400, 5, -400):
        held, before = secrets(place), place.bundle()
        machine.offset = days * DAY
        place.reopen()
        look(place, machine)
        machine.offset = 0.0
        place.reopen()
        look(place, machine)
        assert secrets(place).items() >= held.items()
        assert [right(place, before).body.key_for(place.period + day) is None for day in range(3)] == [False] * 3
    for _ in range(25):
        machine.now += DAY
        place.call("GET", "/v1/bundle", headers=machine.date())
        place.service.tick()
        for day in range(3):
            assert place.bundle().body.key_for(place.period + day) is not None
    assert len(place.service.storage.sealing_keys()) < IDS / 4


def test_a_process_that_starts_under_a_wrong_clock_erases_nothing_if_a_shuffler_says_so_in_time(
    place: Site, machine: Machine
) -> None:
    place.settle(place.batch("dark_mode", [True] * 250))
    period, held = place.period, secrets(place)
    machine.offset = 20 * DAY
    place.reopen()
    for _ in range(10):
        machine.now += WAIT - 60
        place.service.tick()
        place.call("GET", "/v1/bundle", headers=machine.date())
        place.service.tick()
    assert secrets(place).items() >= held.items()
    assert len(counted(place.service.storage, place.metric("dark_mode").id, period)) == 1


def test_what_is_due_is_erased_an_hour_later_and_a_restart_begins_that_anew(place: Site, machine: Machine) -> None:
    place.settle(place.batch("dark_mode", [True] * 250))
    period = place.period
    machine.now = START + 9 * DAY - 60
    place.reopen()
    for minutes in range(0, 60, 10):
        machine.now = START + 9 * DAY + minutes * 60
        place.service.tick()
        assert period in secrets(place)
    place.reopen()
    machine.now += WAIT - 1
    place.service.tick()
    assert period in secrets(place)
    assert of(place, "erasure_overdue_seconds") == machine.now - (START + 9 * DAY + WAIT) > 0
    machine.now += 1
    place.service.tick()
    assert period not in secrets(place)
    assert of(place, "erasure_overdue_seconds") == 0
    assert counted(place.service.storage, place.metric("dark_mode").id, period) == []
    problem(place.put(place.batch("dark_mode", [True] * 200)[:0] + late(place, period)), "batch-too-late")


@pytest.mark.everyday
@pytest.mark.parametrize("later", [9 * DAY + 1, 400 * DAY])
def test_what_a_shuffler_forwards_after_its_own_wait_is_taken_though_all_was_off_beyond_the_horizon(
    place: Site, machine: Machine, monkeypatch: pytest.MonkeyPatch, later: float
) -> None:
    """It closes nothing before its clock has run for an hour; what it has then was acknowledged."""
    machine.on_one_host = True
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    waiting, period = place.batch("dark_mode", [True] * 250), place.period
    boot(machine, monkeypatch, later)
    place.reopen()
    booted = machine.now
    while machine.now < booted + 2 * HOUR + 300:
        place.get("/v1/bundle", headers=machine.date())
        place.service.tick()
        machine.now += 60
    name = os.urandom(16)
    assert name_of(place.put(waiting, name, headers=machine.date())) == ""
    place.work()
    assert place.json(f"/v1/batches/{name.hex()}")["state"] == "accepted"
    machine.now = booted + WAIT + 1
    place.service.tick()
    assert period not in secrets(place)
    problem(place.put(late(place, period), headers=machine.date()), "batch-too-late")


def late(site: Site, period: int) -> bytes:
    header = site.header("dark_mode", 1, period=period, key=0)
    return header.encode() + bytes(header.size)


def of(site: Site, name: str) -> float | None:
    found = {family.name: family.samples for family in snapshot(site.service, stored_now(site.service))}
    samples = found[f"hubbub_aggregator_{name}"]
    return samples[0].value if samples else None


@pytest.mark.everyday
@pytest.mark.parametrize("offset", [-2 * HOUR, 2 * HOUR, 30 * DAY])
def test_while_clocks_disagree_no_verdict_that_rests_on_one_is_final(
    place: Site, machine: Machine, offset: float
) -> None:
    machine.now = START + 12 * DAY
    place.service.tick()
    look(place, machine)
    machine.now += WAIT
    old, strange = START // DAY, os.urandom(16)
    unknown = [
        ("batch-too-late", late(place, old)),
        ("unknown-key", place.header("dark_mode", 1, key=99).encode() + bytes(69)),
        ("unknown-metric", place.header("dark_mode", 1, metric=strange).encode() + bytes(69)),
    ]
    for reason, body in unknown:
        problem(place.put(body, headers=machine.date()), reason)
    machine.offset = offset
    for _, body in unknown:
        answer = place.put(body, headers=machine.date())
        assert name_of(answer) in ("clock-in-doubt", "period-in-future"), answer.text
        assert answer.status_code in (503, 409)
    doubted = place.put(unknown[2][1], headers=machine.date())
    assert (name_of(doubted), doubted.headers["Retry-After"]) == ("clock-in-doubt", "60")
    machine.offset = 0.0
    look(place, machine)
    for reason, body in unknown[1:]:
        problem(place.put(body, headers=machine.date()), reason)


def test_a_batch_that_waits_is_not_refused_while_clocks_disagree(place: Site, machine: Machine) -> None:
    name = os.urandom(16)
    place.put(place.batch("dark_mode", [True] * 250), name)
    storage, key = place.service.storage, place.service.storage.sealing_keys()[0]
    storage.drop_key(key.id)
    machine.offset = 2 * HOUR
    place.get(f"/v1/batches/{name.hex()}", headers=machine.date())
    place.work()
    assert place.json(f"/v1/batches/{name.hex()}")["state"] == "pending"
    assert place.service.accumulator.progress.failures == 0
    machine.offset = 0.0
    storage.add_key(key)
    place.work()
    assert place.json(f"/v1/batches/{name.hex()}")["state"] == "accepted"


# -- who is heard -----------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path, pool: Pool, machine: Machine) -> Iterator[Site]:
    site = Site.open(
        tmp_path,
        pool,
        clock=machine,
        trusted=machine.trusted,
        shuffler_token=SecretStr(SHUFFLER),
        analyst_token=SecretStr(ANALYST),
    )
    yield site
    site.close()


def test_only_who_has_a_shuffler_token_is_heard_about_the_time(guarded: Site, machine: Machine) -> None:
    wrong = {"Date": formatdate(machine.now + 5 * DAY, usegmt=True)}
    for token in (None, "a-wrong-token-of-nobody", ANALYST):
        shown = wrong if token is None else wrong | {"Authorization": f"Bearer {token}"}
        bundle = guarded.get("/v1/bundle", headers=shown)
        assert bundle.status_code == 200
        assert bundle.content == guarded.get("/v1/bundle").content
        guarded.get(f"/v1/batches/{os.urandom(16).hex()}", headers=shown)
        assert guarded.service.clock.skew is None
    for path in ("/v1/bundle", f"/v1/batches/{os.urandom(16).hex()}"):
        guarded.get(path, headers=machine.date() | {"Authorization": f"Bearer {SHUFFLER}"})
        assert guarded.service.clock.skew == pytest.approx(0, abs=1)
    guarded.get("/v1/bundle", headers=wrong | {"Authorization": f"Bearer {SHUFFLER}"})
    assert guarded.service.clock.disagrees


def test_a_disagreement_is_warned_of_and_measured(
    guarded: Site, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    shown = {"Authorization": f"Bearer {SHUFFLER}"}
    assert of(guarded, "clock_skew_seconds") is None
    guarded.get("/v1/bundle", headers=machine.date() | shown)
    assert guarded.get("/readyz").json() == {"ok": True}
    machine.offset = 2 * HOUR
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            guarded.get("/v1/bundle", headers=machine.date() | shown)
            guarded.service.tick()
    assert of(guarded, "clock_skew_seconds") == pytest.approx(2 * HOUR, abs=1)
    ready = guarded.get("/readyz")
    assert ready.status_code == 200  # it takes batches all the same
    (warning,) = ready.json()["warnings"]
    assert warning["name"] == "clock"
    assert "7200 s ahead of a shuffler's" in warning["detail"]
    assert sum("7200 s ahead" in record.getMessage() for record in caplog.records) == 1


# -- what is published ------------------------------------------------------------------------------


@pytest.mark.everyday
@pytest.mark.parametrize("offset", [400 * DAY, -400 * DAY])
def test_a_bundle_is_not_dated_by_a_clock_that_can_not_be_believed(
    place: Site, machine: Machine, offset: float
) -> None:
    before = place.bundle()
    machine.offset = offset
    place.reopen()
    look(place, machine)
    assert place.service.storage.bundle().issued == before.body.issued  # type: ignore[union-attr]  # there is one
    revoked = before.body.keys[2].id
    place.service.ring.revoke(revoked, machine.now)
    place.service.tick()
    told = right(place, before)  # what must be told is told at once, in a bundle that has not expired
    assert next(key for key in told.body.keys if key.id == revoked).state == "revoked"
    assert told.body.sequence < machine.now + DAY
    machine.offset = 0.0
    place.reopen()
    place.get("/v1/bundle", headers=machine.date())
    machine.now += DAY
    after = right(place, told)
    assert machine.now <= after.body.expires <= machine.now + 7 * DAY


@pytest.mark.everyday
@pytest.mark.parametrize("later", [5 * DAY, 8 * DAY, 400 * DAY])
def test_after_a_boot_and_a_long_outage_devices_get_a_bundle_that_has_not_expired(
    place: Site, machine: Machine, monkeypatch: pytest.MonkeyPatch, later: float
) -> None:
    """Its expiry goes by a clock in doubt, and nothing else in it; it is a usual one once the clock is believed."""
    machine.on_one_host = True
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    before = place.bundle()
    boot(machine, monkeypatch, later)
    place.reopen()
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    assert place.service.in_doubt
    after = right(place, before)
    assert after.body.issued == before.body.issued
    if later > 7 * DAY:
        assert after.body.sequence == before.body.sequence + 1
        assert machine.now < after.body.expires <= machine.now + DAY
    assert headers_of(after) == headers_of(before)
    machine.now += HOUR  # it stays, and is not signed at every look
    place.service.tick()
    told = right(place, after)
    assert (told.body.issued, told.body.expires) == (int(machine.now), int(machine.now) + 7 * DAY)
    assert 0 <= told.body.sequence - told.body.issued <= 1


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_bundle_for_a_day_is_renewed_in_doubt_and_goes_when_the_clock_is_set_back(
    place: Site, machine: Machine
) -> None:
    first = place.bundle()
    machine.offset = 400 * DAY
    place.reopen()
    sequences = set()
    for _ in range(27):
        machine.now += HOUR
        place.get("/v1/bundle", headers=machine.date())  # which disagrees all the time
        place.service.tick()
        told = right(place, first)
        assert told.body.issued == first.body.issued
        assert DAY / 2 - HOUR <= told.body.expires - machine.wall() <= DAY
        sequences.add(told.body.sequence)
    assert len(sequences) <= 4  # two or three in a day, and one for the keys of the next
    machine.offset = 5 * DAY  # wrong, too, and before the end of the first one
    place.get("/v1/bundle", headers=machine.date())
    assert right(place, told).body.expires == first.body.expires
    machine.offset = 0.0
    place.get("/v1/bundle", headers=machine.date())
    place.service.tick()
    assert right(place, told).body.expires <= machine.now + 7 * DAY


def boot(machine: Machine, monkeypatch: pytest.MonkeyPatch, later: float) -> None:
    """The machine was off for this long."""
    machine.now += later
    monkeypatch.setattr(last_seen, "this_boot", lambda: "another")


def headers_of(bundle: Bundle) -> list[object]:
    return [codebook.metrics for codebook in bundle.body.codebooks]


def test_a_bundle_from_a_time_to_come_is_signed_again_once_the_clock_is_believed(
    tmp_path: Path, pool: Pool, machine: Machine
) -> None:
    machine.offset = 400 * DAY  # at the first start nothing is known
    site = Site.open(tmp_path, pool, clock=machine, trusted=machine.trusted)
    first = site.bundle()
    assert first.body.issued > machine.now + 300 * DAY
    machine.offset = 0.0
    site.reopen()
    site.get("/v1/bundle", headers=machine.date())
    after = right(site, first)
    assert after.body.sequence == first.body.sequence + 1
    assert after.body.expires == int(machine.now) + 7 * DAY
    site.close()


def test_an_edited_codebook_waits_for_a_clock_that_can_be_believed(
    place: Site, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """It would start in a year, and no other one before it."""
    edited = CODEBOOK.replace("Whether the dark theme is on", "Whether it is dark")
    machine.offset = 400 * DAY
    place.reopen(edited)
    look(place, machine)
    assert len(list(place.service.codebooks)) == 1
    assert caplog.text.count("the edited codebook waits") == 1
    place.get("/v1/bundle", headers=machine.date())
    machine.offset = 0.0
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    assert [version.first_period - place.period for version in place.service.codebooks] == [0, 1]


@pytest.mark.everyday
@pytest.mark.parametrize("offset", [5 * DAY, 400 * DAY])
def test_an_edited_codebook_waits_for_a_shuffler_on_the_same_machine_too(
    place: Site, machine: Machine, offset: float
) -> None:
    machine.on_one_host = True
    edited = CODEBOOK.replace("Whether the dark theme is on", "Whether it is dark")
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    before = place.bundle()
    machine.offset = offset
    place.reopen(edited)
    for _ in range(3):
        place.get("/v1/bundle", headers=machine.date())
        look(place, machine)
    assert len(list(place.service.codebooks)) == 1
    machine.offset = 0.0
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    assert [version.first_period - place.period for version in place.service.codebooks] == [0, 1]
    assert right(place, before).body.sequence <= machine.now  # no bundle was dated by that clock


def test_a_codebook_that_was_not_edited_waits_for_nothing(
    place: Site, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    machine.offset = 400 * DAY
    place.reopen()
    look(place, machine)
    assert place.service.written is None
    assert "edited codebook" not in caplog.text


@pytest.mark.everyday
@pytest.mark.parametrize("backfill", [0, 2])
@pytest.mark.parametrize("offset", [5 * DAY, 400 * DAY])
def test_a_first_start_under_a_clock_that_is_ahead_is_mended(
    request: pytest.FixtureRequest,
    place: Site,
    machine: Machine,
    offset: float,
    backfill: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else nothing is collected until that day comes."""
    place.close()
    if place.settings.storage is None:
        (place.state_dir / DATABASE).unlink()
    else:
        request.getfixturevalue("redis_server").client().flushall()
    place.settings = place.settings.model_copy(update={"backfill_periods": backfill})
    machine.offset = offset
    place.start()
    look(place, machine)
    machine.offset = 0.0
    place.reopen()
    look(place, machine)
    (warning,) = place.get("/readyz").json()["warnings"]
    assert warning["name"] == "codebook"
    assert "nothing is collected before the period 20" in warning["detail"]
    assert right_now(place) is None
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    assert place.get("/readyz").json() == {"ok": True}
    assert [version.first_period - place.period for version in place.service.codebooks] == [-backfill]
    assert [right_now(place, day) is None for day in range(3)] == [False] * 3
    assert "starts now and not with the period" in caplog.text
    assert place.settle(place.batch("dark_mode", [True] * 250))["valid"] == 250


def right_now(site: Site, later: int = 0) -> object:
    """The key of the present period, or of one after it, that a device finds in the bundle."""
    body = verify(site.get("/v1/bundle").content, [site.service.anchor], site.clock()).body
    return body.key_for(site.period + later) if body.in_force(site.period + later) else None


def test_a_start_that_batches_speak_for_is_not_moved(place: Site, machine: Machine) -> None:
    place.settle(place.batch("dark_mode", [True] * 250))
    first = place.service.codebooks.first_period
    machine.now -= 5 * DAY
    place.reopen()
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    assert place.service.codebooks.first_period == first


@pytest.mark.parametrize("place", ["redis"], indirect=True)
def test_a_standby_that_no_shuffler_speaks_to_is_stopped_by_the_clock_of_redis(place: Site, machine: Machine) -> None:
    """It shares its keys with others."""
    held = secrets(place)
    machine.offset = 20 * DAY
    place.reopen()
    for _ in range(30):
        machine.now += 600
        place.service.tick()
    assert secrets(place).items() >= held.items()
    assert "ahead of the storage's" in str(place.get("/readyz").json()["warnings"])
    machine.offset = 0.0
    place.service.tick()
    assert "warnings" in place.get("/readyz").json()  # it was set
    machine.now += WAIT
    place.service.tick()
    assert place.get("/readyz").json() == {"ok": True}


@pytest.mark.everyday
@pytest.mark.parametrize("offset", [-400 * DAY, 400 * DAY])
def test_where_ids_are_scarce_no_key_makes_room_on_the_word_of_a_shuffler_on_the_same_machine(
    place: Site, machine: Machine, offset: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "free_ids", lambda _keys: 0)
    machine.on_one_host = True
    place.get("/v1/bundle", headers=machine.date())
    held = secrets(place)
    machine.offset = offset
    for _ in range(3):
        place.get("/v1/bundle", headers=machine.date())
        look(place, machine)
    place.reopen()
    place.get("/v1/bundle", headers=machine.date())
    look(place, machine)
    assert secrets(place).items() >= held.items()


def test_a_release_is_complete_only_when_no_batch_is_taken_any_more(place: Site, machine: Machine) -> None:
    path = "/v1/metrics/dark_mode/estimate"
    late_one = place.batch("dark_mode", [False] * 250, seed=2)
    place.settle(place.batch("dark_mode", [True] * 250))
    machine.now = START + 9 * DAY + 1
    place.service.tick()
    assert not place.json(path)["complete"]
    assert place.settle(late_one)["state"] == "accepted"
    machine.now += WAIT
    place.service.tick()
    assert place.json(path)["complete"]
    place.reopen()  # what is erased stays so
    assert place.json(path)["complete"]
    problem(place.put(late_one), "batch-too-late")


def test_a_batch_is_worked_on_while_the_horizon_is_over_by_the_clock_alone(place: Site, machine: Machine) -> None:
    """A failure of ours is not final then."""
    name = os.urandom(16)
    place.put(place.batch("dark_mode", [True] * 250), name)
    good = place.service.accumulator.pool
    place.service.accumulator.pool = _Failing(1)
    machine.offset = 20 * DAY
    assert place.drain() == 1
    machine.offset = 0.0
    place.service.accumulator.pool = good
    place.work()
    assert place.json(f"/v1/batches/{name.hex()}")["valid"] == 250


class _Failing(Pool):
    async def map(self, *_: Any) -> Any:
        raise RuntimeError("no worker comes up")
