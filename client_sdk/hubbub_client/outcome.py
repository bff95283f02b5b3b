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
    """The codebook's or the device's own limit on epsilon is reached, or the period is already spent."""
    SHORT_PERIOD = "short_period"
    """The codebook has shorter periods than this client's `min_period`, so it is not used."""
    NOT_PINNED = "not_pinned"
    """The codebook is not one that this client's `pin` names, so it is not used."""
    DISABLED = "disabled"
    """There is no consent, or the metric or this client is switched off."""
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
    """The codebook has no metric of this name. Raised by a strict client only, also if it does not use the codebook."""


class WrongValue(HubbubError, TypeError):
    """The metric does not take this value. The text says what the metric takes, and never shows the value."""
