"""Pins: the codebook page, key and decisions that a device fixes at its first look at a period.

A cycle makes the pin (at the start, by the timer, by `flush`), never `record`, and it never changes. Recorded and
missing values are settled by it alone. So an edit of the codebook, whenever this device hears of it, cannot make the
device send what was recorded under one id and `missing` under another. With the pin, every metric of the page is
decided and charged, recorded or not: nothing that is recorded later can use up the budget of another metric.

Only a fresh bundle makes pins. A device that was away takes the page that is in force now, not the one it remembers.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hubbub.errors import HubbubError
from hubbub.period import DAY
from hubbub_client._codebooks.in_force import CodebooksInForce, Page, Pin, Span, is_expired, span_of
from hubbub_client._consent.consent_and_withdrawal import enabled_since
from hubbub_client._integrity.torn_rows import Torn
from hubbub_client._randomizing.draw import in_share
from hubbub_client._sending.outbox import Lane

if TYPE_CHECKING:
    from hubbub.bundle import SealingKey
    from hubbub.period import Period
    from hubbub_client._budget.device_limits import Limits
    from hubbub_client._budget.ledger import Ledger
    from hubbub_client._sending.sending_coins import Coins
    from hubbub_client._state.database import State

__all__ = ["Pins", "read_pins"]

_TYPES = (int, int, bytes, int, int | None, bytes | None)
"""The types of a pin's columns."""
_KEPT = 7 * DAY
"""Seconds that a pin is kept once its period takes no more reports, so that a clock that is set back finds the same
page again."""


@dataclass(frozen=True, slots=True)
class Pins:
    """Reads the pins of this device and makes those that are missing."""

    state: State
    ledger: Ledger
    limits: Limits
    coins: Coins

    def pin(self, codebooks: CodebooksInForce, now: float, *, fresh: bool) -> tuple[CodebooksInForce, bool]:
        """The codebooks with their pins, and whether none is missing. A `fresh` bundle makes the missing ones."""
        with self.state.reading() as connection:
            codebooks = replace(codebooks, pins=read_pins(connection, codebooks, self.limits))
            enabled = enabled_since(connection)
        if enabled is None or now >= codebooks.expires:
            return codebooks, False
        since = min(enabled, now)  # a clock that was ahead when consent was given must not exclude the current period
        periods = [period for period in codebooks.open_periods(now) if since < period.end]
        self.state.witness_charges(Lane.STEADY.value)
        if self.are_made(codebooks, periods) or not fresh:
            return codebooks, self.are_made(codebooks, periods)
        with self.state.transaction() as connection:
            if enabled_since(connection) is not None:
                self.state.check(connection, Lane.STEADY.value)
                self.make(connection, codebooks, periods, now)
            codebooks = replace(codebooks, pins=read_pins(connection, codebooks, self.limits))
        self.state.witness_charges(Lane.STEADY.value)  # now, and not when something is recorded
        return codebooks, self.are_made(codebooks, periods)

    def make(
        self, connection: sqlite3.Connection, codebooks: CodebooksInForce, periods: list[Period], now: float
    ) -> None:
        """Pin those of these periods that have no pin yet and whose page is usable. Add keys to pins that have none."""
        pinned = {Span(*row[:2]): row[2] for row in connection.execute("SELECT start, end, key FROM pins")}
        for period in periods:
            span, key = span_of(period), codebooks.body.key_for(period.index)
            if span not in pinned:
                self._make(connection, codebooks, period, key, now)
            elif pinned[span] is None and key is not None:
                connection.execute(
                    "UPDATE pins SET key = ?, public_key = ? WHERE start = ? AND end = ? AND key IS NULL",
                    (key.id, key.public_key, *span),
                )

    @staticmethod
    def are_made(codebooks: CodebooksInForce, periods: list[Period]) -> bool:
        """Whether `make` would find nothing to do."""
        return all(
            (pin := codebooks.pin(period)) is not None
            and (pin.key is not None or codebooks.body.key_for(period.index) is None)
            for period in periods
            if (page := codebooks.newest_page(period.index)) is not None and page.usable
        )

    @staticmethod
    def sweep(connection: sqlite3.Connection, now: float) -> None:
        """Delete pins that are long over, and pages that no pin needs."""
        if connection.execute("DELETE FROM pins WHERE closes_at <= ?", (now - _KEPT,)).rowcount:
            connection.execute("DELETE FROM pages WHERE id NOT IN (SELECT page FROM pins)")

    @staticmethod
    def are_old(connection: sqlite3.Connection, now: float) -> bool:
        """Whether there is anything to sweep."""
        old = connection.execute("SELECT 1 FROM pins WHERE closes_at <= ? LIMIT 1", (now - _KEPT,))
        return old.fetchone() is not None

    def _make(
        self,
        connection: sqlite3.Connection,
        codebooks: CodebooksInForce,
        period: Period,
        key: SealingKey | None,
        now: float,
    ) -> None:
        page = codebooks.newest_page(period.index)
        if page is None or page.codebook is None or not page.usable:
            return
        codebook, rules = page.codebook, page.codebook.collection
        connection.execute("INSERT OR IGNORE INTO pages VALUES (?, ?)", (codebook.id, codebook.to_bytes()))
        connection.execute(
            "INSERT INTO pins VALUES (?, ?, ?, ?, ?, ?)",
            (
                *span_of(period),
                codebook.id,
                period.closes_at(rules.grace),
                key.id if key else None,
                key.public_key if key else None,
            ),
        )
        for metric in sorted(codebook.metrics, key=lambda metric: metric.name):
            if not codebooks.is_off(metric) and not is_expired(metric, period.start):
                wanted = in_share(metric, self.coins.of("share", metric.name, period.index))
                self.ledger.decide(
                    connection, metric.name, period, metric.epsilon, rules.device_epsilon, now, in_share=wanted
                )


def read_pins(connection: sqlite3.Connection, codebooks: CodebooksInForce, limits: Limits) -> dict[Span, Pin]:
    """All kept pins. Pages that the codebooks hold already are not parsed again. Raises Torn if a pin cannot be read:
    no device reports without it, whatever was recorded."""
    at_hand = [*codebooks.pages, *(pin.page for pin in codebooks.pins.values())]
    pages = {page.codebook.id: page for page in at_hand if page.codebook}
    found: dict[Span, Pin] = {}
    rows = connection.execute("SELECT start, end, page, closes_at, key, public_key FROM pins").fetchall()
    for row in rows:
        start, end, id_, closes_at, key, public_key = row
        if not all(isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True)):
            raise Torn("a pin cannot be read")
        if id_ not in pages:
            pages[id_] = _page(connection, id_, limits)
        found[Span(start, end)] = Pin(pages[id_], closes_at, key, public_key)
    return found


def _page(connection: sqlite3.Connection, id_: bytes, limits: Limits) -> Page:
    from hubbub.codebook import Codebook

    row = connection.execute("SELECT document FROM pages WHERE id = ?", (id_,)).fetchone()
    if row is None or not isinstance(row[0], bytes):
        raise Torn("the page of a pin is gone")
    try:
        codebook = Codebook.received(row[0])
    except HubbubError:
        return Page(0, None)  # written by a newer SDK: its periods stay pinned, and are not reported
    return Page(0, codebook, limits.refusal(codebook))
