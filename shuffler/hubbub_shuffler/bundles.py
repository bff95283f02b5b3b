"""The signed bundle: fetched from the aggregator, verified, kept on disk, relayed byte for byte.

The shuffler reads of it which buckets there are; devices read the rest. It can't change a byte without devices
noticing, and when the aggregator is away it goes on with the copy it has until that expires.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import httpx

from hubbub.bundle import LARGEST_BUNDLE, Bundle, BundledCodebook, Seen, verify
from hubbub.canonical import digest
from hubbub.problems import BundleError, InvalidParameter, MalformedBundle, UntrustedBundle
from hubbub.trust import parse_anchor

__all__ = ["ID_BYTES", "Bundles", "Relayed"]

ID_BYTES = 16
"""Of a codebook's id."""

_LOG = logging.getLogger("hubbub_shuffler")
_FILE = "bundle"
_ANCHOR_FILE = "bundle.anchor"
_SOONEST, _LATEST = 1.0, 3_600.0
"""Bounds, in seconds, on the time between two fetches."""


@dataclass(frozen=True, slots=True)
class Relayed:
    """A verified bundle and the very bytes that it came in."""

    bundle: Bundle
    raw: bytes
    etag: str
    codebooks: tuple[str, ...]
    """Ids of the codebooks in it."""


class Bundles:
    """The newest verified bundle.

    `first_use`: without trust anchors, keep the first signer that is seen. `codebooks`: ids of the only codebooks that
    are taken; a bundle with any other is refused as a whole, since it can only be relayed as a whole.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        address: str,
        trust: Collection[str],
        first_use: bool,
        state_dir: Path,
        clock: Callable[[], float],
        every: float | None = None,
        codebooks: Collection[str] = (),
    ) -> None:
        self._client, self._address, self._clock, self._every = client, address, clock, every
        self._trust, self._first_use, self._dir = tuple(trust), first_use, state_dir
        self._codebooks = frozenset(codebooks)
        self._newest: Relayed | None = None
        self._offered_etag: str | None = None
        self._their_etag: str | None = None
        """The aggregator's name for the bundle at hand: known only once it was fetched by this process."""
        self._trouble = ""
        """Why the last fetch failed; empty if it did not."""
        self._unsaved: dict[str, bytes] = {}
        """Files that the disk does not have yet, in the order in which they must get there."""
        self._load()

    @property
    def current(self) -> Relayed | None:
        """The newest bundle, unless it has expired."""
        newest = self._newest
        return newest if newest is not None and self._clock() < newest.bundle.body.expires else None

    async def refresh(self) -> bool:
        """Ask the aggregator once. False, and to be tried again soon, if that or keeping its answer on disk failed.

        A valid bundle is in use even if the disk can't take it: it may revoke a key.
        """
        try:
            raw = await self._fetch()
            if raw is not None:
                self._accept(raw)
        except (httpx.HTTPError, BundleError, InvalidParameter) as error:
            why = f"{type(error).__name__}: {error}"
            if why != self._trouble:  # once for each, not once a second
                _LOG.warning("no new bundle: %s", why)
            self._trouble = why
            return False
        if self._trouble:
            _LOG.warning("bundles are fetched again")
        self._trouble = ""
        return self._save()

    async def run(self) -> None:
        """Keep the bundle fresh, until cancelled."""
        failures = 0
        while True:
            failures = 0 if await self.refresh() else failures + 1
            await asyncio.sleep(self._pause(failures))

    def _pause(self, failures: int) -> float:
        newest = self._newest
        normal = self._every if self._every is not None else newest.bundle.body.max_age / 2 if newest else _SOONEST
        if failures:
            normal = min(normal, 2.0 ** min(failures - 1, 5))
        return min(max(normal, _SOONEST if self._every is None else 0.01), _LATEST)

    async def _fetch(self) -> bytes | None:
        """The bytes that the aggregator has; None if they are the ones at hand."""
        headers = {"If-None-Match": self._their_etag} if self._newest and self._their_etag else {}
        async with self._client.stream("GET", f"{self._address}/v1/bundle", headers=headers) as response:
            if response.status_code == httpx.codes.NOT_MODIFIED:
                return None
            if response.status_code != httpx.codes.OK:
                raise MalformedBundle(f"the aggregator answered {response.status_code}; is the address right?")
            raw = bytearray()
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > LARGEST_BUNDLE:
                    raise MalformedBundle(f"a bundle has at most {LARGEST_BUNDLE} bytes")
            self._offered_etag = response.headers.get("ETag")
        return bytes(raw)

    def _accept(self, raw: bytes) -> None:
        seen = self._newest.bundle.seen if self._newest else None
        relayed = self._verified(raw, self._clock(), seen)
        self._their_etag = self._offered_etag
        if self._newest is not None and raw == self._newest.raw:
            return
        self._newest = relayed
        if not self._trust:
            self._trust = (relayed.bundle.signer,)
            self._unsaved[_ANCHOR_FILE] = relayed.bundle.signer.encode("ascii")
            _LOG.warning("trusting %s from now on: the first signer seen on loopback", relayed.bundle.signer)
        self._unsaved[_FILE] = raw

    def _save(self) -> bool:
        """Bring to the disk what it does not have yet; False if it can't be."""
        try:
            for name, data in list(self._unsaved.items()):
                _write(self._dir / name, data)
                del self._unsaved[name]
        except OSError as error:
            _LOG.error("the bundle is in use but can't be kept on disk: %s", error.strerror)
            return False
        return True

    def _load(self) -> None:
        """Go on with the copy on disk; it was verified before, and is verified again."""
        anchor, file = self._dir / _ANCHOR_FILE, self._dir / _FILE
        if not self._trust and self._first_use and anchor.exists():
            self._trust = (anchor.read_text("ascii"),)
        if not self._trust and not self._first_use:
            raise InvalidParameter('no trust anchor is configured: set trust to "ed25519:..." of the aggregator')
        if self._trust and file.exists():
            try:
                # At time 0: an expired copy is not served, but still tells an older bundle from a newer one.
                self._newest = self._verified(file.read_bytes(), 0.0, None)
            except BundleError as error:
                _LOG.warning("the cached bundle is not used: %s", error)

    def _verified(self, raw: bytes, now: float, seen: Seen | None) -> Relayed:
        bundle = verify(raw, self._trust or (_signer_of(raw),), now, seen)
        ids = tuple(_id_of(codebook) for codebook in bundle.body.codebooks)
        others = set(ids) - self._codebooks if self._codebooks else ()
        if others:
            raise UntrustedBundle(
                f"codebook {', '.join(sorted(others))} is not pinned here: review it, then add its id"
            )
        return Relayed(bundle, raw, f'"{sha256(raw).hexdigest()}"', ids)


def _id_of(codebook: BundledCodebook) -> str:
    """Made from the content here: what a document says of itself would prove nothing."""
    content = {name: value for name, value in codebook.document.items() if name != "id"}
    return digest("hubbub-01 codebook", content)[:ID_BYTES].hex()


def _signer_of(raw: bytes) -> str:
    """The signer that an envelope names; believed on loopback only, and only the first time."""
    try:
        signer = raw[:200].split(b"\n")[1].split(b" ")[0].decode("ascii")
        parse_anchor(signer)
    except (IndexError, ValueError) as error:
        raise MalformedBundle("the second line of a bundle names its signer; this one does not") from error
    return signer


def _write(path: Path, data: bytes) -> None:
    """The whole file or the old one, also after a power cut."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with fresh.open("wb") as file:
            fresh.chmod(0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
