"""Admission of reports: the clear header of each is checked against the verified bundle."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.bundle import Bundle, MetricHeader
from hubbub.errors import InvalidParameter, MalformedReport
from hubbub.wire import REPORT_HEADER_BYTES, ReportHeader, decode_report, sealed_bytes
from hubbub_shuffler.bundle.begun_periods import early
from hubbub_shuffler.storage import Bucket, Terms

__all__ = ["IN_DOUBT", "Admission", "Admitted"]

IN_DOUBT = {"period-closed": "clock-in-doubt"}
"""Reasons given while our clock is in doubt, in place of those that would make a device drop its report."""


@dataclass(frozen=True, slots=True, eq=False)  # one object per bucket and bundle: known by identity, hashed fast
class Admitted:
    """A bucket that takes reports, and the length of each report with its header."""

    bucket: Bucket
    terms: Terms
    length: int
    closes_at: int


class Admission:
    """Judges reports by one bundle. Only admitted headers are remembered, so no sender can fill the memory."""

    def __init__(self, bundle: Bundle, *, floor: int, skew: float) -> None:
        self.bundle = bundle
        self.held_through = -1
        """The newest period that is held to this bundle. No report of a later period is taken."""
        self._floor, self._skew = floor, skew
        self._known: dict[bytes, Admitted] = {}

    def judge(self, report: bytes, now: float) -> Admitted | str:
        """Where the report belongs, or the reason for refusing it."""
        admitted = self._known.get(report[:REPORT_HEADER_BYTES])
        if admitted is not None and len(report) == admitted.length and now < admitted.closes_at:
            return admitted
        try:
            header, sealed = decode_report(report)
        except MalformedReport:
            return "malformed-report"
        judged = self._judge(header, len(sealed), now)
        if isinstance(judged, Admitted):
            self._forget_closed(now)
            self._known[report[:REPORT_HEADER_BYTES]] = judged
        return judged

    def minimum_of(self, metric: MetricHeader) -> int:
        """Fewest reports of this metric that may leave together."""
        return max(metric.min_batch, self._floor)

    def minimums(self) -> dict[str, int]:
        """The same for every metric, by name."""
        return {m.name: self.minimum_of(m) for codebook in self.bundle.body.codebooks for m in codebook.metrics}

    def _judge(self, header: ReportHeader, length: int, now: float) -> Admitted | str:
        metric = self.bundle.body.metric(header.metric, header.period)
        if metric is None:
            return "unknown-metric"
        size = sealed_bytes(metric.report_bytes)
        reason = (
            "metric-disabled"
            if not metric.enabled
            else "wrong-length"
            if length != size
            else self._wrong_time(metric, header.period, now) or self._wrong_key(header)
        )
        if reason:
            return reason
        closes_at = metric.calendar.period(header.period).closes_at(metric.grace)
        terms = Terms(metric.name, size, closes_at, self.minimum_of(metric))
        return Admitted(Bucket(header.metric, header.period, header.key), terms, REPORT_HEADER_BYTES + size, closes_at)

    def _wrong_time(self, metric: MetricHeader, index: int, now: float) -> str | None:
        try:
            period = metric.calendar.period(index)
        except InvalidParameter:  # beyond the year 9999
            return "period-in-future"
        if period.start > now + early(metric.calendar, self._skew) or index > self.held_through:
            return "period-in-future"
        return "period-closed" if now >= period.closes_at(metric.grace) else None

    def _wrong_key(self, header: ReportHeader) -> str | None:
        key = self.bundle.body.key_for(header.period)
        if key is not None and key.id == header.key:
            return None
        revoked = any(k.id == header.key and k.state == "revoked" for k in self.bundle.body.keys)
        return "revoked-key" if revoked else "unknown-key"

    def _forget_closed(self, now: float) -> None:
        self._known = {header: known for header, known in self._known.items() if now < known.closes_at}
