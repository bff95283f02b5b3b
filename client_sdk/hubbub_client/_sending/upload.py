"""Upload of reports, and what an answer means for each of them by the rules of `hubbub.refusals`.

Only an empty 202, or a 200 with a list of failures in JSON, makes a report durable. Only a name that the table of
refusals knows makes the device drop one. Any other answer, such as a captive portal's page, is a reason to try again. A
413 from a proxy in front of the service means smaller requests, and never drops a report.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hubbub.refusals import PROBLEM_TYPE, Action, refusal_named, seconds_to_wait
from hubbub.wire import REPORTS_TYPE, encode_upload
from hubbub_client._http.transport import CannotReach, Transport

__all__ = ["LONGEST_RETRY_AFTER", "Uploaded", "Verdict", "chunks", "retry_after", "upload"]

REPORTS_PATH = "/v1/reports"
LONGEST_RETRY_AFTER = 3600.0
"""Seconds. A longer `Retry-After` is cut to this, so that one header cannot silence a device for days."""

_LONGEST_DOCUMENT = 256 * 1024
"""Bytes. Room to name each of a thousand reports five times; as objects, JSON takes thirty times its length."""


class Verdict(NamedTuple):
    """The verdict on one report; `action` None means that it is durable at the shuffler."""

    action: Action | None
    reason: str


@dataclass(frozen=True, slots=True)
class Uploaded:
    """One verdict per report, and the seconds that the service asked the device to wait."""

    verdicts: tuple[Verdict, ...]
    retry_after: float = 0.0

    @property
    def blocked(self) -> bool:
        """Whether sending more now is pointless."""
        return self.retry_after > 0 or all(verdict.action is Action.RETRY for verdict in self.verdicts)

    def __add__(self, other: Uploaded) -> Uploaded:
        return Uploaded(self.verdicts + other.verdicts, max(self.retry_after, other.retry_after))


_DURABLE = Verdict(None, "acknowledged")


def upload(transport: Transport, reports: Sequence[bytes]) -> Uploaded:
    """Send reports in one request, or in halves if the service or a proxy says that the request is too large."""
    whole = _verdicts_of_request(transport, reports)
    if all(verdict.action is not Action.SPLIT for verdict in whole.verdicts):
        return whole
    if len(reports) == 1:
        return Uploaded((_verdict_on_single(whole.verdicts[0]),), whole.retry_after)
    middle = len(reports) // 2
    first = upload(transport, reports[:middle])
    if first.blocked:  # the other half would fare no better
        return first + Uploaded((Verdict(Action.RETRY, first.verdicts[-1].reason),) * (len(reports) - middle))
    return first + upload(transport, reports[middle:])


def _verdicts_of_request(transport: Transport, reports: Sequence[bytes]) -> Uploaded:
    """The verdicts of one request. If it is to be split, all of them say so."""
    try:
        status, headers, body = transport.request(
            "POST", REPORTS_PATH, {"content-type": REPORTS_TYPE}, encode_upload(reports)
        )
    except CannotReach as error:
        return Uploaded((Verdict(Action.RETRY, "network"),) * len(reports), min(error.retry_after, LONGEST_RETRY_AFTER))
    if status == 202 and not body:
        return Uploaded((_DURABLE,) * len(reports))
    if status == 200 and _media_type(headers) == "application/json":
        return Uploaded(_listed_verdicts(body, len(reports)), retry_after(headers))
    return Uploaded((_problem_verdict(status, headers, body),) * len(reports), retry_after(headers))


def _verdict_on_single(verdict: Verdict) -> Verdict:
    """The verdict on one report, which cannot be split. If our service finds it too large, no request can carry it; a
    proxy may change its mind."""
    if verdict.action is not Action.SPLIT:
        return verdict
    return Verdict(Action.DROP if refusal_named(verdict.reason) else Action.RETRY, verdict.reason)


def chunks(reports: Sequence[bytes], most_reports: int, most_bytes: int) -> Iterator[slice]:
    """Consecutive slices, each small enough for one request."""
    start = size = 0
    for index, report in enumerate(reports):
        if index > start and (index - start == most_reports or size + len(report) + 2 > most_bytes):
            yield slice(start, index)
            start, size = index, 0
        size += len(report) + 2
    if start < len(reports):
        yield slice(start, len(reports))


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the service asks for; 0 if it asks for none."""
    return seconds_to_wait(headers.get("retry-after"), LONGEST_RETRY_AFTER) or 0.0


def _listed_verdicts(body: bytes, count: int) -> tuple[Verdict, ...]:
    """The verdicts in a list of failures. A report that is not listed is durable. Any other document proves nothing."""
    document = _json(body)
    listed = document.get("failures") if isinstance(document, dict) else None
    verdicts = [_DURABLE] * count
    for entry in listed if isinstance(listed, list) else [None]:
        index, reason = (entry.get("index"), entry.get("reason")) if isinstance(entry, dict) else (None, None)
        if type(index) is not int or not 0 <= index < count or not isinstance(reason, str):
            return (Verdict(Action.RETRY, "not-understood"),) * count
        refusal = refusal_named(reason)
        verdicts[index] = (
            _verdict_on_single(Verdict(refusal.action, refusal.name))
            if refusal
            else Verdict(Action.RETRY, "unknown-reason")
        )
    return tuple(verdicts)


def _problem_verdict(status: int, headers: Mapping[str, str], body: bytes) -> Verdict:
    """The verdict of a problem document about the whole request, if it is one of ours. With a status that is no error
    it proves nothing."""
    if status >= 400 and _media_type(headers) == PROBLEM_TYPE:
        document = _json(body)
        named = document.get("type") if isinstance(document, dict) else None
        refusal = refusal_named(named) if isinstance(named, str) and named.startswith("urn:") else None
        if refusal is not None:
            return Verdict(refusal.action, refusal.name)
    return Verdict(Action.SPLIT if status == 413 else Action.RETRY, f"http-{status}")


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _json(body: bytes) -> Any:
    if len(body) > _LONGEST_DOCUMENT:
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
