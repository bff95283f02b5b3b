"""Trust in this machine's clock: irreversible steps ask here before they believe what time it is.

A clock can be wrong for a minute: after a boot before the time is set, after a wake-up, after a mistyped date. One look
at it is no reason to erase a key or to call a batch too late. Four things are checked against it:

- its own course: a step of more than `TOLERANCE` against the monotonic clock;
- the other service's `Date` header, kept as a distance from our monotonic clock, so that a step of our own clock shows
  at once and not only with the next message;
- when the service last ran (`hubbub_service_common.clock.last_seen`);
- time: what is erased must have been due for a while, during which the process ran and nothing spoke against the clock.

Both services may be on one machine, and then they agree on whatever its clock says. So after a step, it is not enough
that another clock agrees. The step is believed only if a clock that was heard before it agrees with the new time, or
after a wait.

Another machine's clock can only hold things up. It never says what time it is.

CLOCK_BOOTTIME is not the measure, although a suspended machine makes a step against CLOCK_MONOTONIC: at the end of a
suspend, the same battery-backed clock sets both it and the wall clock, so an error of that clock would not show.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import RLock
from typing import NamedTuple

from hubbub_service_common.process.clock_and_entropy import monotonic, wall

__all__ = ["LONGEST_WAIT", "TOLERANCE", "Run", "TrustedClock"]

TOLERANCE = 300.0
"""Seconds by which two clocks may differ before one of them is called wrong."""
LONGEST_WAIT = 3_600.0
"""Seconds for which something must be due before it is erased, unless the horizon is shorter."""
_REMEMBERED = 86_400.0
"""Seconds for which a Date counts: longer than the wait, so that a service that disagreed and fell silent counts."""
_LONGEST_DATE = 64
_MOST_RUNS = 100
"""Most runs that are remembered. They cover the longest wait if each is longer than a minute."""


class _Heard(NamedTuple):
    """Another clock: whose it is, its reading minus our monotonic clock, and the monotonic time of the reading."""

    whose: str
    ahead: float
    at: float


class _Course(NamedTuple):
    """The monotonic time since when nothing has spoken against the wall clock, and the least and most by which that was
    ahead of the monotonic clock since. One value, so that no thread sees half of a change.
    """

    since: float
    lowest: float
    highest: float


class Run(NamedTuple):
    """A stretch of running time without a step of the clock: its length, and the lowest reading for its start."""

    seconds: float
    start: float


class TrustedClock:
    """One process's wall clock, checked against itself and against other services' clocks. Any thread may ask.

    `peer`: the service that sends us a Date, in words for the log; None if there is none, as where one clock is set for
    all. `says`: what is held up while the clock is in doubt, for the log.
    """

    def __init__(
        self,
        wall: Callable[[], float] = wall,
        monotonic: Callable[[], float] = monotonic,
        *,
        peer: str | None = None,
        says: str = "",
        log: logging.Logger | None = None,
    ) -> None:
        self._wall, self.monotonic, self._peer, self._says = wall, monotonic, peer, says
        self._log = log or logging.getLogger(__name__)
        self._lock = RLock()
        self._last: _Heard | None = None
        """The other service's clock, as last heard."""
        self._worst: _Heard | None = None
        """The reading that was recently furthest away: of two other machines that take turns, one may be wrong."""
        self._third: _Heard | None = None
        """A clock that can only disagree; see `compare`."""
        running = monotonic()
        self._course = _Course(running, wall() - running, wall() - running)
        self._before: tuple[float, float] | None = None
        """Least and most by which the clock was ahead before a step that is still in doubt; None if there is none."""
        self._vouched = False
        """Whether the clock was right when the process started, judged by when the service last ran."""
        self._earlier: tuple[Run, ...] = ()
        """Runs before the last step. They count if the clock only went forward, as over a suspend or while off."""
        self.wait = LONGEST_WAIT
        """Seconds for which the clock is in doubt after a step, as last asked; for the warning."""
        self._complained = ""

    @classmethod
    def set_by(cls, clock: Callable[[], float]) -> TrustedClock:
        """A clock that is set on purpose, for the simulator and tests: it is its own measure and has no peer."""
        return cls(clock, clock)

    @property
    def is_set_on_purpose(self) -> bool:
        """Whether the clock is set on purpose, and not checked against any other."""
        return self._peer is None

    def now(self) -> float:
        """The clock's time, believed or not."""
        return self._wall()

    def hear(self, date: str | None) -> None:
        """Take note of another machine's Date header. It is ignored if it is not a date, or if there is no peer."""
        said = _seconds(date)
        if said is None or self._peer is None:
            return
        with self._lock:
            self.look()  # a step since the last look is compared with what was heard before it
            at = self.monotonic()
            self._last = heard = _Heard(self._peer, said - at, at)
            worst = self._worst
            if worst is None or at - worst.at > LONGEST_WAIT or abs(self._skew(heard)) >= abs(self._skew(worst)):
                self._worst = heard
            self._forget_if_far(heard)
            self.look()

    def compare(self, whose: str, reading: float | None) -> None:
        """Compare a third clock with this one, until the next call: that of a storage which several processes share.

        It can only disagree: its agreement makes nothing believable.
        """
        if reading is None or self._peer is None:
            self._third = None
            return
        with self._lock:
            at = self.monotonic()
            self._third = _Heard(whose, reading - at, at)
            self._forget_if_far(self._third)
            self.look()

    def recall(self, earliest: float, latest: float, runs: Sequence[Run] = ()) -> None:
        """At the start: judged by when the service last ran, the time must be between these two.

        If the clock agrees, it is believed without another clock. If not, no other clock is enough, as after a step.
        `runs`: of earlier processes since the clock was last believed; they count if it only went forward since.
        """
        with self._lock:
            running, now = self.monotonic(), self._wall()
            self._vouched = earliest <= now <= latest
            # written so that `_is_back` holds from the earliest to the latest
            self._before = None if self._vouched else (latest - running - TOLERANCE, earliest - running + TOLERANCE)
            self._earlier = tuple(runs) if not runs or now >= sum(runs[-1]) - TOLERANCE else ()

    @property
    def skew(self) -> float | None:
        """Seconds by which this clock is ahead of the other one, as last heard; None if no Date came for a day."""
        with self._lock:
            last = self._recent(self._last, _REMEMBERED)
            return None if last is None else self._skew(last)

    @property
    def worst_skew(self) -> float | None:
        """The skew of the clock that was furthest away, of those heard within the last hour and the one heard last,
        which holds things up for a day. This is what operators see."""
        with self._lock:
            worst = self._furthest()
            return None if worst is None else self._skew(worst)

    @property
    def disagrees(self) -> bool:
        """Whether another clock, as last heard, speaks against this one now."""
        with self._lock:
            heard = [self._recent(self._last, _REMEMBERED), self._recent(self._third, _REMEMBERED)]
            return any(each is not None and abs(self._skew(each)) > TOLERANCE for each in heard)

    def was_set(self, wait: float = LONGEST_WAIT) -> bool:
        """Whether the clock made a step, or was far off at the start, and has not run undisputed for `wait` since."""
        with self._lock:
            self.wait = wait
            self.look()
            if self.monotonic() - self._course.since >= wait:
                self._before = None
            return self._before is not None

    def contradicted(self, wait: float = LONGEST_WAIT) -> bool:
        """Whether anything speaks against the clock: it was set, or another clock disagrees."""
        with self._lock:
            return self.was_set(wait) or self.disagrees

    def believable(self, wait: float = LONGEST_WAIT) -> bool:
        """Whether an irreversible step may rest on what the clock says now.

        Nothing may speak against the clock, and something must speak for it: it was right at the start, the other clock
        agrees, or nothing was against it for `wait` seconds.
        """
        with self._lock:
            if self._peer is None:
                return True
            if self.contradicted(wait):
                return False
            lived = self.monotonic() - self._course.since >= wait
            return lived or self._vouched or self.skew is not None

    def believed(self, wait: float = LONGEST_WAIT) -> float:
        """The clock's time if it is believable, otherwise minus infinity. Act on this reading, not on another one."""
        with self._lock:
            now = self._wall()
            return now if self.believable(wait) and abs(self._wall() - now) <= TOLERANCE else -math.inf

    def by_both(self, wait: float = LONGEST_WAIT) -> float:
        """A time that has been reached by this clock and by the other one. Minus infinity if the other was not heard,
        or if this one made a step. Weaker than `believed`, but it also gives an answer while the two disagree.
        """
        with self._lock:
            now, skew = self._wall(), self.skew
            return -math.inf if skew is None or self.was_set(wait) else min(now, now - skew)

    def earlier_of_both(self) -> float:
        """The earlier of this clock's time and the other's; minus infinity if the other was not heard.

        Only for steps that can be undone: on one machine both may be wrong.
        """
        with self._lock:
            now, skew = self._wall(), self.skew
            return -math.inf if skew is None else min(now, now - skew)

    def past(self, wait: float = LONGEST_WAIT) -> float:
        """A time that is certainly past: the clock was beyond it `wait` seconds ago, and at every look since.

        Minus infinity while anything speaks against the clock, and for `wait` seconds after that.
        """
        with self._lock:
            self.look()
            elapsed, course = self.monotonic(), self._course
            return -math.inf if elapsed - course.since < wait else elapsed - wait + course.lowest

    def reached(self, wait: float = LONGEST_WAIT) -> float:
        """A time that it was `wait` seconds of running time ago; every look since has shown a later one. Minus infinity
        if the service has not run for that long in total since anything spoke against the clock.

        Suspends and restarts do not end it, although they put the clock in doubt: short sessions add up.
        """
        with self._lock:
            self.look()
            if self.disagrees:
                return -math.inf
            lowest, left = math.inf, wait
            for run in reversed(self.runs()):
                if run.seconds >= left:
                    return min(lowest, sum(run) - left)
                lowest, left = min(lowest, run.start), left - run.seconds
            return -math.inf

    def runs(self) -> tuple[Run, ...]:
        """Stretches of running time, the present one last, over which the clock only went forward."""
        with self._lock:
            course = self._course
            return (*self._earlier, Run(self.monotonic() - course.since, course.since + course.lowest))

    def look(self) -> None:
        """Check whether anything speaks against the clock, and log it once."""
        with self._lock:
            running = self.monotonic()
            ahead, course = self._wall() - running, self._course
            stepped = not _is_back(ahead, (course.lowest, course.highest))
            if stepped:
                # backward: one of the two times was wrong. Forward, as after a suspend: earlier runs are still past
                self._earlier = () if course.highest - ahead > TOLERANCE else self.runs()[-_MOST_RUNS:]
                self._stepped(ahead)
            if self._before is not None and _is_back(ahead, self._before):
                self._before = None
            if stepped or self.disagrees:
                self._course = _Course(running, ahead, ahead)
            else:
                self._course = _Course(course.since, min(course.lowest, ahead), max(course.highest, ahead))
            self._report()

    def _forget_if_far(self, heard: _Heard) -> None:
        """Forget earlier runs if a clock that is heard now disagrees. One heard before a step need not end them."""
        if abs(self._skew(heard)) > TOLERANCE:
            self._earlier = ()

    def _stepped(self, ahead: float) -> None:
        """Doubt the clock after a step, unless the step was to where the other clock was before it. Agreement after
        the step would prove nothing: on one machine both clocks were set.
        """
        if self._before is None:
            self._before = (self._course.lowest, self._course.highest)
        last = self._recent(self._last, _REMEMBERED)
        if last is not None and abs(ahead - last.ahead) <= TOLERANCE:
            self._before = None
        self._worst = None  # it may have been set together with this one

    def warning(self) -> str | None:
        """What is wrong, in words for operators; None if nothing is."""
        return self._wrong()[1] or None

    def _wrong(self) -> tuple[str, str]:
        """What is wrong: in one word, and in words for operators. Both are empty if nothing is wrong."""
        with self._lock:
            worst = self._furthest()
            skew = 0.0 if worst is None else self._skew(worst)
            if worst is not None and abs(skew) > TOLERANCE:
                return "skew", (
                    f"this clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} {worst.whose}: one of the "
                    f"two is wrong, so {self._says}. Check the time on both machines"
                )
            if self._before is not None:
                left = max(0.0, self.wait - (self.monotonic() - self._course.since))
                return "set", (
                    f"this clock was set, or is far from when the service ran last: it may be wrong, so {self._says} "
                    f"until it is set back or has run for {_in_words(self.wait)} without a step, which by this clock "
                    f"is {_utc(self._wall() + left)}. Check the time on this machine"
                )
            return "", ""

    def _report(self) -> None:
        """Log once what is wrong, and once that it is over."""
        wrong, warning = self._wrong()
        if wrong and wrong != self._complained:
            self._log.warning("%s", warning)
        elif self._complained and not wrong:
            self._log.info("nothing speaks against this clock any more")
        self._complained = wrong

    def _recent(self, heard: _Heard | None, seconds: float) -> _Heard | None:
        return heard if heard is not None and self.monotonic() - heard.at <= seconds else None

    def _skew(self, heard: _Heard) -> float:
        return self._wall() - self.monotonic() - heard.ahead

    def _furthest(self) -> _Heard | None:
        """The clock that is furthest away of those that count. The third clock counts only if it disagrees."""
        third = self._recent(self._third, _REMEMBERED)
        found = [self._recent(self._last, _REMEMBERED), self._recent(self._worst, LONGEST_WAIT)]
        if third is not None and abs(self._skew(third)) > TOLERANCE:
            found.append(third)
        return max((each for each in found if each is not None), key=lambda each: abs(self._skew(each)), default=None)


def _is_back(ahead: float, before: tuple[float, float]) -> bool:
    """Whether a clock that was ahead by at least and at most these is within the tolerance of both now."""
    lowest, highest = before
    return max(highest - ahead, ahead - lowest) <= TOLERANCE


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _utc(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # a year beyond the calendar
        return "never"


def _seconds(date: str | None) -> float | None:
    """Unix time of an HTTP date; None if it is not one."""
    if not date or len(date) > _LONGEST_DATE:
        return None
    try:
        read = parsedate_to_datetime(date)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):  # also a year beyond the calendar
        return None
