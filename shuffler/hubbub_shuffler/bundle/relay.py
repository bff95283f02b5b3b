"""The signed bundle: fetched from the aggregator, verified, kept on disk, relayed byte for byte.

The shuffler reads from it which buckets exist; devices read the rest. The shuffler can't change a byte without devices
noticing. When the aggregator is away, it uses its copy until that expires. A bundle that would change a period that has
begun is refused like a forged one: `hubbub_shuffler.bundle.begun_periods` says why.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

from hubbub.bundle import LARGEST_BUNDLE, Bundle, BundledCodebook, Seen, verify
from hubbub.canonical import digest
from hubbub.errors import (
    BundleError,
    ChangedPeriod,
    ExpiredBundle,
    InvalidParameter,
    MalformedBundle,
    UntrustedBundle,
)
from hubbub.trust_anchor import parse_anchor
from hubbub_service_common.clock.last_seen import LastSeen
from hubbub_service_common.clock.trusted_clock import LONGEST_WAIT, TrustedClock
from hubbub_service_common.http.entity_tags import tag_of_bytes
from hubbub_service_common.process import atomic_files
from hubbub_service_common.process.backoff import backoff
from hubbub_service_common.process.clock_and_entropy import entropy, monotonic
from hubbub_service_common.process.single_flight import OneQuestion
from hubbub_shuffler.batching.permute import Entropy
from hubbub_shuffler.bundle.begun_periods import Said
from hubbub_shuffler.bundle.hold_begun_periods import HeldPeriods
from hubbub_shuffler.storage import StorageError

if TYPE_CHECKING:
    from hubbub.bundle_body import Body
    from hubbub_shuffler.forwarding.aggregator_client import Upstream
    from hubbub_shuffler.storage import AsyncStorage

__all__ = ["ID_BYTES", "REASONS", "Bundles", "Relayed"]

ID_BYTES = 16
"""Length of a codebook's id."""

_LOG = logging.getLogger("hubbub_shuffler")
_FILE = "bundle"
_ANCHOR_FILE = "bundle.anchor"
_SOONEST, _LATEST = 1.0, 3_600.0
"""Bounds, in seconds, on the time between two fetches."""
_LONGEST_BACKOFF = 32.0
"""Most seconds between two fetches while they fail."""
_AHEAD = 5.0
"""Seconds before a period begins at which the bundle is fetched once more. A later change comes too late for it."""
_SOON = 10.0
"""Seconds between two fetches while the clock is in doubt: each fetch brings the aggregator's time."""
REASONS = tuple(sorted(error.__name__ for error in BundleError.__subclasses__()))
"""Why a bundle is refused."""


@dataclass(frozen=True, slots=True)
class Relayed:
    """A verified bundle and its exact bytes."""

    bundle: Bundle
    raw: bytes
    etag: str
    codebooks: tuple[str, ...]
    """Ids of the codebooks in it."""
    said: Said


class Bundles:
    """The newest verified bundle.

    `first_use`: without trust anchors, trust the first signer that is seen. `codebooks`: ids of the only codebooks that
    are accepted. A bundle with any other is refused as a whole, since it can only be relayed as a whole.
    """

    def __init__(
        self,
        upstream: Upstream,
        storage: AsyncStorage,
        *,
        trust: Collection[str],
        first_use: bool,
        state_dir: Path,
        clock: TrustedClock,
        skew: float,
        every: float | None = None,
        codebooks: Collection[str] = (),
        entropy: Entropy = entropy,
        clock_is_right: bool = False,
    ) -> None:
        self._upstream, self._every = upstream, every
        self.clock = self._clock = clock
        self._trust, self._first_use, self._dir = tuple(trust), first_use, state_dir
        self._codebooks, self._entropy = frozenset(codebooks), entropy
        self._newest: Relayed | None = None
        self._offered_etag: str | None = None
        self._their_etag: str | None = None
        """The aggregator's ETag of the current bundle: known only if this process fetched it."""
        self._trouble = ""
        """Why the last fetch failed; empty if it succeeded."""
        self._unsaved: dict[str, bytes] = {}
        """Files that are not on disk yet, in the order in which they must be written."""
        self.refused: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        """Bundles refused since the start, by reason."""
        self.held = HeldPeriods(storage, skew)
        """Which periods are held to the current bundle."""
        self._one_at_a_time = asyncio.Lock()
        self._holding: OneQuestion[None] = OneQuestion(patience=None)
        self._asked = False
        """Whether the aggregator has been asked since the start, with any result."""
        self._overtaken = False
        """Whether another process holds begun periods to another bundle than the one that this process has."""
        self._wanted = asyncio.Event()
        self._fetched = -math.inf
        """When the aggregator was last asked, by the monotonic clock."""
        self.last_seen = LastSeen(state_dir, clock)
        self.last_seen.recall(confirmed=clock_is_right)
        self._load()
        clock.wait = self.wait

    @property
    def known(self) -> Body | None:
        """The body of the newest bundle, even if that has expired."""
        return None if self._newest is None else self._newest.bundle.body

    @property
    def current(self) -> Relayed | None:
        """The newest bundle, unless it has expired or begun periods are held to another."""
        newest = self._newest
        if newest is None or self._overtaken or self._clock.now() >= newest.bundle.body.expires:
            return None
        return newest

    @property
    def wait(self) -> float:
        """Seconds for which a clock must have been right before an irreversible step may rest on it alone."""
        if self._newest is None:
            return LONGEST_WAIT
        return min(LONGEST_WAIT, *(codebook.forward_horizon for codebook in self._newest.bundle.body.codebooks))

    def _begun(self) -> float:
        """The time by which the next period may begin, one after another, even while the clock is in doubt."""
        return max(self._clock.by_both(self.wait), self._clock.reached(self.wait))

    def ask_the_time(self) -> None:
        """Fetch soon, since the clock is in doubt: the answer brings the aggregator's time."""
        if monotonic() - self._fetched >= _SOON:
            self._wanted.set()

    async def hold(self) -> None:
        """Hold the periods that have begun to the current bundle, before their reports are taken. StorageError if that
        can't be done now. Concurrent callers share one request to the storage."""
        await self._holding.answer(self._hold)

    async def _hold(self) -> None:
        if self._newest is not None and not self._asked:
            # the copy on disk may be old: periods that began while no process ran begin with the newest bundle
            with suppress(TimeoutError):
                async with asyncio.timeout(_AHEAD):
                    await self.refresh()
        async with self._one_at_a_time:
            relayed, now = self._newest, self._clock.now()
            if relayed is None or now < self.held.until or now >= relayed.bundle.body.expires:
                return
            believed, by_both = self._clock.believed(self.wait), self._begun()
            if believed == -math.inf and self.held.known and by_both < self.held.until:
                return  # while the clock is in doubt, no period begins by one clock alone
            try:
                await asyncio.to_thread(self.last_seen.note, believed)
                await self.held.hold(relayed.said, believed, by_both=by_both, present=self._clock.earlier_of_both())
            except ChangedPeriod as error:
                if not self._overtaken:
                    self.refused[type(error).__name__] += 1
                    _LOG.warning("the current bundle is no longer used: %s", error)
                self._overtaken = True
                self._wanted.set()
            else:
                self._overtaken = False

    async def refresh(self) -> bool:
        """Ask the aggregator once. False if the fetch failed, or if its answer could not be written to disk: then the
        caller should try again soon.

        A valid bundle is used even if it can't be written to disk: it may revoke a key.
        """
        try:
            raw = await self._fetch()
            if raw is not None:
                await self._accept(raw)
        except (httpx2.HTTPError, BundleError, InvalidParameter, StorageError) as error:
            if isinstance(error, BundleError):
                self.refused[type(error).__name__] += 1
            what = error.expires if isinstance(error, ExpiredBundle) else error
            trouble = f"{type(error).__name__}: {what}"
            if trouble != self._trouble:  # log each trouble once, not once a second
                _LOG.warning("no new bundle: %s: %s", type(error).__name__, error)
            self._trouble = trouble
            return False
        finally:
            self._asked = True
        if self._trouble:
            _LOG.info("bundles are fetched again")
        self._trouble = ""
        return self._save()

    async def run(self) -> None:
        """Keep the bundle fresh, until cancelled."""
        failures = 0
        while True:
            self._wanted.clear()
            fetched = await self.refresh()
            with suppress(StorageError):  # callers that need it ask again, and report the failure
                await self.hold()
            failures = 0 if fetched and not self._overtaken else failures + 1
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause(failures)):
                    await self._wanted.wait()

    def _pause(self, failures: int) -> float:
        newest = self._newest
        normal = self._every if self._every is not None else newest.bundle.body.max_age / 2 if newest else _SOONEST
        if failures:
            normal = min(normal, backoff(failures - 1, longest=_LONGEST_BACKOFF, entropy=self._entropy))
        return min(max(normal, _SOONEST if self._every is None else 0.01), _LATEST, self._until_a_period_begins())

    def _until_a_period_begins(self) -> float:
        """Seconds until the next fetch for the next period: shortly before it begins, and again when it begins."""
        left = self.held.until - self._clock.now()
        if self._newest is None or left <= 0:
            return _LATEST  # the period can't be held now
        ahead = min(_AHEAD, self._newest.said.calendar.seconds / 10)
        return max(left - ahead if left > 1.5 * ahead else left, 0.1)

    async def _fetch(self) -> bytes | None:
        """The aggregator's bundle as bytes; None if it is the current one."""
        headers = {"If-None-Match": self._their_etag} if self._newest and self._their_etag else {}
        self._fetched = monotonic()
        async with self._upstream.stream("GET", "/v1/bundle", headers) as response:
            if response.status_code == httpx2.codes.NOT_MODIFIED:
                return None
            if response.status_code != httpx2.codes.OK:
                raise httpx2.HTTPError(f"the aggregator answered {response.status_code}; is the address right?")
            raw = bytearray()
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > LARGEST_BUNDLE:
                    raise MalformedBundle(f"a bundle has at most {LARGEST_BUNDLE} bytes")
            self._offered_etag = response.headers.get("ETag")
        return bytes(raw)

    async def _accept(self, raw: bytes) -> None:
        async with self._one_at_a_time:
            before, now = self._newest, self._clock.now()
            if before is not None and raw == before.raw and now < before.bundle.body.expires:
                self._their_etag = self._offered_etag
                return
            relayed = self._verified(raw, now, before.bundle.seen if before else None)
            believed, by_both = self._clock.believed(self.wait), self._begun()
            # before the first report is taken, so that a later start that finds reports also finds this note
            await asyncio.to_thread(self.last_seen.note, believed)
            await self.held.hold(
                relayed.said,
                believed,
                before=before.said if before else None,
                by_both=by_both,
                present=self._clock.earlier_of_both(),
            )
            self._their_etag, self._newest, self._overtaken = self._offered_etag, relayed, False
        if not self._trust:
            self._trust = (relayed.bundle.signer,)
            self._unsaved[_ANCHOR_FILE] = relayed.bundle.signer.encode("ascii")
            _LOG.warning("trusting %s from now on: the first signer seen on loopback", relayed.bundle.signer)
        self._unsaved[_FILE] = raw

    def _save(self) -> bool:
        """Write the files that are not on disk yet; False if that fails."""
        try:
            for name, data in list(self._unsaved.items()):
                atomic_files.write(self._dir / name, data)
                del self._unsaved[name]
        except OSError as error:
            _LOG.error("the bundle is in use but can't be written to disk: %s", error.strerror)
            return False
        return True

    def _load(self) -> None:
        """Load the copy on disk, and verify it again."""
        anchor, file = self._dir / _ANCHOR_FILE, self._dir / _FILE
        if not self._trust and self._first_use and anchor.exists():
            self._trust = (anchor.read_text("ascii"),)
        if not self._trust and not self._first_use:
            raise InvalidParameter('no trust anchor is configured: set trust to "ed25519:..." of the aggregator')
        if self._trust and file.exists():
            try:
                # At time 0, so that an expired copy loads: it is not served, but shows whether another one is newer.
                self._newest = self._verified(file.read_bytes(), 0.0, None)
            except BundleError as error:
                _LOG.warning("the cached bundle is not used: %s", error)

    def _verified(self, raw: bytes, now: float, seen: Seen | None) -> Relayed:
        bundle = verify(raw, self._trust or (_signer_of(raw),), now, seen)
        # a page without metrics collects nothing: it only ends the one before it, which is pinned
        ids = tuple(_id_of(codebook) for codebook in bundle.body.codebooks if codebook.metrics)
        others = set(ids) - self._codebooks if self._codebooks else ()
        if others:
            raise UntrustedBundle(
                f"codebook {', '.join(sorted(others))} is not pinned here: review it, then add its id"
            )
        return Relayed(bundle, raw, tag_of_bytes(raw), ids, Said(bundle.body))


def _id_of(codebook: BundledCodebook) -> str:
    """A codebook's id, computed here from its content: the id that the document states would prove nothing."""
    content = {name: value for name, value in codebook.document.items() if name != "id"}
    return digest("hubbub-01 codebook", content)[:ID_BYTES].hex()


def _signer_of(raw: bytes) -> str:
    """The signer that an envelope names. It is believed on loopback only, and only the first time."""
    try:
        signer = raw[:200].split(b"\n")[1].split(b" ")[0].decode("ascii")
        parse_anchor(signer)
    except (IndexError, ValueError) as error:
        raise MalformedBundle("the second line of a bundle names its signer; this one does not") from error
    return signer
