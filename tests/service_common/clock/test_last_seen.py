"""The time of the last run: what a service knows of it at its start."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hubbub_service_common.clock import last_seen
from hubbub_service_common.clock.last_seen import FILE, LastSeen, this_boot
from hubbub_service_common.clock.trusted_clock import LONGEST_WAIT, TOLERANCE, TrustedClock
from tests.service_common.clock.test_trusted_clock import Machine

_DAY = 86_400.0


def start(directory: Path, machine: Machine) -> tuple[TrustedClock, LastSeen]:
    clock = TrustedClock(machine.wall, machine.monotonic, peer="the shuffler's")
    seen = LastSeen(directory, clock)
    seen.recall()
    return clock, seen


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """On which a service has run."""
    found = Machine()
    _, seen = start(tmp_path, found)
    seen.note(found.wall())
    return found


@pytest.mark.parametrize("away", [0.0, 3_000.0, 30 * _DAY])
def test_until_a_machine_boots_its_own_clock_tells_how_long_a_service_was_away(
    tmp_path: Path, machine: Machine, away: float
) -> None:
    machine.running += away
    for offset, right in ((0.0, True), (TOLERANCE + 5, False), (-TOLERANCE - 5, False), (5 * _DAY, False)):
        machine.offset = offset
        clock, _ = start(tmp_path, machine)
        assert clock.believable() is right
        clock.hear(machine.own_date())
        assert clock.believable() is right


@pytest.mark.parametrize(
    ("later", "right"),
    [(0.0, True), (LONGEST_WAIT - 5, True), (LONGEST_WAIT + 5, False), (-TOLERANCE - 5, False), (400 * _DAY, False)],
)
def test_after_a_boot_it_can_be_up_to_an_hour_later(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, later: float, right: bool
) -> None:
    monkeypatch.setattr(last_seen, "this_boot", lambda: "another")
    machine.offset, machine.running = machine.running + later, 0.0
    clock, _ = start(tmp_path, machine)
    clock.hear(machine.own_date())
    assert clock.believable() is right


def test_where_boots_have_no_name_every_start_is_one_after_a_boot(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_seen, "_BOOT", tmp_path / "nothing")
    assert this_boot() == "-"
    _, seen = start(tmp_path, machine)
    seen.note(machine.wall())
    machine.running += 2 * _DAY
    clock, _ = start(tmp_path, machine)
    assert clock.was_set()


def test_a_time_that_is_not_believed_does_not_vouch_for_itself(tmp_path: Path, machine: Machine) -> None:
    before = (tmp_path / FILE).read_bytes()
    machine.offset = 5 * _DAY
    clock, seen = start(tmp_path, machine)
    machine.running += 600
    seen.note(clock.believed())
    machine.running += 600
    seen.note(-math.inf)
    assert (tmp_path / FILE).read_bytes().splitlines()[:1] == before.splitlines()


def test_short_sessions_after_boots_add_up_to_the_wait(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop that runs for 50 minutes a day closes what was due at the session before."""
    began = []
    for day in range(1, 4):
        monkeypatch.setattr(last_seen, "this_boot", lambda day=day: f"boot {day}".replace(" ", "-"))
        machine.offset += _DAY + machine.running
        machine.running = 0.0
        began.append(machine.wall())
        clock, seen = start(tmp_path, machine)
        for minute in range(50):
            assert clock.believed() == -math.inf
            seen.note(clock.believed())
            reached = clock.reached()
            if day == 1 or minute < 10:
                assert reached < began[-1] - _DAY / 2
            elif minute > 11:  # up to a minute of each session is not noted
                assert began[-2] <= reached <= began[-2] + 50 * 60
            machine.running += 60
            clock.hear(machine.own_date())


@pytest.mark.parametrize("why", ["behind", "other"])
def test_sessions_do_not_add_up_under_a_clock_that_is_set_back_or_disputed(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(last_seen, "this_boot", lambda: "another")
    machine.offset = 20 * _DAY
    clock, seen = start(tmp_path, machine)
    for _ in range(59):
        machine.running += 60
        seen.note(clock.believed())
    machine.offset = 5 * _DAY if why == "behind" else 21 * _DAY
    clock, seen = start(tmp_path, machine)
    if why == "other":
        clock.hear(machine.date())
    for _ in range(59):
        machine.running += 60
        seen.note(clock.believed())
        assert clock.reached() == -math.inf


def test_an_operator_can_say_that_the_clock_is_right(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_seen, "this_boot", lambda: "another")
    machine.offset = 20 * _DAY
    clock = TrustedClock(machine.wall, machine.monotonic, peer="the shuffler's")
    LastSeen(tmp_path, clock).recall(confirmed=True)
    assert clock.believed() == machine.wall()
    assert clock.past() == clock.reached() == -math.inf  # what is erased takes its time all the same
    clock.hear(machine.date())
    assert not clock.believable()  # and nobody may disagree


def test_it_is_noted_once_a_minute_and_for_the_owner_only(tmp_path: Path, machine: Machine) -> None:
    _, seen = start(tmp_path, machine)
    seen.note(machine.wall())
    first = (tmp_path / FILE).read_bytes()
    machine.running += 59
    seen.note(machine.wall())
    assert (tmp_path / FILE).read_bytes() == first
    machine.running += 1
    seen.note(machine.wall())
    assert (tmp_path / FILE).read_bytes() != first
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content", [b"", b"one two three", b"a 1", b"\xff 1 2", b"boot nan inf", b"boot 1 2\nrun", b"boot 1 2\n1 2 3"]
)
def test_a_file_that_can_not_be_read_says_nothing(tmp_path: Path, machine: Machine, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    clock, _ = start(tmp_path, machine)
    assert not clock.was_set()
    assert not clock.believable()


def test_a_clock_that_is_set_on_purpose_leaves_no_trace(tmp_path: Path) -> None:
    seen = LastSeen(tmp_path, TrustedClock.set_by(lambda: 5.0))
    seen.recall()
    seen.note(5.0)
    assert not list(tmp_path.iterdir())
