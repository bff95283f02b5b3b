"""Errors that say why nothing can be kept."""

__all__ = ["FORK_EARLIER", "Busy", "NoDurableState", "WitnessBehind"]

FORK_EARLIER = "make the client after the fork, or fork before any thread is started; a new process reports again"
"""What to do about a child that was forked at the wrong moment."""


class NoDurableState(Exception):
    """Nothing can be kept, so nothing may be reported. `remedy` says what to do about it, if anything can be done."""

    def __init__(self, why: str = "", remedy: str = "") -> None:
        super().__init__(f"{why}: {remedy}" if remedy else why)
        self.sentence = f"nothing is reported because {why}: {remedy}" if remedy else ""
        """For the log. It names no value and no path."""


class Busy(NoDurableState):
    """Not now: another thread or process is writing."""


class WitnessBehind(Busy):
    """Another process has just charged, and the witness does not know of it yet."""
