"""Outcomes of `record`, and the two mistakes that a developer can make with it."""

from __future__ import annotations

from enum import StrEnum

from hubbub.errors import HubbubError

__all__ = ["Outcome", "UnknownMetric", "WrongValue"]


class Outcome(StrEnum):
    """What became of a recorded value. It never depends on the value, except for a value that the metric does not
    take."""

    RECORDED = "recorded"
    """Taken. A kill of the app may lose it while the file is busy, and a power cut until it is randomized. Nothing was
    sent yet in either case."""
    NOT_IN_SHARE = "not_in_share"
    """The private coin keeps this device out of this metric for this period."""
    OVER_BUDGET = "over_budget"
    """The codebook's or the device's own limit is reached, or the period is already spent."""
    DISABLED = "disabled"
    """There is no consent, or the metric or this client is switched off, or the codebook is not the pinned one."""
    INVALID = "invalid"
    """There is no such metric, or it does not take this value."""
    EXPIRED = "expired"
    """The bundle or the metric is past its last day, the value waited for longer than its period's grace, or too many
    values are waiting."""
    WAITING = "waiting"
    """No codebook is known yet. The value is kept in memory until one has been fetched."""
    NO_DURABLE_STATE = "no_durable_state"
    """The state directory cannot be written to, so nothing may be reported."""


class UnknownMetric(HubbubError, LookupError):
    """No codebook in force has a metric of this name. Raised by a strict client only."""


class WrongValue(HubbubError, TypeError):
    """The metric does not take this value. The text says what the metric takes, and never shows the value."""
