"""One pass: a fresh bundle, values settled, what is due sent. For `flush`, which insists, and for the sender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hubbub.problems import BundleError
from hubbub_client._book import Book
from hubbub_client.outbox import Outbox
from hubbub_client.transport import CannotReach

if TYPE_CHECKING:
    from hubbub.bundle import Bundle
    from hubbub.codebook import Codebook
    from hubbub.randomness import Randomness
    from hubbub_client._counts import Counts
    from hubbub_client._intake import Intake
    from hubbub_client._limits import Limits
    from hubbub_client._pace import Pace
    from hubbub_client._reports import Reports
    from hubbub_client._rest import Rest
    from hubbub_client._sending import Round, Sending
    from hubbub_client._source import BundleSource
    from hubbub_client._state import State
    from hubbub_client.transport import Transport

__all__ = ["Courier"]

_LONGEST_SLEEP = 3_600.0
_SHORTEST_SLEEP = 0.5
_JITTER = 120_000
"""Milliseconds by which devices that wait for the same moment spread."""
_SHORT_LOG, _LONG_LOG = 8, 1_000
"""Pages. A log longer than this is emptied at the start, and at the next pass."""


@dataclass
class Courier:
    """What a client does besides recording. One pass at a time: the client sees to that."""

    state: State
    source: BundleSource
    intake: Intake
    reports: Reports
    sending: Sending
    counts: Counts
    limits: Limits
    rng: Randomness
    pace: Pace
    rest: Rest
    clock: Callable[[], float]
    attend: Callable[[], bool]
    """Whether there is consent, now."""
    book: Book | None = None
    """What values are recorded by."""
    _refetch: bool = False
    _no_bundle: bool = False
    """Whether the last attempt to get a bundle failed."""
    _unclean: bool = False
    """Whether the log may still hold true values that were deleted."""

    # -- the book -------------------------------------------------------------------------------

    def start(self, codebook: Codebook | None) -> None:
        """Begin with the cached bundle, or else with the codebook that came with the app."""
        now = self.clock()
        if codebook is not None:
            self.source.package(codebook, now)
        if self._read_cached() is None and codebook is not None:
            self._open(Book.before_any_bundle(codebook, self.limits))
        self.rest.resume()
        self._sweep(now)
        if self.state.log_pages() > _SHORT_LOG:
            self.state.scrub()  # someone was killed, perhaps before this was done
        else:
            self.state.warm()

    def _read_cached(self) -> Book | None:
        try:
            bundle = self.source.cached()
        except BundleError as error:
            self._refused(error)
            return None
        return None if bundle is None else self._open_bundle(bundle)

    def _open_bundle(self, bundle: Bundle) -> Book:
        return self._open(Book.read(bundle, self.limits))

    def _open(self, book: Book) -> Book:
        self.book = book
        for page in book.pages:
            if page.codebook is None:
                self.counts.add("codebook:unreadable")
            elif page.refusal is not None:
                self.counts.add(f"codebook:{page.refusal}")
                self.counts.say(f"a codebook is not used, as this device does not allow it: {page.refusal}")
        return book

    def _refused(self, error: BundleError) -> None:
        self.counts.add(f"bundle:{type(error).__name__}")
        self.counts.say(f"a bundle is refused, so nothing is sent: {type(error).__name__}")

    def _refreshed(self, transport: Transport, *, rested: bool) -> Book | None:
        """The book to send by. None when there is none, or the bundle that is served is refused: then nothing is
        sent at all."""
        now = self.clock()
        current = self.book if self.book is not None and self.book.bundle is not None else self._read_cached()
        bundle = current.bundle if current is not None else None
        if bundle is not None and not self._refetch and self.source.is_fresh(bundle, now):
            return current
        if not rested:
            return current
        self._no_bundle = True
        try:
            fetched = self.source.fetch(transport, bundle, now)
        except CannotReach as error:
            self.counts.add("bundle:CannotReach")
            self.rest.asked(error.retry_after)
            return current
        except BundleError as error:
            self._refused(error)
            return None
        self._refetch = self._no_bundle = False
        if bundle is None or fetched.digest != bundle.digest:
            return self._open_bundle(fetched)
        return current

    # -- passes ---------------------------------------------------------------------------------

    def flush(self, transport: Transport, deadline: float, *, hurry: bool) -> bool:
        """Pass after pass, with growing pauses, until nothing that is due is left or the time is over."""
        attempt = 0
        while True:
            wait = self.rest.until_asked()
            if wait <= 0:
                if not self.attend():
                    return False
                if self.once(transport, hurry=hurry):
                    self.rest.succeeded()
                    return True
                wait = max(self.rest.until_asked(), self.pace.backoff(attempt, self.rng))
                attempt += 1
            if self.pace.monotonic() + wait >= deadline:
                return False
            self.pace.sleep(wait)

    def background(self, transport: Transport) -> float:
        """One pass of the sender's. Returns the seconds until the next one is worth while."""
        if not self.attend():
            return _LONGEST_SLEEP
        rested = self.rest.left() <= 0
        trouble = not self.once(transport, rested=rested) or self._no_bundle
        if not trouble:
            self.rest.succeeded()
        elif rested:
            self.rest.failed()
        return self._pause(trouble=trouble)

    def once(self, transport: Transport, *, hurry: bool = False, rested: bool = True) -> bool:
        """Whether nothing that is due is left. Not `rested`: only what needs no network."""
        self._sweep(self.clock())
        book = self._refreshed(transport, rested=rested)
        now = self.clock()
        if not self.attend():  # it may have been a long wait
            return False
        if self.book is not None:
            self.intake.empty(self.book, now, self.attend)
        if book is None or now >= book.expires:
            return False
        settled = self.reports.settle(book, now)
        self._unclean = settled.pop("settled", 0) > 0 or self._unclean
        if self._unclean or self.state.log_pages() > _LONG_LOG:
            self._unclean = not self.state.scrub()  # true values are gone from the log, too
        self.counts.update(settled)
        self.counts.update(self.sending.drop_hopeless(book.body))
        if not rested:
            return False
        sent = self._send(transport, book, now, hurry=hurry)
        if sent.reseal and not sent.retry_after:
            self._refetch = True
            book = self._refreshed(transport, rested=True)
            if book is not None and self.sending.seal(sent.reseal, book.body):
                sent = self._send(transport, book, now, hurry=hurry)
        return sent.left == 0

    def has_something_due(self) -> bool:
        """Whether a pass would send something, or fetch what values are waiting for."""
        if self.intake.waiting():
            return True
        now = self.clock()
        with self.state.reading() as connection:
            soonest = Outbox.next_at(connection)
            (raw,) = connection.execute("SELECT count(*) FROM reductions").fetchone()
        return (soonest is not None and soonest <= now) or (raw > 0 and (self.book is None or self.book.bundle is None))

    def queued(self) -> int:
        """How many reports are in the outbox."""
        with self.state.reading() as connection:
            return Outbox.size(connection)

    def _send(self, transport: Transport, book: Book, now: float, *, hurry: bool) -> Round:
        sent = self.sending.send(transport, book.body, now, hurry=hurry)
        self.counts.update(sent.counts)
        self.rest.asked(sent.retry_after)
        return sent

    def _sweep(self, now: float) -> None:
        swept = self.reports.sweep(now)
        self._unclean = self._unclean or any(name.startswith("lost:") for name in swept)
        self.counts.update(swept)

    def _pause(self, *, trouble: bool) -> float:
        """Until the next report is due, the period ends, the bundle is stale, or it is time to try again."""
        now = self.clock()
        waits = [_LONGEST_SLEEP]
        if trouble:
            waits.append(self.rest.left())
        if self.intake.waiting() and self.book is not None:
            waits.append(0.0)  # the file was busy
        book = self.book
        if not trouble and book is not None and book.bundle is not None and now < book.expires:
            # far less than the grace, or what ended would be settled too late to be sent
            graces = [page.codebook.collection.grace for page in book.pages if page.codebook]
            jitter = self.rng.below(min([_JITTER, *(250 * grace for grace in graces)]) + 1) / 1000
            waits.append(self.source.stale_at(book.bundle) - now + jitter)
            if book.calendar is not None:
                waits.append(book.calendar.at(now).end - now + jitter)
            with self.state.reading() as connection:
                soonest = Outbox.next_at(connection)
            if soonest is not None:
                waits.append(soonest - now)
        return min(max(min(waits), _SHORTEST_SLEEP), _LONGEST_SLEEP)
