"""What becomes of a recorded value, and the two mistakes that a developer can make in recording it."""

from __future__ import annotations

from enum import StrEnum

from hubbub.problems import HubbubError

__all__ = ["Outcome", "UnknownMetric", "WrongValue"]


class Outcome(StrEnum):
    """What became of a recorded value. It never depends on the value, except that `invalid` ones are no values."""

    RECORDED = "recorded"
    """Taken. A kill may lose it while the file is busy, a power cut until it is randomized: nothing was sent yet."""
    NOT_IN_SHARE = "not_in_share"
    """The private coin keeps this device out of this metric for this period."""
    OVER_BUDGET = "over_budget"
    """The codebook's or the device's own limit is reached, or the period is already spent."""
    DISABLED = "disabled"
    """No consent, or switched off: the metric, or this client by `disable`, or the codebook is not the pinned one."""
    INVALID = "invalid"
    """No such metric, or a value that it does not take."""
    EXPIRED = "expired"
    """The bundle or the metric is past its last day, or the value waited longer than its period's grace, or too
    many wait already."""
    WAITING = "waiting"
    """No codebook is known yet: kept in memory until one has been fetched."""
    NO_DURABLE_STATE = "no_durable_state"
    """Nothing can be written to the state directory, so nothing may be reported."""


class UnknownMetric(HubbubError, LookupError):
    """No codebook in force has a metric of this name. Raised by a strict client only."""


class WrongValue(HubbubError, TypeError):
    """A value that its metric does not take. The text says what it takes, and never what was given."""
