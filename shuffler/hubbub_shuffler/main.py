"""The shuffler as a process: settings in, two listeners and one batcher, an orderly end."""

from __future__ import annotations

import logging
import os
import resource
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import httpx2

from hubbub.problems import InvalidParameter
from hubbub_service_common import serving
from hubbub_service_common.authorities import Authorities
from hubbub_service_common.certificate import Certificate
from hubbub_service_common.file_reload import Renewal
from hubbub_service_common.files import state_directory
from hubbub_service_common.logs import configure
from hubbub_service_common.serving import Server, listen, serve_together, server_config
from hubbub_service_common.tokens import Tokens
from hubbub_shuffler.admin import create_admin
from hubbub_shuffler.app import create_app
from hubbub_shuffler.batcher import Batcher
from hubbub_shuffler.bundles import Bundles
from hubbub_shuffler.forward import Forwarder
from hubbub_shuffler.garbage import sweep, tune
from hubbub_shuffler.guard import Guard
from hubbub_shuffler.ingest import Ingest
from hubbub_shuffler.lag import Lag
from hubbub_shuffler.limits import KEY_BYTES, Limits
from hubbub_shuffler.metrics import Sources
from hubbub_shuffler.settings import Settings
from hubbub_shuffler.storage import AsyncStorage, StorageError, open_storage
from hubbub_shuffler.watch import watch

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["Shuffler", "build", "doubts", "open_reports", "run"]

_LOG = logging.getLogger("hubbub_shuffler")
_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)
_SHORTEST_POLL = 0.2
_ADMIN_CONNECTIONS = 40
_OTHER_FILES = 100
"""Descriptors that are no device's connection, those of the admin listener among them."""


def run(settings: Settings, ready: Callable[[str], None] = lambda _address: None) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is told the address once uploads are answered."""
    configure(settings.log_format, "hubbub_shuffler")
    for doubt in doubts(settings, os.environ):
        _LOG.warning(doubt)
    tune()
    serving.run(_serve(settings, ready))


def doubts(settings: Settings, variables: Collection[str]) -> list[str]:
    """What may be a mistake of the operator, and is no reason not to start."""
    found = []
    if names := settings.unknown(variables):
        found.append(f"no setting is called {', '.join(names)}: is it misspelt?")
    if settings.aggregator.lower().startswith("http:") and not settings.aggregator_on_loopback:
        found.append(
            f"{settings.aggregator} is not https: whoever is on the way can read the forward token and use it. "
            "Right only where that network is yours alone"
        )
    return found


async def _serve(settings: Settings, ready: Callable[[str], None]) -> None:
    state_directory(settings.state_dir)
    storage = open_reports(settings)
    authorities = None if settings.ca_file is None else Authorities(settings.ca_file, _LOG)
    # Nothing from the environment: a stray proxy variable must not send batches elsewhere.
    async with httpx2.AsyncClient(
        timeout=_TIMEOUT,
        trust_env=False,
        verify=True if authorities is None else authorities.context,
        headers={"User-Agent": "hubbub-shuffler"},
    ) as client:
        try:
            await _serve_with(settings, storage, client, ready, [] if authorities is None else [authorities.renewal])
        finally:
            await storage.aclose()


async def _serve_with(
    settings: Settings,
    storage: AsyncStorage,
    client: httpx2.AsyncClient,
    ready: Callable[[str], None],
    renewals: Sequence[Renewal],
) -> None:
    limits = _limits(settings)
    guards = [_guard(settings)]
    lag = Lag(time.time)
    app, ingest, bundles, batcher = build(settings, storage, client, limits=limits, watched=lag.watch(storage))
    certificate = None if settings.tls is None else Certificate(*settings.tls, _LOG)
    config = server_config(
        app, http=guards[0].protocol(), shutdown_timeout=settings.shutdown_timeout, certificate=certificate
    )
    with ExitStack() as open_:
        listener = open_.enter_context(listen(settings.host, settings.port, reuse_port=settings.reuse_port))
        servers = [Server(config, listener, ready)]
        if settings.admin_port is not None:
            sources = Sources(ingest, bundles, lag, guards[0], time.time, certificate)
            admin = create_admin(sources, storage, Tokens.of(settings.admin_token, settings.admin_token_next))
            listener = open_.enter_context(listen(settings.admin_host, settings.admin_port))
            guards.append(_watching(settings, _ADMIN_CONNECTIONS, None))
            servers.insert(0, Server(server_config(admin, http=guards[1].protocol()), listener, _announce_admin))
        jobs = [bundles.run(), batcher.run(settings.tick), sweep(), watch(storage), *(guard.run() for guard in guards)]
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
    clock: Callable[[], float] = time.time,
    limits: Limits | None = None,
    watched: AsyncStorage | None = None,
) -> Shuffler:
    """The parts that these settings describe. `watched`: the storage as the batcher sees it, if someone looks on."""
    bundles = _bundles(settings, storage, client, clock)
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
    return Shuffler(app, ingest, bundles, _batcher(settings, watched or storage, bundles, client))


def open_reports(settings: Settings, clock: Callable[[], float] = time.time) -> AsyncStorage:
    """The storage in which reports wait; InvalidParameter if it can't be used."""
    try:
        return open_storage(
            settings.storage.get_secret_value() if settings.storage else settings.state_dir / "reports.sqlite",
            clock=clock,
            entropy=os.urandom,
            forget_after=settings.forget_after,
            replicas=settings.storage_replicas,
        )
    except StorageError as error:
        raise InvalidParameter(f"the shuffler can't start: its storage can't be used: {error}") from None


def _bundles(
    settings: Settings, storage: AsyncStorage, client: httpx2.AsyncClient, clock: Callable[[], float]
) -> Bundles:
    return Bundles(
        client,
        storage,
        address=settings.aggregator,
        trust=settings.trust,
        first_use=settings.aggregator_on_loopback,
        state_dir=settings.state_dir,
        clock=clock,
        skew=settings.skew,
        every=settings.bundle_refresh,
        codebooks=settings.codebooks,
        entropy=os.urandom,
    )


def _batcher(settings: Settings, storage: AsyncStorage, bundles: Bundles, client: httpx2.AsyncClient) -> Batcher:
    token = settings.forward_token
    return Batcher(
        storage,
        bundles,
        Forwarder(client, address=settings.aggregator, token=token.get_secret_value() if token else None),
        entropy=os.urandom,
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
        key=os.urandom(KEY_BYTES),
        clock=time.monotonic,
    )


def _guard(settings: Settings) -> Guard:
    """As many connections as the operating system gives us descriptors for, if that is less than was set."""
    # -1 means that there is no limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _OTHER_FILES
    if 0 <= soft < wanted:
        soft = wanted if hard < 0 else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = settings.max_connections if not 0 <= soft < wanted else max(20, soft - _OTHER_FILES)
    if most < settings.max_connections:
        _LOG.warning("only %d connections at once: the limit of open files is %d", most, soft)
    return _watching(settings, most, None if settings.proxy_hops else settings.max_connections_per_address)


def _watching(settings: Settings, most: int, per_address: int | None) -> Guard:
    return Guard(
        head_timeout=settings.head_timeout,
        body_timeout=settings.body_timeout,
        body_rate=settings.body_rate,
        max_body=settings.max_body,
        max_connections=most,
        max_per_address=per_address,
        clock=time.monotonic,
    )


def _announce_admin(address: str) -> None:
    _LOG.info("admin listener at %s", address)


if __name__ == "__main__":
    run(Settings.load())
