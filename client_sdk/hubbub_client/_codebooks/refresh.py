"""Refresh of the codebooks in force: from the cache, or from the shuffler when the bundle is stale.

When a device fetches depends on times, coins and what the shuffler answered. It never depends on what was recorded.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hubbub.errors import BundleError
from hubbub_client._codebooks.in_force import CodebooksInForce
from hubbub_client._codebooks.why_nothing_is_collected import why_bundle_refused, why_codebook_refused, why_no_bundle
from hubbub_client._counters import Kind
from hubbub_client._http.transport import CannotReach, NoConsent
from hubbub_client._state.errors import NoDurableState

if TYPE_CHECKING:
    from hubbub.bundle import Bundle
    from hubbub.codebook import Codebook
    from hubbub_client._budget.device_limits import Limits
    from hubbub_client._codebooks.bundle_fetch_and_cache import BundleCache
    from hubbub_client._codebooks.period_codebook_pins import Pins
    from hubbub_client._counters import Counts
    from hubbub_client._http.transport import Transport

__all__ = ["Codebooks", "Refreshed"]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """The outcome of a refresh."""

    codebooks: CodebooksInForce | None
    """The codebooks to send by. None: there is no bundle, or the shuffler serves one that is refused, so nothing is
    sent."""
    is_fresh: bool = False
    """Whether the bundle is as new as one can ask for. Only then does it pin periods."""
    retry_after: float = 0.0
    """Seconds that the shuffler asks the device to wait."""


@dataclass
class Codebooks:
    """The codebooks that one client records and sends by. One cycle at a time changes them."""

    cache: BundleCache
    pins: Pins
    limits: Limits
    counts: Counts
    address: str
    """The shuffler's, for people to read."""
    shipped: Codebook | None
    """The codebook that came with the app. Values are recorded by it until there is a bundle."""
    in_force: CodebooksInForce | None = None
    fetch_failed: bool = False
    """Whether the last attempt to get a bundle failed."""
    _refused: bool = False
    """Whether the last bundle that was served was refused."""
    _outdated: bool = False
    """Whether a shuffler refused a key of the bundle: a newer bundle may say what became of it."""

    def load(self) -> CodebooksInForce | None:
        """Start with the cached bundle, or without one, with the codebook that came with the app. Returns the codebooks
        of the cached bundle."""
        if self.shipped is not None:
            self.cache.package(self.shipped)
        cached = self._cached()
        if cached is None and self.shipped is not None:
            self._use(CodebooksInForce.before_any_bundle(self.shipped, self.limits))
        return cached

    def questions(self) -> CodebooksInForce | None:
        """What would be collected, for people to read before there is consent: by the codebooks in force, else by those
        of the cached bundle, else by the one that came with the app. Puts nothing in force."""
        if self.in_force is not None:
            return self.in_force
        with suppress(BundleError, NoDurableState):
            if self.cache.is_kept() and (bundle := self.cache.cached()) is not None:
                return CodebooksInForce.read(bundle, self.limits)
        return None if self.shipped is None else CodebooksInForce.before_any_bundle(self.shipped, self.limits)

    def known(self, now: float) -> Refreshed:
        """The codebooks that this device has, without a request."""
        current = self._current()
        if current is None or current.bundle is None or self._outdated:
            return Refreshed(current)
        return Refreshed(current, self.cache.is_fresh(current.bundle, now))

    def refresh(self, transport: Transport, now: float, *, spread: bool) -> Refreshed:
        """The codebooks that this device has, or those of a newer bundle when they are stale. With `spread`, they are
        stale later, at the worker's random time."""
        current = self._current()
        bundle = current.bundle if current is not None else None
        if bundle is not None and not self._outdated and self.cache.is_fresh(bundle, now, spread=spread):
            return Refreshed(current, self.cache.is_fresh(bundle, now))
        self.fetch_failed = True
        try:
            fetched = self.cache.fetch(transport, bundle, now)
        except CannotReach as error:
            self.counts.add(Kind.BUNDLE, "CannotReach")
            if not isinstance(error, NoConsent):
                why = why_no_bundle(error, self.address, has_bundle=current is not None)
                self.counts.tell_developer("bundle:CannotReach", why)
            return Refreshed(current, retry_after=error.retry_after)
        except BundleError as error:
            self._say_refused(error, self.address)
            self._refused = True
            return Refreshed(None)
        self._outdated = self.fetch_failed = self._refused = False
        if bundle is None or fetched.digest != bundle.digest:
            current = self._use_bundle(fetched)
        return Refreshed(current, is_fresh=True)

    def refetch(self, transport: Transport, now: float) -> Refreshed:
        """Fetch even if the bundle is fresh, because a shuffler refused one of its keys."""
        self._outdated = True
        return self.refresh(transport, now, spread=False)

    def pin(self, codebooks: CodebooksInForce, now: float, *, fresh: bool) -> tuple[CodebooksInForce, bool]:
        """The codebooks with their pins, and whether none is missing."""
        self.in_force, complete = self.pins.pin(codebooks, now, fresh=fresh)
        return self.in_force, complete

    def may_send(self, now: float) -> bool:
        """Nothing is sent without a bundle, by an expired one, or after one was refused."""
        current = self.in_force
        return current is not None and current.bundle is not None and now < current.expires and not self._refused

    def _current(self) -> CodebooksInForce | None:
        current = self.in_force
        return current if current is not None and current.bundle is not None else self._cached()

    def _cached(self) -> CodebooksInForce | None:
        try:
            bundle = self.cache.cached()
        except BundleError as error:
            self._say_refused(error, "state_dir")
            return None
        return None if bundle is None else self._use_bundle(bundle)

    def _use_bundle(self, bundle: Bundle) -> CodebooksInForce:
        pins = self.in_force.pins if self.in_force is not None else {}
        return self._use(replace(CodebooksInForce.read(bundle, self.limits), pins=pins))

    def _use(self, codebooks: CodebooksInForce) -> CodebooksInForce:
        self.in_force = codebooks
        for page in codebooks.pages:
            if page.codebook is None and not page.is_stop:
                self.counts.add(Kind.CODEBOOK, "unreadable")
            elif page.refusal is not None:
                self.counts.add(Kind.CODEBOOK, page.refusal)
                self.counts.warn_once(why_codebook_refused(page, self.limits))
            for name, error in page.codebook.refused.items() if page.codebook else ():
                self.counts.add(Kind.CODEBOOK, "metric-refused")
                self.counts.warn_once(
                    f"metric {name!r} is not collected: this SDK refuses it: {error.findings[0].problem}"
                )
        return codebooks

    def _say_refused(self, error: BundleError, origin: str) -> None:
        self.counts.add(Kind.BUNDLE, type(error).__name__)
        self.counts.warn_once(why_bundle_refused(error, origin, self.cache.anchors))
