"""A shuffler in memory, and the aggregator behind it, which can read the reports."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hubbub.bundle import BundledCodebook, SealingKey, entity_tag, sign
from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub.sealing import Opener, new_private_key, public_key_of
from hubbub.trust_anchor import anchor_of
from hubbub.wire import Plaintext, decode_report, decode_upload
from hubbub_client._codebooks.bundle_fetch_and_cache import BUNDLE_PATH
from hubbub_client._http.transport import Answer, CannotReach
from hubbub_client._process.clock_and_entropy import wall
from hubbub_client._sending.upload import REPORTS_PATH

if TYPE_CHECKING:
    from hubbub.codebook import Metric

__all__ = ["MemoryTransport", "Request", "SentReport", "codebook_of"]

_LIFETIME = 30 * 86_400
_MIN_BATCH = 100
_ALL_PERIODS = (0, 2**31)


@dataclass(frozen=True, slots=True)
class Request:
    """What a transport was asked to send."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class SentReport:
    """One report that arrived, as the aggregator reads it."""

    metric: str
    period: str
    """The start of the period, such as 2026-01-05 for a day."""
    value: Any
    """The *randomized* value: True, a category or a number if the report names one, otherwise the report as it is.
    It may be anything, whatever was recorded: do not assert on it."""
    nonce: bytes = field(repr=False)
    """The same in every copy of this report, and in no other."""


class _Aggregator:
    """Signs bundles and opens reports, under keys made for the occasion."""

    def __init__(self, codebook: Codebook, clock: Callable[[], float]) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._identity, self._private_key = Ed25519PrivateKey.generate(), new_private_key()
        self._opener, self._clock = Opener(self._private_key), clock
        self._last: int | None = None
        self._metrics: dict[bytes, Metric] = {}
        self._codebooks: dict[int, Codebook] = {}
        self.trust = anchor_of(self._identity)
        self.publish(codebook)

    def publish(self, codebook: Codebook) -> None:
        # The aggregator computes this from the release target. It makes no difference to a device.
        codebook = codebook.with_min_batch(lambda _: _MIN_BATCH)
        calendar = codebook.collection.calendar
        if any(before.collection.calendar != calendar for before in self._codebooks.values()):
            self._codebooks.clear()  # a bundle has one length of periods
        self._codebooks[calendar.index_at(self._clock()) + 1 if self._codebooks else 0] = codebook
        self._metrics |= {metric.id: metric for metric in codebook.metrics}
        self._issued, self.bundle = self._sign()

    def renew(self) -> bytes:
        """The bundle; a new one if it is old, or if the clock was set back before it."""
        if not self._issued <= self._clock() < self._issued + _LIFETIME / 2:
            self._issued, self.bundle = self._sign()
        return self.bundle

    def _sign(self) -> tuple[int, bytes]:
        now = int(self._clock())
        sequence = max(now, 0 if self._last is None else self._last + 1)
        self._last = sequence
        return now, sign(
            self._identity,
            collection=next(iter(self._codebooks.values())).collection.name,
            codebooks=[
                BundledCodebook(first, codebook.compiled()) for first, codebook in sorted(self._codebooks.items())
            ],
            keys=[SealingKey(1, public_key_of(self._private_key), *_ALL_PERIODS)],
            now=now,
            lifetime=_LIFETIME,
            max_age=3_600,
            last=None,
            sequence=sequence,
        )

    def read(self, report: bytes) -> SentReport:
        header, sealed = decode_report(report)
        metric = self._metrics[header.metric]
        plaintext = Plaintext.decode(self._opener.open(header, sealed))
        period = metric.calendar.period(plaintext.period).label
        return SentReport(metric.name, period, _on_its_face(metric, plaintext.payload), plaintext.nonce)


def _on_its_face(metric: Metric, payload: bytes) -> object:
    report = metric.mechanism.decode(payload)
    match metric.mechanism.face(report):
        case int() | Fraction() as value:
            return metric.values.value_for(value)
        case _:
            return report


@dataclass
class MemoryTransport:
    """Serves a bundle and takes every report. Made by `serving`, it signs the bundle itself and can read the
    reports."""

    bundle: bytes
    reports: list[bytes] = field(default_factory=list)
    """Acknowledged reports, in the order of arrival; a report that was sent twice is in it twice."""
    requests: list[Request] = field(default_factory=list)
    script: deque[Callable[[Request], Answer]] = field(default_factory=deque)
    """Functions that answer the next requests instead."""
    offline: bool = False
    """While True, every request fails."""
    _aggregator: _Aggregator | None = field(default=None, repr=False)

    @classmethod
    def serving(cls, codebook: Codebook | Path | str, clock: Callable[[], float] = wall) -> MemoryTransport:
        """A shuffler that serves this codebook: a path to metrics.toml, its text, or a `Codebook`."""
        aggregator = _Aggregator(codebook_of(codebook), clock)
        return cls(aggregator.bundle, _aggregator=aggregator)

    @property
    def trust(self) -> str:
        """The signer that a client has to trust: `Client(trust=transport.trust)`."""
        return self._behind.trust

    def publish(self, codebook: Codebook | Path | str) -> None:
        """Put another codebook in force from the next period on. Devices get it when they next fetch the bundle."""
        self._behind.publish(codebook_of(codebook))

    def reports_sent(self, metric: str | None = None) -> list[SentReport]:
        """The reports that arrived, of one metric or of all, each once, however often it was sent."""
        read = {report.nonce: report for report in map(self._behind.read, self.reports)}
        return [report for report in read.values() if metric in (None, report.metric)]

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer like the shuffler. Raises CannotReach while `offline`."""
        request = Request(method, path, headers, body)
        self.requests.append(request)
        if self.offline:
            raise CannotReach("the test says that there is no network")
        return self.script.popleft()(request) if self.script else self.accept(request)

    def accept(self, request: Request) -> Answer:
        """The answer of a healthy shuffler."""
        if (request.method, request.path) == ("POST", REPORTS_PATH):
            self.reports += decode_upload(request.body)
            return 202, {}, b""
        if (request.method, request.path) == ("GET", BUNDLE_PATH):
            if self._aggregator is not None:
                self.bundle = self._aggregator.renew()
            etag = entity_tag(self.bundle)
            if request.headers.get("if-none-match") == etag:
                return 304, {"etag": etag}, b""
            return 200, {"etag": etag}, self.bundle
        return 404, {}, b""

    @property
    def _behind(self) -> _Aggregator:
        if self._aggregator is None:
            raise InvalidParameter(
                "this transport was given a finished bundle and has no key to read reports with: "
                "make it with MemoryTransport.serving(codebook)"
            )
        return self._aggregator


def codebook_of(given: Codebook | Path | str) -> Codebook:
    """A codebook from a `Codebook`, a path, or the text of metrics.toml."""
    if isinstance(given, Codebook):
        return given
    return Codebook.from_toml(given) if isinstance(given, str) and "\n" in given else Codebook.load(given)
