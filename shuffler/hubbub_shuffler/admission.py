"""Which reports may come in: what their clear header says, held against the verified bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hubbub.bundle import Bundle, MetricHeader
from hubbub.problems import InvalidParameter, MalformedReport
from hubbub.wire import REPORT_HEADER_BYTES, ReportHeader, decode_report, sealed_bytes
from hubbub_shuffler.storage import Bucket, Terms

__all__ = ["Admission", "Admitted"]


@dataclass(frozen=True, slots=True, eq=False)  # one object per bucket and bundle: known by identity, hashed fast
class Admitted:
    """A bucket that takes reports, and how long each of them is with its header."""

    bucket: Bucket
    terms: Terms
    length: int


class Admission:
    """Decides over reports by one bundle. Only what was admitted is remembered, so no sender can fill memory."""

    def __init__(self, bundle: Bundle, *, floor: int, skew: float, clock: Callable[[], float]) -> None:
        self.bundle = bundle
        self._floor, self._skew, self._clock = floor, skew, clock
        self._known: dict[bytes, Admitted] = {}

    def judge(self, report: bytes) -> Admitted | str:
        """Where the report belongs, or the reason why it is refused."""
        admitted = self._known.get(report[:REPORT_HEADER_BYTES])
        if admitted is not None and len(report) == admitted.length and self._clock() < admitted.terms.closes_at:
            return admitted
        try:
            header, sealed = decode_report(report)
        except MalformedReport:
            return "malformed-report"
        judged = self._judge(header, len(sealed))
        if isinstance(judged, Admitted):
            self._forget_closed()
            self._known[report[:REPORT_HEADER_BYTES]] = judged
        return judged

    def minimum_of(self, metric: MetricHeader) -> int:
        """Fewest reports of this metric that may leave together."""
        return max(metric.min_batch, self._floor)

    def _judge(self, header: ReportHeader, length: int) -> Admitted | str:
        metric = self.bundle.body.metric(header.metric, header.period)
        if metric is None:
            return "unknown-metric"
        size = sealed_bytes(metric.report_bytes)
        reason = (
            "metric-disabled"
            if not metric.enabled
            else "wrong-length"
            if length != size
            else self._wrong_time(metric, header.period) or self._wrong_key(header)
        )
        if reason:
            return reason
        closes_at = metric.calendar.period(header.period).closes_at(metric.grace)
        terms = Terms(metric.name, size, closes_at, self.minimum_of(metric))
        return Admitted(Bucket(header.metric, header.period, header.key), terms, REPORT_HEADER_BYTES + size)

    def _wrong_time(self, metric: MetricHeader, index: int) -> str | None:
        now = self._clock()
        try:
            period = metric.calendar.period(index)
        except InvalidParameter:  # beyond the year 9999
            return "period-in-future"
        if period.start > now + self._skew:
            return "period-in-future"
        return "period-closed" if now >= period.closes_at(metric.grace) else None

    def _wrong_key(self, header: ReportHeader) -> str | None:
        key = self.bundle.body.key_for(header.period)
        if key is not None and key.id == header.key:
            return None
        revoked = any(k.id == header.key and k.state == "revoked" for k in self.bundle.body.keys)
        return "revoked-key" if revoked else "unknown-key"

    def _forget_closed(self) -> None:
        now = self._clock()
        self._known = {header: known for header, known in self._known.items() if now < known.terms.closes_at}
