"""Planted bugs by which a device could reveal whether something was recorded. The twins must show each of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hubbub_client import Client
from hubbub_client._budget.device_limits import Limits
from hubbub_client._budget.ledger import Decision, Ledger
from hubbub_client._codebooks import period_codebook_pins
from hubbub_client._codebooks.in_force import CodebooksInForce, Pin, Span
from hubbub_client._consent.gate import ConsentGate
from hubbub_client._randomizing.randomize import Randomizer
from hubbub_client._sending.sending_coins import OneStream

__all__ = [
    "acts_on_consent_when_recording",
    "charges_what_is_recorded",
    "draws_all_from_one_stream",
    "settles_missing_by_the_newest_page",
    "wakes_when_recording",
]


@contextmanager
def settles_missing_by_the_newest_page() -> Iterator[None]:
    """Recorded values are reported by the page they were recorded under, `missing` by the newest page."""
    read = period_codebook_pins.read_pins

    def by_the_newest(connection: sqlite3.Connection, book: CodebooksInForce, limits: Limits) -> dict[Span, Pin]:
        recorded = {period for (period,) in connection.execute("SELECT DISTINCT period FROM reductions")}
        pins = read(connection, book, limits)
        for span, pin in pins.items():
            index = book.calendar.index_at(span.start) if book.calendar else 0
            page = book.newest_page(index)
            if index not in recorded and page is not None and page.usable:
                pins[span] = replace(pin, page=page)
        return pins

    with patch.object(period_codebook_pins, "read_pins", by_the_newest):
        yield


@contextmanager
def wakes_when_recording() -> Iterator[None]:
    """The thread starts with the first value, so a device that records nothing sends nothing."""
    record = Client.record

    def waking(self: Client, name: str, value: object) -> Any:
        if self._worker is not None:
            self._worker.wake(1.0)
        return record(self, name, value)

    with patch.object(Client, "_wake", lambda _self: None), patch.object(Client, "record", waking):
        yield


@contextmanager
def charges_what_is_recorded() -> Iterator[None]:
    """The budget is charged when a value is randomized, so one metric can use up what another one needs."""
    decide, decision, spend = Ledger.decide, Ledger.decision, Ledger.spend
    wanted: dict[tuple[str, int, int], tuple[Any, ...]] = {}

    def later(self: Ledger, connection: Any, metric: str, period: Any, *rest: Any, in_share: bool) -> Any:
        if not in_share:
            return decide(self, connection, metric, period, *rest, in_share=False)
        wanted[metric, period.start, period.end] = rest
        return Decision.CHARGED

    def taken_for_charged(
        self: Ledger, connection: Any, metric: str, period: Any, *, steady: bool = False
    ) -> Decision | None:
        known = decision(self, connection, metric, period, steady=steady)
        return Decision.CHARGED if known is None and (metric, period.start, period.end) in wanted else known

    def now(self: Ledger, connection: Any, metric: str, period: Any, *, steady: bool = False) -> bool:
        with patch.object(Ledger, "decision", decision):
            decide(self, connection, metric, period, *wanted[metric, period.start, period.end], in_share=True)
            return spend(self, connection, metric, period, steady=steady)

    with (
        patch.object(Ledger, "decide", later),
        patch.object(Ledger, "decision", taken_for_charged),
        patch.object(Ledger, "spend", now),
        patch.object(Ledger, "charged", lambda *_: set(wanted)),
    ):
        yield


@contextmanager
def draws_all_from_one_stream() -> Iterator[None]:
    """Delays and nonces come from the same stream as the randomization of values."""
    made = Randomizer.__init__

    def of_one(self: Randomizer, *parts: Any) -> None:
        made(self, *parts)
        self._coins = OneStream(self._rng)

    with patch.object(Randomizer, "__init__", of_one):
        yield


@contextmanager
def acts_on_consent_when_recording() -> Iterator[None]:
    """A `record` call is the first to notice that consent was withdrawn, and deletes the waiting reports."""

    with patch.object(ConsentGate, "may_record", ConsentGate.may_send):
        yield
