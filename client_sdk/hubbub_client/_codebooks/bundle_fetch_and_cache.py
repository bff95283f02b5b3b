"""The bundle cache: fetches, verifies and keeps the newest bundle, and what it takes to recognise an older one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hubbub.bundle import Bundle, Seen, entity_tag, verify
from hubbub.errors import InvalidParameter, MalformedBundle
from hubbub.trust_anchor import parse_anchor
from hubbub_client._http.transport import CannotReach, Transport, is_loopback
from hubbub_client._process.fork import no_fork
from hubbub_client._process.preload_modules import load
from hubbub_client._sending.upload import retry_after
from hubbub_client._state.database import State

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub_client._sending.sending_coins import Coins

__all__ = ["BundleCache", "fetch_bundle", "trust_anchors"]

BUNDLE_PATH = "/v1/bundle"
_BEGINNING_OF_TIME = 0.0
_LONGEST_SPREAD = 120_000
"""Milliseconds over which devices that fetched at the same moment spread their next fetch."""


def trust_anchors(trust: str | Sequence[str] | None, address: str) -> tuple[str, ...]:
    """The anchors to verify with; none at all means trust on first use, which only loopback allows."""
    anchors = (trust,) if isinstance(trust, str) else tuple(trust or ())
    for anchor in anchors:
        parse_anchor(anchor)
    if not anchors and not is_loopback(address):
        raise InvalidParameter(
            f'trust is needed for {address}: pass trust="ed25519:...", the line that the aggregator shows. '
            "It may be left out only for an address on this machine"
        )
    return anchors


def signer_of(raw: bytes) -> str:
    """The signer that a bundle claims. This proves nothing; `verify` does."""
    try:
        return raw.split(b"\n", 2)[1].split(b" ")[0].decode("ascii")
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedBundle("this is not a bundle: it names no signer") from error


def fetch_bundle(transport: Transport, kept: bytes | None = None) -> bytes | None:
    """The bundle as it is served; None if it is still the kept one.

    The tag is made from the bundle's own bytes, never taken from the service. A tag that is echoed back could be a
    name that the service gave this device, to recognise it at another address.
    """
    headers = {} if kept is None else {"if-none-match": entity_tag(kept)}
    status, answered, raw = transport.request("GET", BUNDLE_PATH, headers, b"")
    if status == 304 and kept is not None:
        return None
    if status != 200:
        raise CannotReach(f"http-{status}", retry_after(answered))
    return raw


class BundleCache:
    """The newest bundle that this device accepted."""

    def __init__(self, state: State, anchors: tuple[str, ...], coins: Coins) -> None:
        self._state, self.anchors, self._coins = state, anchors, coins

    def is_kept(self) -> bool:
        """Whether there is a state file, which may have a bundle. Asking makes none."""
        return self._state.exists()

    def cached(self) -> Bundle | None:
        """The kept bundle, verified again because the trust anchors may have changed. It may have expired."""
        with self._state.reading() as connection:
            facts, raw = _facts(connection), _long_fact(connection, "bundle")
        if raw is None:
            return None
        load()
        return self._verified(raw, facts, _BEGINNING_OF_TIME)

    def package(self, codebook: Codebook) -> None:
        """Keep the codebook that came with the app, so that `inspect` can show it. It pins nothing."""
        raw = codebook.to_bytes()
        with self._state.reading() as connection:
            if _long_fact(connection, "packaged") == raw:
                return
        with self._state.transaction() as connection:
            _keep(connection, packaged=raw)

    def refresh_at(self, bundle: Bundle) -> float:
        """When the worker asks for a newer bundle: devices that fetched together come back spread out.

        The spread is drawn once per fetch. A cycle that runs for another reason does not fetch earlier, so the time of
        a fetch does not tell what else the device does.
        """
        with self._state.reading() as connection:
            facts = _facts(connection)
        return float(facts.get("fetched_at", 0.0)) + bundle.body.max_age + float(facts.get("spread", 0.0))

    def is_fresh(self, bundle: Bundle, now: float, *, spread: bool = False) -> bool:
        """Whether there is no need yet to ask for a newer bundle; with `spread`, there is none until `refresh_at`."""
        with self._state.reading() as connection:
            facts = _facts(connection)
        fetched_at = facts.get("fetched_at", 0.0)
        stale_at = self.refresh_at(bundle) if spread else fetched_at + bundle.body.max_age
        # A fetch time in the future means that the clock was set back; another digest means that another process
        # has fetched a newer bundle. Ask in both cases.
        fresh = facts.get("digest") == bundle.digest and fetched_at <= now < stale_at
        return fresh and now < bundle.body.expires

    def fetch(self, transport: Transport, current: Bundle | None, now: float) -> Bundle:
        """Fetch the bundle and keep it. Raises CannotReach, or the BundleError that says why it is refused."""
        usable = current if current is not None and now < current.body.expires else None
        with self._state.reading() as connection:
            facts = _facts(connection)
            kept = usable is not None and facts.get("digest") == usable.digest
            held = _long_fact(connection, "bundle") if kept else None
        raw = fetch_bundle(transport, held)
        if raw is None and usable is not None:
            with self._state.transaction() as connection:
                _keep(connection, fetched_at=now, spread=self._spread(usable, now))
            return usable
        raw = raw or b""
        while True:
            bundle = self._verified(raw, facts, now)  # slow, so outside the transaction
            with self._state.transaction() as connection:
                judged_by, facts = facts, _facts(connection)
                if all(facts.get(name) == judged_by.get(name) for name in ("sequence", "digest", "pin")):
                    _keep(connection, bundle=raw, fetched_at=now, sequence=bundle.body.sequence)
                    _keep(connection, digest=bundle.digest, pin=bundle.signer, spread=self._spread(bundle, now))
                    return bundle
            # Another process has accepted a bundle meanwhile: judge this one again, against that one.

    def _spread(self, bundle: Bundle, now: float) -> float:
        """Seconds, far fewer than the grace: an ended period must not be settled too late to be sent."""
        graces = [metric.grace for codebook in bundle.body.codebooks for metric in codebook.metrics]
        most = min([_LONGEST_SPREAD, *(250 * grace for grace in graces)])
        return self._coins.of("refresh", "", int(now)).below(most + 1) / 1000

    def _verified(self, raw: bytes, facts: dict[str, Any], now: float) -> Bundle:
        with no_fork():
            return verify(raw, self._trusted(facts, raw), now, _seen(facts))

    def _trusted(self, facts: dict[str, Any], raw: bytes) -> tuple[str, ...]:
        return self.anchors or (facts.get("pin") or signer_of(raw),)


def _facts(connection: sqlite3.Connection) -> dict[str, Any]:
    """All facts but the long ones, which may have megabytes: every cycle reads these."""
    return dict(connection.execute("SELECT name, value FROM facts WHERE name NOT IN ('bundle', 'packaged')"))


def _long_fact(connection: sqlite3.Connection, name: str) -> bytes | None:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0])


def _keep(connection: sqlite3.Connection, **facts: object) -> None:
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", list(facts.items()))


def _seen(facts: dict[str, Any]) -> Seen | None:
    if "sequence" not in facts:
        return None
    if "digest" not in facts:  # lost with a damaged file: the bundle of that number is accepted, an older one is not
        return Seen(facts["sequence"] - 1, b"")
    return Seen(facts["sequence"], facts["digest"])
