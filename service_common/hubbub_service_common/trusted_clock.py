"""How far this machine's clock can be trusted: what irreversible steps ask before they believe what time it is.

A clock can be wrong for a minute: a machine that boots before it has the time, one that wakes up, a mistyped date. One
look at it is no reason to erase a key or to call a batch too late. Three things are held against it:

- its own course: a step of more than `TOLERANCE` against the monotonic clock;
- the other service's `Date` header, kept as a distance from our monotonic clock, so that a step of our own clock shows
  at once and not only with the next message;
- time: what is erased must have been due for a while, in which the process ran and nothing spoke against the clock.

Another machine's clock can only hold things up. It never says what time it is.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

__all__ = ["LONGEST_WAIT", "TOLERANCE", "TrustedClock"]

TOLERANCE = 300.0
"""Seconds by which two clocks may differ without either being called wrong."""
LONGEST_WAIT = 3_600.0
"""Seconds for which something is due before it is erased, if the horizon is no shorter."""
_REMEMBERED = 86_400.0
"""Seconds for which a Date counts: longer than the wait, so that one who disagreed and fell silent is not forgotten."""
_LONGEST_DATE = 64


class TrustedClock:
    """One process's wall clock, held against itself and against those it talks to.

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
        self._wall, self._monotonic, self._peer, self._says = wall, monotonic, peer, says
        self._log = log or logging.getLogger(__name__)
        self._theirs: float | None = None
        """The other clock's reading minus our monotonic one."""
        self._heard = -math.inf
        """When that was, by the monotonic clock."""
        self._since = monotonic()
        """Nothing has spoken against the clock since then, by the monotonic clock."""
        self._lowest = self._highest = wall() - self._since
        """Bounds on what the wall clock was ahead of the monotonic one since then."""
        self._complained = False

    @classmethod
    def set_by(cls, clock: Callable[[], float]) -> TrustedClock:
        """A clock that is set on purpose, for the simulator and for tests: it is its own measure, and nobody's peer."""
        return cls(clock, clock)

    def now(self) -> float:
        """What the clock says, believed or not."""
        return self._wall()

    def hear(self, date: str | None) -> None:
        """Take note of another machine's Date header. What is no date says nothing, nor does who is no peer."""
        said = _seconds(date)
        if said is None or self._peer is None:
            return
        self._heard = self._monotonic()
        self._theirs = said - self._heard
        self.look()

    @property
    def skew(self) -> float | None:
        """Seconds by which this clock is ahead of the other one; None if no Date came for a day."""
        monotonic = self._monotonic()
        if self._theirs is None or monotonic - self._heard > _REMEMBERED:
            return None
        return self._wall() - monotonic - self._theirs

    @property
    def disagrees(self) -> bool:
        """Whether the other clock, as it was heard of last, speaks against this one now."""
        skew = self.skew
        return skew is not None and abs(skew) > TOLERANCE

    def believable(self, wait: float = LONGEST_WAIT) -> bool:
        """Whether what can't be undone may rest on what the clock says now.

        The other clock agrees. Where it was not heard of, nothing has spoken against this one for `wait` seconds.
        """
        self.look()
        if self.skew is not None or self._peer is None:
            return not self.disagrees
        return self._monotonic() - self._since >= wait

    def believed(self, wait: float = LONGEST_WAIT) -> float:
        """What the clock says, if that is believable: one reading, and no other is acted on. Else minus infinity."""
        now = self._wall()
        return now if self.believable(wait) and abs(self._wall() - now) <= TOLERANCE else -math.inf

    def past(self, wait: float = LONGEST_WAIT) -> float:
        """A time that is past for sure: the clock was beyond it `wait` seconds ago, and at every look since.

        Minus infinity while anything speaks against the clock, and until `wait` seconds after that.
        """
        self.look()
        elapsed = self._monotonic()
        return -math.inf if elapsed - self._since < wait else elapsed - wait + self._lowest

    def look(self) -> None:
        """See whether anything speaks against the clock, and say so once."""
        monotonic = self._monotonic()
        ahead = self._wall() - monotonic
        stepped = max(self._highest - ahead, ahead - self._lowest) > TOLERANCE
        if stepped or self.disagrees:
            self._since, self._lowest, self._highest = monotonic, ahead, ahead
        else:
            self._lowest, self._highest = min(self._lowest, ahead), max(self._highest, ahead)
        self._report()

    def warning(self) -> str | None:
        """What is wrong, in words for operators; None while the clocks agree."""
        skew = self.skew
        if skew is None or abs(skew) <= TOLERANCE:
            return None
        return (
            f"this clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} {self._peer}: one of the two is "
            f"wrong, so {self._says}. Check the time on both machines"
        )

    def _report(self) -> None:
        """Say what is wrong once, and that it is over once nobody has disagreed for a while: of two other machines one
        may be wrong and the other right, and they take turns.
        """
        warning = self.warning()
        if warning and not self._complained:
            self._complained = True
            self._log.warning("%s", warning)
        elif self._complained and self._monotonic() - self._since > TOLERANCE:
            self._complained = False
            self._log.info("this clock agrees with %s again", self._peer)


def _seconds(date: str | None) -> float | None:
    """Unix time of an HTTP date; None for what is none."""
    if not date or len(date) > _LONGEST_DATE:
        return None
    try:
        read = parsedate_to_datetime(date)
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):  # also a year that no calendar has
        return None
