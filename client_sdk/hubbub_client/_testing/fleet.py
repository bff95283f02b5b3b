"""A fleet of simulated devices over one transport.

They keep no ledger and no outbox, as each value stands for another device. Everything that protects a value is the
client's own: the same randomizer, generator, sealing and reading of answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from hubbub.bundle import verify
from hubbub.codebook import Metric
from hubbub.errors import InvalidParameter, did_you_mean
from hubbub.period import Period
from hubbub.randomness import Randomness, SystemRandomness
from hubbub.refusals import Action
from hubbub.sealing import Sealer
from hubbub.wire import ReportHeader
from hubbub_client._codebooks.bundle_fetch_and_cache import fetch_bundle, signer_of, trust_anchors
from hubbub_client._codebooks.in_force import CodebooksInForce
from hubbub_client._codebooks.why_nothing_is_collected import no_answer
from hubbub_client._http.transport import CannotReach, HttpTransport, Transport
from hubbub_client._process.clock_and_entropy import wall
from hubbub_client._randomizing.draw import draw, in_share
from hubbub_client._sending.backoff import Pace
from hubbub_client._sending.seal_and_send import seal
from hubbub_client._sending.upload import upload

__all__ = ["Delivered", "Fleet"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of a fleet's values."""

    acknowledged: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Reports that were dropped, by the shuffler's reason."""
    undelivered: int = 0
    """Reports that were given up after the last attempt."""
    silent: int = 0
    """Devices whose coin kept them out, or that had nothing to report."""
    because: Counter[str] = field(default_factory=Counter)
    """Why reports are undelivered: the reason at the last attempt, and how many had it."""

    def __add__(self, other: Delivered) -> Delivered:
        return Delivered(
            self.acknowledged + other.acknowledged,
            self.refused + other.refused,
            self.undelivered + other.undelivered,
            self.silent + other.silent,
            self.because + other.because,
        )


_IMPATIENT = Pace(first=0.2, longest=5.0)
"""Short pauses, for a service that is being restarted, not for one that a crowd must spare."""


_AHEAD = 60.0
"""Seconds by which this machine's clock may be behind the shuffler's."""


class _Report(NamedTuple):
    nonce: bytes
    sealed: bytes


class Fleet:
    """Many simulated devices, each of which reports one value.

    Give it the bundle, or let it fetch one. Without `trust` the bundle's own signer is trusted, which is allowed only
    for an address on this machine. With `remember`, `drawn` maps each nonce to the value that it was drawn for, and
    `acknowledged` holds the nonces that the shuffler took.
    """

    def __init__(
        self,
        transport: Transport | str,
        *,
        bundle: bytes | None = None,
        trust: str | Sequence[str] | None = None,
        rng: Randomness | None = None,
        clock: Callable[[], float] = wall,
        pace: Pace | None = None,
        per_request: int = 1_000,
        attempts: int = 14,
        remember: bool = False,
    ) -> None:
        self._anchors = trust_anchors(trust, transport if isinstance(transport, str) else "http://localhost")
        self._address = transport if isinstance(transport, str) else "the shuffler"
        self._transport = HttpTransport(transport, timeout=30.0) if isinstance(transport, str) else transport
        self._rng, self._clock, self._pace = rng or SystemRandomness(), clock, pace or _IMPATIENT
        self._per_request, self._attempts, self._remember = per_request, attempts, remember
        self.drawn: dict[bytes, object] = {}
        self.acknowledged: set[bytes] = set()
        try:
            self._codebooks = self._read(bundle) if bundle is not None else self._fetch()
        finally:
            self.close()

    def period_of(self, moment: float | datetime | str | None = None) -> Period:
        """The period that holds this moment: seconds since 1970, a datetime, or ISO 8601 text (UTC unless they say
        otherwise). None: now."""
        calendar = self._codebooks.calendar
        if calendar is None:
            raise InvalidParameter("no codebook is in force, so there are no periods: publish one first")
        if moment is None:
            return calendar.at(self._clock())
        if isinstance(moment, str):
            try:
                moment = datetime.fromisoformat(moment)
            except ValueError as error:
                raise InvalidParameter(
                    f"{moment!r} is not a date: write it like 2027-01-04 or 2027-01-04T06:00Z"
                ) from error
        if isinstance(moment, datetime):
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        return calendar.at(moment)

    def report(
        self,
        metric: str,
        values: Iterable[object],
        period: int | Period | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Delivered:
        """Let one device per value report it for this period, by default the current one. None stands for a device that
        recorded nothing.

        `progress` is called with the number of values that are done.
        """
        chosen = self._period(period)
        found = self._metric(metric, chosen)
        self._sealer(chosen)
        total, done, rest = Delivered(), 0, iter(values)
        try:
            while part := list(islice(rest, self._per_request)):
                reports = list(self._made(found, part, chosen))
                total += Delivered(silent=len(part) - len(reports)) + self._deliver(reports)
                done += len(part)
                if progress is not None:
                    progress(done)
        finally:
            self.close()
        return total

    def _period(self, given: int | Period | None) -> Period:
        """The period to report, by the calendar of the codebook in force."""
        now = self.period_of()
        if given is None:
            return now
        if isinstance(given, Period) and given.calendar != now.calendar:
            raise InvalidParameter(
                f"the period that begins {given.label} is {given.calendar} long, and those of the codebook in force "
                f"are {now.calendar}: leave it out for the current one ({now.label}), or pass fleet.period_of(moment)"
            )
        period = given if isinstance(given, Period) else now.calendar.period(given)
        if period.start > self._clock() + _AHEAD:
            raise InvalidParameter(
                f"the period that begins {period.label} has not begun, and no shuffler takes its reports: the current "
                f"one began {now.label}"
            )
        return period

    def _metric(self, name: str, period: Period) -> Metric:
        page = self._codebooks.newest_page(period.index)
        if page is None or page.codebook is None:
            raise InvalidParameter(
                f"no codebook is in force in the period that begins {period.label}; the current one began "
                f"{self.period_of().label}"
            )
        found = page.metric(name)
        if found is None:
            later = [one for one in self._codebooks.pages if one.first_period > period.index and one.metric(name)]
            if later:
                begins = period.calendar.period(later[0].first_period).label
                raise InvalidParameter(
                    f"{name} is not in force yet: its codebook counts from the period that begins {begins} on, "
                    f"and the period asked for begins {period.label}"
                )
            names = [metric.name for metric in page.codebook.metrics]
            hint = did_you_mean(name, names) or f"it has {', '.join(names)}"
            raise InvalidParameter(
                f"the codebook of the period that begins {period.label} has no metric named {name!r}: {hint}"
            )
        return found

    def close(self) -> None:
        """Close the connection, if it is the fleet's own. `report` does so at its end, and the next one opens
        another."""
        if isinstance(self._transport, HttpTransport):
            self._transport.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _made(self, metric: Metric, values: Iterable[object], period: Period) -> Iterator[_Report]:
        key, sealer = self._sealer(period)
        header = ReportHeader(metric.id, period.index, key)
        for value in values:
            told = metric.missing if value is None else metric.recorded(value)
            if told is None or not in_share(metric, self._rng):
                continue
            drawn = draw(metric, told, self._rng)
            if self._remember:
                self.drawn[drawn.nonce] = value
            yield _Report(drawn.nonce, seal(header, drawn, sealer))

    def _deliver(self, pending: list[_Report]) -> Delivered:
        acknowledged, refused, because, wait = 0, Counter[str](), Counter[str](), 0.0
        for attempt in range(self._attempts):
            if not pending:
                break
            if attempt:
                self._pace.sleep(wait)
            answer = upload(self._transport, [report.sealed for report in pending])
            wait = max(answer.retry_after, self._pace.backoff(attempt, self._rng))
            left: list[_Report] = []
            because.clear()
            for report, verdict in zip(pending, answer.verdicts, strict=True):
                if verdict.action is None:
                    acknowledged += 1
                    if self._remember:
                        self.acknowledged.add(report.nonce)
                elif verdict.action is Action.DROP:
                    refused[verdict.reason] += 1
                else:
                    left.append(report)
                    because[verdict.reason] += 1
            if any(verdict.action is Action.REFETCH for verdict in answer.verdicts):
                with suppress(CannotReach):  # for later reports: these keep their key
                    self._codebooks = self._fetch()
            pending = left
        return Delivered(acknowledged, refused, len(pending), because=because)

    def _sealer(self, period: Period) -> tuple[int, Sealer]:
        key = self._codebooks.body.key_for(period.index)
        if key is None:
            raise InvalidParameter(
                f"the bundle has no key for the period that begins {period.label}, since it ended long ago or comes "
                f"much later: the current one began {self.period_of().label}"
            )
        return key.id, Sealer(key.public_key)

    def _fetch(self) -> CodebooksInForce:
        try:
            return self._read(fetch_bundle(self._transport) or b"")
        except CannotReach as error:
            raise CannotReach(no_answer(error, self._address)) from None  # not the forty lines of how it was found

    def _read(self, raw: bytes) -> CodebooksInForce:
        return CodebooksInForce.read(verify(raw, self._anchors or (signer_of(raw),), self._clock()), None)
