"""Sending what is due: seal, keep the sealed bytes, upload, and do with each report what its verdict says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hubbub.refusals import Action
from hubbub.sealing import Sealer
from hubbub.wire import ReportHeader
from hubbub_client._draw import seal
from hubbub_client._upload import chunks, upload
from hubbub_client.outbox import Outbox, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hubbub.bundle_body import Body
    from hubbub_client._state import State
    from hubbub_client.transport import Transport

__all__ = ["Round", "Sending"]

MOST_REPORTS = 1_000
MOST_BYTES = 512 * 1024
"""Half of what a shuffler takes in one request unless configured otherwise."""


class Round(NamedTuple):
    """How one pass over the outbox went."""

    left: int
    """Due reports that are still in the outbox."""
    reseal: list[Waiting]
    """Those among them whose key the shuffler refused."""
    counts: Counter[str]
    retry_after: float


class Sending:
    """The outbox and the way out of it."""

    def __init__(self, state: State) -> None:
        self._state = state

    def drop_hopeless(self, body: Body) -> Counter[str]:
        """Remove what no shuffler would take any more, under the names that a shuffler would give."""
        dropped: dict[bytes, str] = {}
        with self._state.reading() as connection:
            waiting = Outbox.due(connection, None)
        for report in waiting:
            header = body.metric(report.id, report.period)
            if header is None:
                dropped[report.drawn.nonce] = "unknown-metric"
            elif not header.enabled:
                dropped[report.drawn.nonce] = "metric-disabled"
        if dropped:
            with self._state.transaction() as connection:
                Outbox.remove(connection, dropped)
        return Counter(f"dropped:{reason}" for reason in dropped.values())

    def send(self, transport: Transport, body: Body, now: float, *, hurry: bool) -> Round:
        """Upload what is due by now, with `hurry` without its delay, each report once; to a revoked key none.

        Part by part: what one part needs is sealed, stored, uploaded and settled before the next is looked at, so that
        a full outbox costs no more at a time, and the first part is safe when the time is over.
        """
        with self._state.reading() as connection:
            waiting = Outbox.due(connection, now, hurry=hurry)
        counts: Counter[str] = Counter()
        reseal: list[Waiting] = []
        gone = 0
        for some in _slices(waiting, MOST_REPORTS):
            ready = self._ready(some, body, now, hurry=hurry)
            for part in chunks([sealed for _, sealed in ready], MOST_REPORTS, MOST_BYTES):
                answer = upload(transport, [sealed for _, sealed in ready[part]])
                done: list[bytes] = []
                for (report, _), verdict in zip(ready[part], answer.verdicts, strict=True):
                    counts[_counter(verdict.action, verdict.reason)] += 1
                    if verdict.action in (None, Action.DROP):
                        done.append(report.drawn.nonce)
                    elif verdict.action is Action.RESEAL:
                        reseal.append(report)
                with self._state.transaction() as connection:
                    Outbox.remove(connection, done)
                gone += len(done)
                if answer.blocked:
                    return Round(len(waiting) - gone, reseal, counts, answer.retry_after)
        return Round(len(waiting) - gone, reseal, counts, 0.0)

    def _ready(self, some: list[Waiting], body: Body, now: float, *, hurry: bool) -> list[tuple[Waiting, bytes]]:
        """These reports with the bytes to send, as far as there is a key for them that was not revoked."""
        revoked = {key.id for key in body.keys if key.state == "revoked"}
        if self.seal([report for report in some if report.sealed is None or report.key in revoked], body):
            nonces = {report.drawn.nonce for report in some}
            with self._state.reading() as connection:  # as it is stored: another process may have sealed it first
                some = [report for report in Outbox.due(connection, now, hurry=hurry) if report.drawn.nonce in nonces]
        return [(report, report.sealed) for report in some if report.sealed is not None and report.key not in revoked]

    def seal(self, reports: Iterable[Waiting], body: Body) -> int:
        """Seal to the key of each period, if there is one and it is another than before. How many were."""
        sealers: dict[int, Sealer] = {}
        made: list[tuple[Waiting, int, bytes]] = []
        for report in reports:
            key = body.key_for(report.period)
            if key is None or key.id == report.key:
                continue
            sealer = sealers.setdefault(key.id, Sealer(key.public_key))
            header = ReportHeader(report.id, report.period, key.id)
            made.append((report, key.id, seal(header, report.drawn, sealer)))
        if made:
            with self._state.transaction() as connection:  # on disk before the first byte leaves
                for report, key_id, sealed in made:
                    Outbox.seal(connection, report, key_id, sealed)
        return len(made)


def _slices(waiting: list[Waiting], size: int) -> Iterator[list[Waiting]]:
    for start in range(0, len(waiting), size):
        yield waiting[start : start + size]


def _counter(action: Action | None, reason: str) -> str:
    if action is None:
        return reason
    return f"dropped:{reason}" if action is Action.DROP else f"retried:{reason}"
