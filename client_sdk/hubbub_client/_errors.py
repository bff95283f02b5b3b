"""Why nothing can be kept."""

__all__ = ["Busy", "NoDurableState"]


class NoDurableState(Exception):
    """Nothing can be kept, so nothing may be reported."""


class Busy(NoDurableState):
    """Not now: another thread or process is writing."""
