"""Errors of a query, as one tree. The message is the aggregator's own: what is wrong and what to do.

QueryError
├── NoAnswer             nothing answers at the address
├── UnreadableAnswer     what answers is no aggregator, or one of another version
├── FrameLibraryMissing  a data frame without pandas, Polars or pyarrow
└── Refused              a problem of the API (RFC 9457), with its name, title, status and detail
    ├── Unauthorized     a token is needed, or the one given is not valid
    ├── NotFound         no metric or release of this name; the detail has the nearest name
    ├── NothingReleased  the metric exists, and nothing of it has been released in this range yet
    └── InvalidQuery     a parameter cannot be used
"""

from __future__ import annotations

from hubbub.errors import HubbubError

__all__ = [
    "FrameLibraryMissing",
    "InvalidQuery",
    "NoAnswer",
    "NotFound",
    "NothingReleased",
    "QueryError",
    "Refused",
    "Unauthorized",
    "UnreadableAnswer",
    "refused",
]


class QueryError(HubbubError):
    """Any query that got no answer."""


class NoAnswer(QueryError):
    """Nothing answers at the address."""


class UnreadableAnswer(QueryError):
    """What answers is no aggregator, or one of a version that this client can't read."""


class FrameLibraryMissing(QueryError):
    """There is no library to make a data frame with."""


class Refused(QueryError):
    """A problem of the API. `name` is the last part of its `type`; problems.md has all names."""

    def __init__(self, detail: str, *, name: str, title: str, status: int) -> None:
        super().__init__(detail or title)
        self.detail, self.name, self.title, self.status = detail, name, title, status


class Unauthorized(Refused):
    """A token is needed, or the one given is not valid."""


class NotFound(Refused):
    """No metric or release has this name."""


class NothingReleased(Refused):
    """Nothing has been released for this metric and range yet."""


class InvalidQuery(Refused):
    """A parameter of the query cannot be used."""


_KINDS: dict[str, type[Refused]] = {
    "unauthorized": Unauthorized,
    "not-found": NotFound,
    "nothing-released": NothingReleased,
    "invalid-query": InvalidQuery,
}


def refused(detail: str, *, name: str, title: str, status: int) -> Refused:
    """The error of a problem, of the class for its name if it has one."""
    return _KINDS.get(name, Refused)(detail, name=name, title=title, status=status)
