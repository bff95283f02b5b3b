"""Planted bugs: ten ways in which systems of this kind have lost, doubled or revealed reports. The world finds each.

A bug is a context manager: while its block runs, the product has it. All are bugs of the SDK, the services, or their
SQLite storages.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hubbub_aggregator.intake import accumulate, batch_guarantee
from hubbub_aggregator.storage.sqlite import nonces as sqlite_nonces
from hubbub_aggregator.storage.sqlite.backend import SqliteStorage as AggregatorStorage
from hubbub_client._budget.ledger import Decision, Ledger
from hubbub_client._randomizing.randomize import Randomizer
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_shuffler.batching import batch_worker
from hubbub_shuffler.bundle.hold_begun_periods import HeldPeriods
from hubbub_shuffler.forwarding.forward_attempt import Again, Final, Forwarder
from hubbub_shuffler.ingest.group_commit import Commits
from hubbub_shuffler.storage.sqlite import batches
from hubbub_shuffler.storage.sqlite.backend import SqliteStorage as ShufflerStorage
from tests.world.devices import Life

__all__ = ["PLANTED"]


@contextmanager
def acknowledged_before_commit() -> Iterator[None]:
    """The answer to an upload does not wait for the commit."""
    real, running = Commits._store, list[Any]()

    async def store(self: Commits, uploads: list[Any]) -> Any:
        running.append(asyncio.get_running_loop().create_task(real(self, uploads)))
        return {}

    with patch.object(Commits, "_store", store):
        yield


@contextmanager
def unstable_batch_id() -> Iterator[None]:
    """A batch is sent under another id at each attempt."""
    put, verdict, sent = Forwarder.put, Forwarder.verdict, dict[bytes, bytes]()

    async def put_again(self: Forwarder, batch_id: bytes, length: int, body: Any) -> Any:
        sent[batch_id] = hashlib.sha256(sent.get(batch_id, batch_id)).digest()[:16]
        return await put(self, sent[batch_id], length, body)

    async def ask(self: Forwarder, batch_id: bytes) -> Any:
        return await verdict(self, sent.get(batch_id, batch_id))

    with patch.object(Forwarder, "put", put_again), patch.object(Forwarder, "verdict", ask):
        yield


@contextmanager
def seen_set_committed_apart() -> Iterator[None]:
    """The nonces of a release are committed after the release."""
    real = AggregatorStorage.accept

    def accept(self: AggregatorStorage, id: bytes, version: int, accepted: Any, last: bytes | None = None) -> Any:  # noqa: A002  as there
        outcome = real(self, id, version, replace(accepted, nonces=b""), last)
        if outcome == "accepted":
            batch = self.batch(id)
            assert batch is not None
            with self._transaction():
                sqlite_nonces.write(self._connection, batch.header.period, id, accepted.nonces)
        return outcome

    with patch.object(AggregatorStorage, "accept", accept):
        yield


@contextmanager
def off_by_one_at_close() -> Iterator[None]:
    """A bucket takes reports for one step longer: after it is closed, until it is planned and beyond."""
    real = ShufflerStorage._open

    def opened(self: ShufflerStorage, db: Any, arrival: Any, now: float) -> Any:
        found = real(self, db, arrival, now)
        if found[2] != "period-closed":
            return found
        row = db.execute(
            "SELECT waiting, filled FROM buckets WHERE metric = ? AND period = ? AND key = ? "
            "AND state IN ('closed', 'planned')",
            arrival.bucket,
        ).fetchone()
        return found if row is None else (*row, None)

    with patch.object(ShufflerStorage, "_open", opened):
        yield


@contextmanager
def erased_on_one_look() -> Iterator[None]:
    """What the clock says now counts as certainly past."""

    def past(self: TrustedClock, wait: float = 0.0) -> float:  # noqa: ARG001  the same signature
        return self.now()

    with patch.object(TrustedClock, "past", past):
        yield


@contextmanager
def verdict_final_too_early() -> Iterator[None]:
    """A shuffler takes every refusal for final, also one that asks it to try again."""
    real = Forwarder._ask

    async def ask(self: Forwarder, *given: Any) -> Any:
        answer = await real(self, *given)
        return Final("refused") if isinstance(answer, Again) and answer.why[:1] in "45" else answer

    with patch.object(batch_worker, "confirmed", lambda *_given: True), patch.object(Forwarder, "_ask", ask):
        yield


@contextmanager
def junk_counts_as_honest() -> Iterator[None]:
    """A batch is as large as its header says."""

    def promise_of(storage: Any, governed: Any, header: Any, valid: int) -> Any:
        return batch_guarantee.promise_of(storage, governed, header, max(valid, header.count))

    with patch.object(accumulate, "promise_of", promise_of):
        yield


@contextmanager
def page_chosen_late() -> Iterator[None]:
    """A shuffler does not hold begun periods to what they began with."""

    async def hold(self: HeldPeriods, said: Any, now: float, **_named: Any) -> None:
        if now > -math.inf:
            self.through, self.known = said.begun(now, self._skew), True
            self.until = said.begins(self.through + 1, self._skew)

    with patch.object(HeldPeriods, "hold", hold):
        yield


@contextmanager
def lease_not_fenced() -> Iterator[None]:
    """A worker may change a batch whatever its token is."""

    def unfenced(real: Callable[..., bool]) -> Callable[..., bool]:
        def change(db: Any, claim: Any, *given: Any, **named: Any) -> bool:
            db.execute("UPDATE batches SET lease = ? WHERE id = ?", (claim.token, claim.batch.id))
            return real(db, claim, *given, **named)

        return change

    with (
        patch.object(batches, "extend", unfenced(batches.extend)),
        patch.object(batches, "postpone", unfenced(batches.postpone)),
        patch.object(batches, "settle", unfenced(batches.settle)),
        patch.object(batches, "hold_back", unfenced(batches.hold_back)),
    ):
        yield


@contextmanager
def spent_after_sending() -> Iterator[None]:
    """A device writes down what it has spent when a report has been answered."""
    spend, settle, request = Ledger.spend, Randomizer.settle, Life.request
    owed, states = list[Any](), dict[int, Any]()

    def later(self: Ledger, connection: Any, metric: str, period: Any, *, steady: bool = False) -> bool:
        if self.decision(connection, metric, period, steady=steady) is not Decision.CHARGED:
            return False
        owed.append((self, metric, period, steady))
        return True

    def settled(self: Randomizer, *given: Any) -> Any:
        states[id(self._ledger)] = self._state
        return settle(self, *given)

    def answered(self: Life, method: str, *given: Any) -> Any:
        try:
            answer = request(self, method, *given)
        except BaseException:
            owed.clear()  # no answer, nothing written
            raise
        while owed and method == "POST":
            ledger, metric, period, steady = owed.pop()
            with states[id(ledger)].transaction() as connection:
                spend(ledger, connection, metric, period, steady=steady)
        return answer

    with (
        patch.object(Ledger, "spend", later),
        patch.object(Randomizer, "settle", settled),
        patch.object(Life, "request", answered),
    ):
        yield


PLANTED: dict[str, Callable[[], AbstractContextManager[None]]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        acknowledged_before_commit,
        unstable_batch_id,
        seen_set_committed_apart,
        off_by_one_at_close,
        erased_on_one_look,
        verdict_final_too_early,
        junk_counts_as_honest,
        page_chosen_late,
        lease_not_fenced,
        spent_after_sending,
    )
}
"""By name."""
