"""The trusted clock: nothing that can't be undone rests on one look at one clock."""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass
from email.utils import formatdate

import pytest

from hubbub_service_common.clock.trusted_clock import LONGEST_WAIT, TOLERANCE, TrustedClock
from tests.support.clock import WrongClock

_DAY = 86_400.0
_START = 1_800_000_000.0
OFFSETS = [sign * far for far in (2 * 3_600, 5 * _DAY, 400 * _DAY) for sign in (1, -1)]


@dataclass
class Machine(WrongClock):
    """It says the date in its answers."""

    start: float = _START
    running: float = 1_000.0

    def date(self) -> str:
        """What a machine with the right time says."""
        return formatdate(self.right(), usegmt=True)

    def own_date(self) -> str:
        """What another service on this machine says."""
        return formatdate(self.wall(), usegmt=True)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def clock(machine: Machine) -> TrustedClock:
    return TrustedClock(machine.wall, machine.monotonic, peer="the shuffler's", says="nothing is erased")


def _run(machine: Machine, clock: TrustedClock, seconds: float, step: float = 30.0) -> None:
    until = machine.running + seconds
    while machine.running < until:
        machine.running += step
        clock.look()


def test_nothing_is_past_before_the_process_has_run_for_the_wait(machine: Machine, clock: TrustedClock) -> None:
    assert clock.past() == -math.inf
    _run(machine, clock, LONGEST_WAIT - 30)
    assert clock.past() == -math.inf
    _run(machine, clock, 30)
    assert clock.past() == pytest.approx(_START + 1_000.0)


def test_a_time_is_past_one_wait_after_it(machine: Machine, clock: TrustedClock) -> None:
    limit = machine.wall() + 2 * _DAY
    _run(machine, clock, 2 * _DAY)
    assert clock.past(600) < limit
    _run(machine, clock, 600)
    assert clock.past(600) >= limit > clock.past(601)


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_minute_under_a_wrong_clock_makes_nothing_past(machine: Machine, clock: TrustedClock, offset: float) -> None:
    _run(machine, clock, 2 * LONGEST_WAIT)
    machine.offset = offset
    for _ in range(60):
        machine.running += 1
        assert clock.past() == -math.inf
    machine.offset = 0.0
    assert clock.past() == -math.inf
    _run(machine, clock, LONGEST_WAIT)
    assert clock.past() == pytest.approx(machine.wall() - LONGEST_WAIT)


def test_a_process_that_starts_under_a_wrong_clock_is_stopped_by_a_right_one(machine: Machine) -> None:
    machine.offset = 20 * _DAY
    clock = TrustedClock(machine.wall, machine.monotonic, peer="the shuffler's", says="nothing is erased")
    for _ in range(10):
        _run(machine, clock, LONGEST_WAIT - 60)
        clock.hear(machine.date())
        assert clock.past() == -math.inf
        assert not clock.believable()


def test_a_step_shows_before_the_next_message(machine: Machine, clock: TrustedClock) -> None:
    clock.hear(machine.date())
    assert clock.believable()
    machine.offset = TOLERANCE + 2
    assert clock.disagrees
    assert not clock.believable()
    machine.offset = 0.0
    assert clock.believable()


@pytest.mark.parametrize("offset", [-TOLERANCE + 2, -8.0, 8.0, TOLERANCE - 2])
def test_small_differences_hold_up_nothing(machine: Machine, clock: TrustedClock, offset: float) -> None:
    _run(machine, clock, LONGEST_WAIT)
    machine.offset = offset
    clock.hear(machine.date())
    assert clock.believable()
    assert clock.skew == pytest.approx(offset, abs=1.0)
    assert clock.past() > -math.inf


def test_the_lower_of_two_readings_counts(machine: Machine, clock: TrustedClock) -> None:
    _run(machine, clock, 600)
    machine.offset = 200.0
    _run(machine, clock, LONGEST_WAIT)
    assert clock.past() == pytest.approx(machine.wall() - 200.0 - LONGEST_WAIT)


def test_without_a_peer_a_clock_must_run_for_the_wait(machine: Machine, clock: TrustedClock) -> None:
    assert not clock.believable(600)
    _run(machine, clock, 600)
    assert clock.believable(600)
    machine.offset = 5 * _DAY
    assert not clock.believable(600)


def test_one_who_disagreed_and_fell_silent_counts_for_a_day(machine: Machine, clock: TrustedClock) -> None:
    machine.offset = 5 * _DAY
    clock.hear(machine.date())
    _run(machine, clock, _DAY)
    assert clock.disagrees
    assert clock.past() == -math.inf
    _run(machine, clock, 30)
    assert clock.skew is None
    assert clock.past() == -math.inf
    _run(machine, clock, LONGEST_WAIT)
    assert clock.past() > -math.inf


def test_the_other_clock_never_says_what_time_it_is(machine: Machine, clock: TrustedClock) -> None:
    _run(machine, clock, LONGEST_WAIT)
    before = clock.past()
    clock.hear(formatdate(machine.wall() + TOLERANCE - 5, usegmt=True))
    assert clock.now() == machine.wall()
    assert clock.past() == before


@pytest.mark.parametrize("date", [None, "", "yesterday", "Mon, 99 Foo 99999999999 00:00:00 GMT", "9" * 10_000])
def test_what_is_no_date_says_nothing(clock: TrustedClock, date: str | None) -> None:
    clock.hear(date)
    assert clock.skew is None
    assert not clock.disagrees


def test_it_is_said_once(machine: Machine, clock: TrustedClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock.hear(machine.date())
    machine.offset = 2 * 3_600
    for _ in range(3):
        clock.hear(machine.date())
        machine.running += 1
    machine.offset = 0.0
    for _ in range(20):  # it takes turns with one that is right
        clock.hear(machine.date())
        machine.running += 100
        clock.hear(formatdate(machine.wall() - 7_200, usegmt=True))
    for _ in range(15):
        clock.hear(machine.date())
        machine.running += TOLERANCE
    said = [record.getMessage() for record in caplog.records]
    assert (
        said
        == [
            "this clock is 7200 s ahead of the shuffler's: one of the two is wrong, so nothing is erased. "
            "Check the time on both machines",
            "nothing speaks against this clock any more",
        ]
        * 2
    )  # this clock, and then the other


# -- one machine, one clock ---------------------------------------------------------------------------


@pytest.mark.parametrize("offset", OFFSETS)
def test_another_service_on_the_same_machine_does_not_answer_for_a_step(
    machine: Machine, clock: TrustedClock, offset: float
) -> None:
    clock.hear(machine.own_date())
    assert clock.believable()
    machine.offset = offset
    for _ in range(60):
        clock.hear(machine.own_date())
        assert not clock.believable()
        assert clock.believed() == clock.by_both() == -math.inf
        machine.running += 1
    assert "was set" in str(clock.warning())
    machine.offset = 0.0
    clock.hear(machine.own_date())
    assert clock.believable()  # it is where it was
    assert clock.warning() is None


def test_a_step_that_is_lived_with_is_believed(machine: Machine, clock: TrustedClock) -> None:
    clock.hear(machine.own_date())
    machine.offset = 2 * 3_600
    for _ in range(60):
        clock.hear(machine.own_date())
        assert not clock.believable(3_600)
        machine.running += 60
    assert clock.believable(3_600)
    assert clock.warning() is None


def test_a_step_on_the_way_back_is_no_way_back(machine: Machine, clock: TrustedClock) -> None:
    clock.hear(machine.own_date())
    for offset in (5 * _DAY, 2 * _DAY, 3_600, TOLERANCE + 10):
        machine.offset = offset
        clock.hear(machine.own_date())
        assert not clock.believable()
    machine.offset = TOLERANCE - 10
    clock.hear(machine.own_date())
    assert clock.believable()


def test_a_step_to_where_the_other_clock_was_before_it_is_believed_at_once(machine: Machine) -> None:
    """That one was not set together with this one: it is another machine's."""
    machine.offset = 5 * _DAY
    clock = TrustedClock(machine.wall, machine.monotonic, peer="the shuffler's")
    clock.hear(machine.date())
    assert not clock.believable()
    machine.running += 60
    machine.offset = 0.0
    assert clock.believable()


def test_a_laptop_that_naps_closes_what_was_due_an_hour_of_running_time_ago(
    machine: Machine, clock: TrustedClock
) -> None:
    sums, held = 0, 0
    for minute in range(24 * 60):
        machine.running += 60
        clock.look()
        clock.hear(machine.own_date())
        reached = clock.reached()
        assert reached <= machine.wall() - LONGEST_WAIT
        held += reached == -math.inf
        sums += reached >= machine.wall() - 2 * LONGEST_WAIT
        if minute % 50 == 49:
            machine.offset += 360
    assert held < 60
    assert sums > 1_300
    clock.hear(machine.date())  # one on another machine, which was not suspended
    assert clock.reached() == -math.inf


def test_what_a_clock_said_before_a_step_forward_is_past_and_what_it_says_since_is_not(
    machine: Machine, clock: TrustedClock
) -> None:
    _run(machine, clock, 2 * LONGEST_WAIT)
    right = machine.wall()
    machine.offset = 5 * _DAY
    _run(machine, clock, LONGEST_WAIT - 30)
    assert clock.reached() < right
    machine.offset = 2 * _DAY  # and back a bit: nobody knows
    clock.look()
    assert clock.reached() == -math.inf


def test_the_warning_says_how_long_it_lasts(machine: Machine, clock: TrustedClock) -> None:
    clock.hear(machine.own_date())
    machine.offset = 2 * 3_600
    clock.hear(machine.own_date())
    assert clock.was_set(40)
    assert "has run for 40 seconds without a step, which by this clock is 2027-01-15 10:17:20 UTC" in str(
        clock.warning()
    )


@pytest.mark.parametrize("offset", [-400 * _DAY, -600.0, 4_000.0, 5 * _DAY])
def test_a_start_far_from_when_the_service_ran_last_is_like_a_step(machine: Machine, offset: float) -> None:
    machine.offset = offset
    clock = TrustedClock(machine.wall, machine.monotonic, peer="the shuffler's")
    ran = _START + machine.running
    clock.recall(ran - TOLERANCE, ran + LONGEST_WAIT)
    for _ in range(10):
        clock.hear(machine.own_date())
        assert not clock.believable()
        machine.running += 60
    machine.offset = 0.0
    clock.hear(machine.own_date())
    assert clock.believable()


def test_a_long_outage_costs_the_wait_and_no_more(machine: Machine, clock: TrustedClock) -> None:
    ran = machine.wall() - 3 * _DAY
    clock.recall(ran - TOLERANCE, ran + LONGEST_WAIT)
    for _ in range(10):
        clock.hear(machine.date())
        assert not clock.believable(600)
        machine.running += 60
    assert clock.believable(600)


def test_a_start_near_to_when_the_service_ran_last_is_believed_without_a_word(
    machine: Machine, clock: TrustedClock
) -> None:
    clock.recall(machine.wall() - 50, machine.wall() + LONGEST_WAIT)
    assert clock.believed() == machine.wall()
    assert clock.past() == -math.inf  # that takes its time
    machine.offset = 2 * 3_600
    assert not clock.believable()


# -- several others -----------------------------------------------------------------------------------


def test_of_several_others_the_one_that_is_furthest_away_is_shown(machine: Machine, clock: TrustedClock) -> None:
    """Else one of two shufflers, which is wrong, stops erasing and nobody sees why."""
    for minute in range(180):
        machine.running += 60
        if minute % 30 == 0:
            clock.hear(formatdate(_START + machine.running + 7_200, usegmt=True))
        clock.hear(machine.date())
        assert clock.worst_skew == pytest.approx(-7_200, abs=2)
        assert "7200 s behind" in str(clock.warning()) or "7201 s behind" in str(clock.warning())
        assert clock.skew == pytest.approx(0, abs=2)
        assert clock.past() == -math.inf
    for _ in range(61):
        machine.running += 60
        clock.hear(machine.date())
    assert clock.warning() is None
    assert clock.worst_skew == pytest.approx(0, abs=2)


def test_a_clock_that_disagreed_and_fell_silent_is_shown_for_as_long_as_it_holds_things_up(
    machine: Machine, clock: TrustedClock
) -> None:
    """Else nothing is erased for a day, and nobody sees why."""
    clock.hear(formatdate(machine.wall() + 7_200, usegmt=True))
    for _ in range(23):
        machine.running += 3_600
        assert clock.disagrees
        assert clock.worst_skew == pytest.approx(-7_200, abs=2)
        assert "behind" in str(clock.warning())
    machine.running += 3_601
    assert not clock.disagrees
    assert clock.worst_skew is None
    assert clock.warning() is None


def test_a_third_clock_can_disagree_and_nothing_else(machine: Machine, clock: TrustedClock) -> None:
    clock.compare("the storage's", machine.wall())
    assert not clock.believable()
    assert clock.worst_skew is None
    clock.hear(machine.date())
    assert clock.believable()
    for _ in range(60):
        machine.running += 60
        clock.compare("the storage's", machine.wall() - 7_200)
        assert not clock.believable()
        assert clock.past() == -math.inf
    assert "7200 s ahead of the storage's" in str(clock.warning())
    clock.compare("the storage's", machine.wall())
    assert clock.believable()
    clock.compare("the storage's", machine.wall() - 7_200)
    clock.compare("the storage's", None)
    assert clock.believable()


@pytest.mark.parametrize("offset", [-7_200.0, 7_200.0])
def test_while_two_disagree_it_is_known_what_time_it_is_by_both(
    machine: Machine, clock: TrustedClock, offset: float
) -> None:
    assert clock.by_both() == -math.inf
    clock.hear(formatdate(machine.wall() + offset, usegmt=True))
    assert clock.believed() == -math.inf
    assert clock.by_both() == pytest.approx(machine.wall() + min(0.0, offset), abs=1)
    machine.offset = 5 * _DAY
    assert clock.by_both() == -math.inf


def test_threads_take_turns(machine: Machine) -> None:
    other: list[threading.Thread] = []

    def monotonic() -> float:
        if armed:
            armed.clear()
            other.append(threading.Thread(target=clock.look))
            other[0].start()
            other[0].join(0.2)
            assert other[0].is_alive(), "it looked while another thread was at it"
        return machine.running

    armed: list[bool] = []
    clock = TrustedClock(machine.wall, monotonic, peer="the shuffler's")
    machine.running += 2 * LONGEST_WAIT
    armed.append(True)
    assert clock.past() == pytest.approx(machine.wall() - LONGEST_WAIT)
    other[0].join()


def test_a_clock_that_is_set_on_purpose_is_its_own_measure() -> None:
    at = [_START]
    clock = TrustedClock.set_by(lambda: at[0])
    assert clock.believable()
    at[0] += 10 * _DAY
    assert clock.believable()
    assert clock.past() == at[0] - LONGEST_WAIT
