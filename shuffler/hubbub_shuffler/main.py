"""The shuffler as a process: settings, listeners, batcher, and an orderly shutdown."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

import httpx2

from hubbub.errors import InvalidParameter
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_service_common.http import server
from hubbub_service_common.http.certificate_authorities import Authorities
from hubbub_service_common.http.cross_origin import CrossOrigin
from hubbub_service_common.http.listeners import Listener, listening
from hubbub_service_common.http.server import Server, serve_together
from hubbub_service_common.http.tokens import Tokens
from hubbub_service_common.process.atomic_files import state_directory
from hubbub_service_common.process.clock_and_entropy import entropy, monotonic, wall
from hubbub_service_common.process.file_reload import Renewal
from hubbub_service_common.process.logs import configure, ends_in_format
from hubbub_service_common.storage.wait_for_storage import open_when_reachable
from hubbub_shuffler.app import create_app
from hubbub_shuffler.batching.batch_worker import Batcher
from hubbub_shuffler.batching.permute import Entropy
from hubbub_shuffler.bundle.relay import Bundles
from hubbub_shuffler.forwarding.aggregator_client import Upstream
from hubbub_shuffler.forwarding.forward_attempt import Forwarder
from hubbub_shuffler.forwarding.lag import Lag
from hubbub_shuffler.ingest.rate_limit import KEY_BYTES, Limits
from hubbub_shuffler.ingest.upload import PASSED_OVER, Ingest
from hubbub_shuffler.operations.admin_listener import create_admin
from hubbub_shuffler.operations.durability_check import watch
from hubbub_shuffler.operations.metrics import Sources
from hubbub_shuffler.operations.python_gc import sweep, tune
from hubbub_shuffler.settings import Settings
from hubbub_shuffler.storage import AsyncStorage, StorageError, open_storage

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["REPORTS", "Shuffler", "build", "doubts", "open_reports", "run"]

REPORTS = "reports.sqlite"
"""The file in the state directory where reports wait, unless another storage is set."""
_LOG = logging.getLogger("hubbub_shuffler")
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
_SHORTEST_POLL = 0.2
_OTHER_FILES = 100
"""File descriptors for everything but device connections; the admin listener is included."""


def run(settings: Settings, ready: Callable[[str], None] = lambda _address: None) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called with the address once uploads are answered."""
    configure(settings.log_format, "hubbub_shuffler")
    for doubt in doubts(settings, os.environ):
        _LOG.warning(doubt)
    tune()
    with ends_in_format(settings.log_format, _LOG), _listening(settings) as listeners:
        state_directory(settings.state_dir, "shuffler")
        storage = open_when_reachable(
            lambda: open_reports(settings), lambda opened: opened.blocking.disconnect(), listeners, _LOG
        )
        if storage is not None:
            server.run(_serve(settings, storage, listeners, ready))


def _listening(settings: Settings) -> AbstractContextManager[list[Listener]]:
    return listening(
        settings,
        max_body=max(settings.max_body, PASSED_OVER),
        other_files=_OTHER_FILES,
        log=_LOG,
        max_per_address=None if settings.proxy_hops else settings.max_connections_per_address,
        reuse_port=settings.reuse_port,
        cross_origin=CrossOrigin(settings.cors_origins) if settings.cors_origins else None,
    )


def doubts(settings: Settings, variables: Collection[str]) -> list[str]:
    """Settings that may be a mistake, but do not prevent a start."""
    found = []
    if names := settings.unknown(variables):
        found.append(f"no setting is called {', '.join(names)}: is it misspelt?")
    if settings.aggregator.lower().startswith("http:") and not settings.aggregator_on_loopback:
        found.append(
            f"{settings.aggregator} is not https: anyone on the network path can read the forward token and use it. "
            "Do this only on a network that is yours alone"
        )
    return found


async def _serve(
    settings: Settings, storage: AsyncStorage, listeners: Sequence[Listener], ready: Callable[[str], None]
) -> None:
    authorities = None if settings.ca_file is None else Authorities(settings.ca_file, _LOG)
    # Nothing is read from the environment: a stray proxy variable must not send batches elsewhere.
    async with httpx2.AsyncClient(
        timeout=_TIMEOUT,
        trust_env=False,
        verify=True if authorities is None else authorities.context,
        headers={"User-Agent": "hubbub-shuffler"},
    ) as client:
        renewals = [] if authorities is None else [authorities.renewal]
        try:
            await _serve_with(settings, storage, client, listeners, ready, renewals)
        finally:
            await storage.aclose()


async def _serve_with(
    settings: Settings,
    storage: AsyncStorage,
    client: httpx2.AsyncClient,
    listeners: Sequence[Listener],
    ready: Callable[[str], None],
    renewals: Sequence[Renewal],
) -> None:
    public, timeout = listeners[0], settings.shutdown_timeout
    lag, certificate = Lag(wall), public.certificate
    clock = TrustedClock(
        peer="the aggregator's",
        says="no bucket is closed for its time, no period begins and no batch is too late",
        log=_LOG,
    )
    app, ingest, bundles, batcher = build(
        settings, storage, client, clock=clock, limits=_limits(settings), watched=lag.watch(storage)
    )
    servers = [Server(public.config(app, shutdown_timeout=timeout), public.socket, ready)]
    for admin in listeners[1:]:
        sources = Sources(ingest, bundles, lag, public.limits, clock, certificate)
        config = admin.config(create_admin(sources, storage, admin.tokens or Tokens([])), shutdown_timeout=timeout)
        servers.insert(0, Server(config, admin.socket, _announce_admin))
    jobs = [bundles.run(), batcher.run(settings.tick), sweep(), watch(storage)]
    jobs += [each.limits.run() for each in listeners]
    jobs += [renewal.watch() for renewal in (*renewals, *([certificate.renewal] if certificate else []))]
    await serve_together(servers, *jobs)


class Shuffler(NamedTuple):
    """The service without its listeners."""

    app: ASGIApp
    ingest: Ingest
    bundles: Bundles
    batcher: Batcher


def build(
    settings: Settings,
    storage: AsyncStorage,
    client: httpx2.AsyncClient,
    *,
    clock: TrustedClock,
    limits: Limits | None = None,
    watched: AsyncStorage | None = None,
    entropy: Entropy = entropy,
) -> Shuffler:
    """The parts that these settings describe. `watched`: the storage as the batcher uses it, if its work is observed
    (`Lag.watch`). `entropy`: a test's own."""
    token = settings.forward_token
    upstream = Upstream(
        client, address=settings.aggregator, token=token.get_secret_value() if token else None, clock=clock
    )
    bundles = _bundles(settings, storage, upstream, clock, entropy)
    ingest = Ingest(
        storage,
        bundles,
        clock=clock,
        floor=settings.min_batch_floor,
        skew=settings.skew,
        max_body=settings.max_body,
        max_reports=settings.max_reports,
        max_pending=settings.max_pending,
        max_uploads=settings.max_uploads,
        limits=limits,
    )
    app = create_app(ingest=ingest, bundles=bundles, storage=storage, limits=limits)
    return Shuffler(app, ingest, bundles, _batcher(settings, watched or storage, bundles, upstream, clock, entropy))


def open_reports(settings: Settings, clock: Callable[[], float] = wall, entropy: Entropy = entropy) -> AsyncStorage:
    """The storage where reports wait; InvalidParameter if it can't be used. `entropy`: a test's own."""
    try:
        return open_storage(
            settings.storage.get_secret_value() if settings.storage else settings.state_dir / REPORTS,
            clock=clock,
            entropy=entropy,
            forget_after=settings.forget_after,
            replicas=settings.storage_replicas,
            quota=settings.storage_quota,
        )
    except StorageError as error:
        raise InvalidParameter(f"the shuffler can't start: its storage can't be used: {error}") from error


def _bundles(
    settings: Settings, storage: AsyncStorage, upstream: Upstream, clock: TrustedClock, entropy: Entropy
) -> Bundles:
    return Bundles(
        upstream,
        storage,
        trust=settings.trust,
        first_use=settings.aggregator_on_loopback,
        state_dir=settings.state_dir,
        clock=clock,
        skew=settings.skew,
        every=settings.bundle_refresh,
        codebooks=settings.codebooks,
        entropy=entropy,
        clock_is_right=settings.clock_is_right,
    )


def _batcher(
    settings: Settings,
    storage: AsyncStorage,
    bundles: Bundles,
    upstream: Upstream,
    clock: TrustedClock,
    entropy: Entropy,
) -> Batcher:
    return Batcher(
        storage,
        bundles,
        Forwarder(upstream),
        clock=clock,
        entropy=entropy,
        floor=settings.min_batch_floor,
        max_batch=settings.max_batch,
        lease=settings.lease,
        longest_backoff=settings.longest_backoff,
        poll=max(_SHORTEST_POLL, settings.tick / 2),
        forwards=settings.forwards,
    )


def _limits(settings: Settings) -> Limits | None:
    if not settings.rate:
        return None
    return Limits(
        rate=settings.rate,
        burst=settings.burst,
        hops=settings.proxy_hops,
        key=entropy(KEY_BYTES),
        clock=monotonic,
    )


def _announce_admin(address: str) -> None:
    _LOG.info("admin listener at %s", address)


if __name__ == "__main__":
    run(Settings.load_for_service())
