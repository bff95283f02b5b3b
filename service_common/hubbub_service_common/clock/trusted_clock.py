"""How far this machine's clock can be trusted: what irreversible steps ask before they believe what time it is.

A clock can be wrong for a minute: a machine that boots before it has the time, one that wakes up, a mistyped date. One
look at it is no reason to erase a key or to call a batch too late. Four things are held against it:

- its own course: a step of more than `TOLERANCE` against the monotonic clock;
- the other service's `Date` header, kept as a distance from our monotonic clock, so that a step of our own clock shows
  at once and not only with the next message;
- when the service ran last (`hubbub_service_common.clock.last_seen`);
- time: what is erased must have been due for a while, in which the process ran and nothing spoke against the clock.

Both services may be on one machine, and then they agree on whatever its clock says. So another clock that agrees is no
answer to a step: that takes a clock which was heard before the step and agrees with the new time, or time.

Another machine's clock can only hold things up. It never says what time it is.

CLOCK_BOOTTIME is not the measure, though a suspended machine makes a step against CLOCK_MONOTONIC: at the end of a
suspend both it and the wall clock are set by the same battery-backed clock, so that a wrong one would not show.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import RLock
from typing import NamedTuple

__all__ = ["LONGEST_WAIT", "TOLERANCE", "Run", "TrustedClock"]

TOLERANCE = 300.0
"""Seconds by which two clocks may differ without either being called wrong."""
LONGEST_WAIT = 3_600.0
"""Seconds for which something is due before it is erased, if the horizon is no shorter."""
_REMEMBERED = 86_400.0
"""Seconds for which a Date counts: longer than the wait, so that one who disagreed and fell silent is not forgotten."""
_LONGEST_DATE = 64
_MOST_RUNS = 100
"""Stretches that are remembered: more than a minute each are enough for the longest wait."""


class _Heard(NamedTuple):
    """Another clock: whose, its reading minus our monotonic one, and when that was by the latter."""

    whose: str
    ahead: float
    at: float


class _Course(NamedTuple):
    """Since when, by the monotonic clock, nothing has spoken against the wall clock, and by how much that was ahead of
    the monotonic one at least and at most since then. One value, so that nobody sees half of a change.
    """

    since: float
    lowest: float
    highest: float


class Run(NamedTuple):
    """A stretch of running time in which the clock made no step: for how long, and the lowest it said at its start."""

    seconds: float
    start: float


class TrustedClock:
    """One process's wall clock, held against itself and against those it talks to. Any thread may ask.

    `peer`: who sends us a Date, in words for the log; None if nobody does, as where one clock is set for all. `says`:
    what is held up meanwhile, for the log.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        peer: str | None = None,
        says: str = "",
        log: logging.Logger | None = None,
    ) -> None:
        self._wall, self.monotonic, self._peer, self._says = wall, monotonic, peer, says
        self._log = log or logging.getLogger(__name__)
        self._lock = RLock()
        self._last: _Heard | None = None
        """The other service's clock, as it was heard of last."""
        self._worst: _Heard | None = None
        """The one that was furthest away of late: of two other machines one may be wrong, and they take turns."""
        self._third: _Heard | None = None
        """A clock that can only disagree, see `compare`."""
        running = monotonic()
        self._course = _Course(running, wall() - running, wall() - running)
        self._before: tuple[float, float] | None = None
        """Least and most by which the clock was ahead before a step that it has not lived with yet."""
        self._vouched = False
        """Whether the clock was right when the process started, by when it ran last."""
        self._earlier: tuple[Run, ...] = ()
        """Before the last step: while the machine was suspended, or off, the clock only went on."""
        self.wait = LONGEST_WAIT
        """Seconds for which it is in doubt after a step, as was asked last; for the warning."""
        self._complained = ""

    @classmethod
    def set_by(cls, clock: Callable[[], float]) -> TrustedClock:
        """A clock that is set on purpose, for the simulator and for tests: it is its own measure, and nobody's peer."""
        return cls(clock, clock)

    @property
    def is_set_on_purpose(self) -> bool:
        """Whether nobody is asked about it."""
        return self._peer is None

    def now(self) -> float:
        """What the clock says, believed or not."""
        return self._wall()

    def hear(self, date: str | None) -> None:
        """Take note of another machine's Date header. What is no date says nothing, nor does who is no peer."""
        said = _seconds(date)
        if said is None or self._peer is None:
            return
        with self._lock:
            self.look()  # a step since the last look is held against what was heard before it
            at = self.monotonic()
            self._last = heard = _Heard(self._peer, said - at, at)
            worst = self._worst
            if worst is None or at - worst.at > LONGEST_WAIT or abs(self._skew(heard)) >= abs(self._skew(worst)):
                self._worst = heard
            self._forget_if_far(heard)
            self.look()

    def compare(self, whose: str, reading: float | None) -> None:
        """Hold a third clock against this one, until the next call: that of a storage which several processes share.

        It can disagree, and nothing else: that it agrees makes nothing believable.
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
        """At the start: by when the service ran last, it can be between these times now.

        If the clock says so, it is believed without anybody's word. If not, nobody's word is enough, as after a step.
        `runs`: of earlier processes since the clock was believed last; they count if it only went on since.
        """
        with self._lock:
            running, now = self.monotonic(), self._wall()
            self._vouched = earliest <= now <= latest
            # so written that `_is_back` holds from the earliest to the latest
            self._before = None if self._vouched else (latest - running - TOLERANCE, earliest - running + TOLERANCE)
            self._earlier = tuple(runs) if not runs or now >= sum(runs[-1]) - TOLERANCE else ()

    @property
    def skew(self) -> float | None:
        """Seconds by which this clock is ahead of the other one as heard of last; None if no Date came for a day."""
        with self._lock:
            last = self._recent(self._last, _REMEMBERED)
            return None if last is None else self._skew(last)

    @property
    def worst_skew(self) -> float | None:
        """The same for the clock that was furthest away within the last hour: what operators are shown."""
        with self._lock:
            worst = self._furthest()
            return None if worst is None else self._skew(worst)

    @property
    def disagrees(self) -> bool:
        """Whether another clock, as it was heard of last, speaks against this one now."""
        with self._lock:
            heard = [self._recent(self._last, _REMEMBERED), self._recent(self._third, _REMEMBERED)]
            return any(each is not None and abs(self._skew(each)) > TOLERANCE for each in heard)

    def was_set(self, wait: float = LONGEST_WAIT) -> bool:
        """Whether it has made a step, or was far off at the start, and has not run undisputed for `wait` since."""
        with self._lock:
            self.wait = wait
            self.look()
            if self.monotonic() - self._course.since >= wait:
                self._before = None
            return self._before is not None

    def contradicted(self, wait: float = LONGEST_WAIT) -> bool:
        """Whether anything speaks against the clock: that it was set, or another one."""
        with self._lock:
            return self.was_set(wait) or self.disagrees

    def believable(self, wait: float = LONGEST_WAIT) -> bool:
        """Whether what can't be undone may rest on what the clock says now.

        Nothing speaks against it, and something for it: it was right at the start, the other clock agrees, or there
        was nothing against it for `wait` seconds.
        """
        with self._lock:
            if self._peer is None:
                return True
            if self.contradicted(wait):
                return False
            lived = self.monotonic() - self._course.since >= wait
            return lived or self._vouched or self.skew is not None

    def believed(self, wait: float = LONGEST_WAIT) -> float:
        """What the clock says, if that is believable: one reading, and no other is acted on. Else minus infinity."""
        with self._lock:
            now = self._wall()
            return now if self.believable(wait) and abs(self._wall() - now) <= TOLERANCE else -math.inf

    def by_both(self, wait: float = LONGEST_WAIT) -> float:
        """A time that it is by this clock and by the other one; minus infinity if the other was not heard of, or this
        one has made a step. It says less than `believed`, and something while the two disagree.
        """
        with self._lock:
            now, skew = self._wall(), self.skew
            return -math.inf if skew is None or self.was_set(wait) else min(now, now - skew)

    def earlier_of_both(self) -> float:
        """What this clock or the other one says, whichever is earlier; minus infinity if that was not heard of.

        For what can be undone only: on one machine both may be wrong.
        """
        with self._lock:
            now, skew = self._wall(), self.skew
            return -math.inf if skew is None else min(now, now - skew)

    def past(self, wait: float = LONGEST_WAIT) -> float:
        """A time that is past for sure: the clock was beyond it `wait` seconds ago, and at every look since.

        Minus infinity while anything speaks against the clock, and until `wait` seconds after that.
        """
        with self._lock:
            self.look()
            elapsed, course = self.monotonic(), self._course
            return -math.inf if elapsed - course.since < wait else elapsed - wait + course.lowest

    def reached(self, wait: float = LONGEST_WAIT) -> float:
        """A time that it was `wait` seconds of running time ago, and later at every look since: minus infinity if the
        service has not run for that long in total since anything spoke against the clock.

        It holds over suspends and restarts, after which the clock itself is in doubt: so short sessions add up.
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
        """Stretches of running time, the present one last, over which the clock only went on."""
        with self._lock:
            course = self._course
            return (*self._earlier, Run(self.monotonic() - course.since, course.since + course.lowest))

    def look(self) -> None:
        """See whether anything speaks against the clock, and say so once."""
        with self._lock:
            running = self.monotonic()
            ahead, course = self._wall() - running, self._course
            stepped = not _is_back(ahead, (course.lowest, course.highest))
            if stepped:
                # backward: one of the two was wrong; forward, as after a suspend: what was before it is past
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
        """One that is heard now and disagrees speaks against all that was; what was heard before a step need not."""
        if abs(self._skew(heard)) > TOLERANCE:
            self._earlier = ()

    def _stepped(self, ahead: float) -> None:
        """It takes time to believe a clock that was set, unless that was to where the other clock was before: on one
        machine both would have been set.
        """
        if self._before is None:
            self._before = (self._course.lowest, self._course.highest)
        last = self._recent(self._last, _REMEMBERED)
        if last is not None and abs(ahead - last.ahead) <= TOLERANCE:
            self._before = None
        self._worst = None  # it may have been set together with this one

    def warning(self) -> str | None:
        """What is wrong, in words for operators; None while nothing is."""
        return self._wrong()[1] or None

    def _wrong(self) -> tuple[str, str]:
        """In one word, and in words for operators; both empty while nothing is."""
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
        """Say what is wrong once, and once that it is over."""
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
        """The clock that is furthest away of those that count; a third one only if it disagrees."""
        third = self._recent(self._third, _REMEMBERED)
        found = [self._recent(self._last, _REMEMBERED), self._recent(self._worst, LONGEST_WAIT)]
        if third is not None and abs(self._skew(third)) > TOLERANCE:
            found.append(third)
        return max((each for each in found if each is not None), key=lambda each: abs(self._skew(each)), default=None)


def _is_back(ahead: float, before: tuple[float, float]) -> bool:
    """Whether a clock that was ahead by these, at least and at most, is no further from either now."""
    lowest, highest = before
    return max(highest - ahead, ahead - lowest) <= TOLERANCE


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _utc(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # a year that no calendar has
        return "never"


def _seconds(date: str | None) -> float | None:
    """Unix time of an HTTP date; None for what is none."""
    if not date or len(date) > _LONGEST_DATE:
        return None
    try:
        read = parsedate_to_datetime(date)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):  # also a year that no calendar has
        return None
