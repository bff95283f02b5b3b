"""HTTP refusals of the services: the name and status of each, and what the sender should do then.

A refused request gets an RFC 9457 problem document with `type` = urn:hubbub:problem:<name>. Reports refused one by one
inside an accepted upload carry the same names as `reason`. The SDK acts by name, never by status alone: a captive
portal also answers 403, and must not make a device drop its reports. For the same reason a wrong address or method
means retry: it says something about the configuration, but nothing about the reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from hubbub.errors import HubbubError

__all__ = ["PROBLEM_TYPE", "REFUSALS", "Action", "Refusal", "Refused", "refusal_named", "seconds_to_wait"]

PROBLEM_TYPE = "application/problem+json"
_URN = "urn:hubbub:problem:"


class Action(Enum):
    """What the sender does with a refused report or request."""

    RETRY = "retry"
    SPLIT = "split"
    REFETCH = "fetch the bundle"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One kind of refusal."""

    name: str
    status: int
    title: str
    action: Action

    @property
    def urn(self) -> str:
        return _URN + self.name


REFUSALS: dict[str, Refusal] = {
    refusal.name: refusal
    for refusal in [
        # reports, at the shuffler
        Refusal("malformed-upload", 400, "The body is not a list of length-prefixed reports.", Action.SPLIT),
        Refusal("unsupported-media-type", 415, "The content type is not the one this route takes.", Action.RETRY),
        Refusal("too-large", 413, "The body is larger than this service takes.", Action.SPLIT),
        Refusal("malformed-report", 400, "These bytes are not a report of a version known here.", Action.DROP),
        Refusal("wrong-length", 400, "A report of this metric has another length.", Action.DROP),
        Refusal("unknown-metric", 404, "No live codebook has a metric of this id.", Action.DROP),
        Refusal("metric-disabled", 403, "The metric is switched off.", Action.DROP),
        Refusal("period-closed", 409, "The period and its grace are over.", Action.DROP),
        Refusal("period-in-future", 409, "The period has not begun; check the device's clock.", Action.RETRY),
        Refusal("unknown-key", 409, "The period is sealed with another key; fetch the bundle.", Action.REFETCH),
        Refusal("revoked-key", 409, "The key was revoked; the bundle says so.", Action.REFETCH),
        Refusal("overloaded", 503, "The service is busy; try again after the stated time.", Action.RETRY),
        Refusal("storage-full", 503, "No room for more reports until others have left; try again later.", Action.RETRY),
        Refusal("rate-limited", 429, "Too many requests; try again after the stated time.", Action.RETRY),
        Refusal("no-bundle", 503, "No verified bundle is at hand yet; try again soon.", Action.RETRY),
        Refusal("clock-in-doubt", 503, "Two clocks disagree, so nothing final is said; try again.", Action.RETRY),
        # batches, at the aggregator
        Refusal("unauthorized", 401, "A valid bearer token is needed.", Action.RETRY),
        Refusal("malformed-batch", 400, "The body is not a batch, or shorter or longer than it says.", Action.DROP),
        Refusal("batch-too-small", 409, "Too few reports to publish without singling someone out.", Action.DROP),
        Refusal("batch-conflict", 409, "Another batch was accepted under this id.", Action.DROP),
        Refusal("batch-too-late", 410, "The period is past its horizon.", Action.DROP),
        # queries
        Refusal("not-found", 404, "There is nothing at this address.", Action.RETRY),
        Refusal("method-not-allowed", 405, "This address does not take that method.", Action.RETRY),
        Refusal("invalid-query", 422, "A parameter of the query cannot be used.", Action.DROP),
        Refusal("nothing-released", 404, "Nothing has been released for this metric and range yet.", Action.RETRY),
        # either service, about itself
        Refusal("not-ready", 503, "The service can't do its work now; it says why.", Action.RETRY),
        Refusal("internal-error", 500, "Something went wrong here; it was not your request.", Action.RETRY),
    ]
}


class Refused(HubbubError):
    """A request that is refused for a named reason. `extra` may add members to the problem document."""

    def __init__(self, name: str, detail: str, *, retry_after: int | None = None, **extra: object) -> None:
        super().__init__(detail)
        self.refusal, self.detail, self.retry_after, self.extra = REFUSALS[name], detail, retry_after, extra

    def document(self) -> dict[str, object]:
        """The problem document; `extra` comes first so that it can't overwrite a standard member."""
        return {
            **self.extra,
            "type": self.refusal.urn,
            "title": self.refusal.title,
            "status": self.refusal.status,
            "detail": self.detail,
        }


def refusal_named(urn_or_name: str) -> Refusal | None:
    """The refusal with this type or reason, or None if this version does not know the name."""
    return REFUSALS.get(urn_or_name.removeprefix(_URN))


def seconds_to_wait(retry_after: str | None, longest: float) -> float | None:
    """Seconds that a Retry-After header asks for, at most `longest`. None if the header is not a number of seconds.

    Dates are not read, because that would mean trusting two clocks.
    """
    text = (retry_after or "").strip()
    return min(float(text), longest) if text.isascii() and text.isdigit() else None
