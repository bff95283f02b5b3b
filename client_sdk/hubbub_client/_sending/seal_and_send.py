"""Dispatch of due reports: seal, keep the sealed bytes, upload, and do with each report what its verdict says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hubbub.refusals import Action
from hubbub.sealing import Sealer
from hubbub.wire import Plaintext, ReportHeader, encode_report
from hubbub_client._counters import Event, Kind
from hubbub_client._process.fork import no_fork
from hubbub_client._sending.outbox import Lane, Outbox, Waiting
from hubbub_client._sending.upload import Verdict, chunks, upload

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hubbub_client._codebooks.in_force import CodebooksInForce
    from hubbub_client._http.transport import Transport
    from hubbub_client._randomizing.draw import Draw
    from hubbub_client._state.database import State

__all__ = ["Dispatch", "Round", "seal"]

MOST_REPORTS = 1_000
MOST_BYTES = 512 * 1024
"""Half of what a shuffler takes in one request unless configured otherwise."""


class Round(NamedTuple):
    """The result of sending a lane once."""

    left: int
    """Due reports that are still in the outbox."""
    unknown_key: bool
    """Whether the shuffler refused a key: a newer bundle may say what became of the key."""
    counts: Counter[Event]
    retry_after: float


class Dispatch:
    """The outbox and the way out of it."""

    def __init__(self, state: State) -> None:
        self._state = state

    def drop_unsendable(self, codebooks: CodebooksInForce, lane: Lane) -> Counter[Event]:
        """Remove reports from a lane that no shuffler would take any more. The reasons have the shuffler's names."""
        dropped: dict[bytes, str] = {}
        revoked = [key for key in codebooks.body.keys if key.state == "revoked"]
        keys = _keys(codebooks)
        with self._state.reading() as connection:
            waiting = Outbox.all(connection, lane)
        for report in waiting:
            header = codebooks.body.metric(report.id, report.period)
            key = report.key if report.key is not None else keys.get(report.period, (None,))[0]
            if header is None:
                dropped[report.drawn.nonce] = "unknown-metric"
            elif not header.enabled:
                dropped[report.drawn.nonce] = "metric-disabled"
            elif any(key == gone.id and gone.covers(report.period) for gone in revoked):
                dropped[report.drawn.nonce] = "revoked-key"  # a period that has begun gets no other key
        if dropped:
            with self._state.transaction() as connection:
                Outbox.remove(connection, dropped)
        return Counter(Event(Kind.DROPPED, reason) for reason in dropped.values())

    def send(self, transport: Transport, codebooks: CodebooksInForce, lane: Lane, now: float, *, hurry: bool) -> Round:
        """Upload the reports of a lane that are due, each once; with `hurry`, also those whose delay is not over.

        It goes part by part: each part is sealed, stored, uploaded and removed before the next one is looked at. So a
        full outbox costs no more at a time, and the first part is safe when the time is over.
        """
        with self._state.reading() as connection:
            waiting, generation = Outbox.due(connection, lane, now, hurry=hurry), self._state.generation
        counts: Counter[Event] = Counter()
        unknown_key = False
        gone = 0
        for some in _slices(waiting, MOST_REPORTS):
            ready = self._ready(some, codebooks, now, hurry=hurry)
            for part in chunks([sealed for _, sealed in ready], MOST_REPORTS, MOST_BYTES):
                self._state.witness_draws(lane.value, generation)  # on disk, too, before the first byte leaves
                answer = upload(transport, [sealed for _, sealed in ready[part]])
                done: list[bytes] = []
                for (report, _), verdict in zip(ready[part], answer.verdicts, strict=True):
                    counts[_event(verdict)] += 1
                    if verdict.action in (None, Action.DROP):
                        done.append(report.drawn.nonce)
                    unknown_key = unknown_key or verdict.action is Action.REFETCH
                with self._state.transaction() as connection:
                    Outbox.remove(connection, done)
                gone += len(done)
                if answer.blocked:
                    return Round(len(waiting) - gone, unknown_key, counts, answer.retry_after)
        return Round(len(waiting) - gone, unknown_key, counts, 0.0)

    def _ready(
        self, some: list[Waiting], codebooks: CodebooksInForce, now: float, *, hurry: bool
    ) -> list[tuple[Waiting, bytes]]:
        """These reports with the bytes to send, except those whose period has no key."""
        if self._seal([report for report in some if report.sealed is None], codebooks):
            nonces, lane = {report.drawn.nonce for report in some}, some[0].lane
            with self._state.reading() as connection:  # as it is stored: another process may have sealed it first
                due = Outbox.due(connection, lane, now, hurry=hurry)
            some = [report for report in due if report.drawn.nonce in nonces]
        return [(report, report.sealed) for report in some if report.sealed is not None]

    def _seal(self, reports: Iterable[Waiting], codebooks: CodebooksInForce) -> int:
        """Seal each report to its period's pinned key, if there is one. Returns how many were sealed."""
        keys, sealers = _keys(codebooks), dict[int, Sealer]()
        made: list[tuple[Waiting, int, bytes]] = []
        for report in reports:
            if report.period not in keys:
                continue
            key, public_key = keys[report.period]
            if key not in sealers:
                with no_fork():
                    sealers[key] = Sealer(public_key)
            sealer = sealers[key]
            made.append((report, key, seal(ReportHeader(report.id, report.period, key), report.drawn, sealer)))
        if made:
            with self._state.transaction() as connection:  # on disk before the first byte leaves
                for report, key, sealed in made:
                    Outbox.seal(connection, report, key, sealed)
        return len(made)


def seal(header: ReportHeader, drawn: Draw, sealer: Sealer) -> bytes:
    """The report as it is uploaded."""
    plaintext = Plaintext(header.period, drawn.nonce, drawn.payload).encode()
    with no_fork():
        return encode_report(header, sealer.seal(header, plaintext))


def _keys(codebooks: CodebooksInForce) -> dict[int, tuple[int, bytes]]:
    """The pinned key of each period, by its index in the calendar in force."""
    if codebooks.calendar is None:
        return {}
    return {
        codebooks.calendar.index_at(span.start): (pin.key, pin.public_key)
        for span, pin in codebooks.pins.items()
        if pin.key is not None and pin.public_key is not None
    }


def _slices(waiting: list[Waiting], size: int) -> Iterator[list[Waiting]]:
    for start in range(0, len(waiting), size):
        yield waiting[start : start + size]


def _event(verdict: Verdict) -> Event:
    if verdict.action is None:
        return Event(Kind.REPORT, verdict.reason)
    return Event(Kind.DROPPED if verdict.action is Action.DROP else Kind.RETRIED, verdict.reason)
