"""Starting the aggregator from its settings; the only place where they are read."""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.codebook import Codebook
from hubbub.problems import InvalidParameter
from hubbub.trust import anchor_of
from hubbub_aggregator.admin import create_admin
from hubbub_aggregator.app import create_app
from hubbub_aggregator.bundles import Publisher
from hubbub_aggregator.codebooks import Codebooks
from hubbub_aggregator.keys import IDENTITY, KeyRing, load_identity, storage_secret
from hubbub_aggregator.opening import Pool
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.spool import Spool
from hubbub_aggregator.storage import Storage, StorageError, open_storage
from hubbub_service_common.certificate import Certificate
from hubbub_service_common.files import state_directory
from hubbub_service_common.logs import configure
from hubbub_service_common.tokens import Tokens

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["DATABASE", "build", "only_one", "open_state", "run"]

DATABASE = "aggregator.db"
_LOG = logging.getLogger("hubbub_aggregator")


def build(settings: Settings, clock: Callable[[], float] = time.time) -> Aggregator:
    """The service that these settings describe, with its codebook in force and its bundle signed."""
    directory = state_directory(settings.state_dir)
    written = Codebook.load(settings.codebook)
    identity, storage = open_state(settings)
    try:
        codebooks = Codebooks(storage, settings.bundle_max_age)
        codebooks.adopt(written, clock(), settings.backfill_periods)
        ring = KeyRing(storage, codebooks, settings.bundle_max_age)
        service = Aggregator(
            storage=storage,
            spool=Spool(directory / "spool", storage.bodies),
            codebooks=codebooks,
            ring=ring,
            publisher=Publisher(storage, identity, codebooks, ring, settings.bundle_lifetime, settings.bundle_max_age),
            pool=Pool(settings.processes),
            shufflers=Tokens.of(settings.shuffler_token, settings.shuffler_token_next),
            analysts=Tokens.of(settings.analyst_token, settings.analyst_token_next),
            clock=clock,
            anchor=anchor_of(identity),
            max_batch_bytes=settings.max_batch_bytes,
            single_operator=settings.single_operator,
            shuffler_address=settings.shuffler_address,
            lease=settings.lease,
            retention=None if settings.retention_days is None else settings.retention_days * 86_400,
            certificate=None if settings.tls is None else Certificate(*settings.tls, _LOG),
        )
        service.start()
    except BaseException:
        storage.close()
        raise
    return service


def open_state(settings: Settings) -> tuple[Ed25519PrivateKey, Storage]:
    """The identity and the storage; also for commands beside a running service."""
    directory = state_directory(settings.state_dir)
    embedded = settings.storage is None and settings.identity is None
    if embedded and (directory / DATABASE).exists() and not (directory / IDENTITY).exists():
        raise InvalidParameter(
            f"{directory / IDENTITY} is gone, and a new one would silence every device: put the copy of it back"
        )
    identity = load_identity(directory, settings.identity)
    where = directory / DATABASE if settings.storage is None else settings.storage.get_secret_value()
    try:
        storage = open_storage(
            where,
            anchor=anchor_of(identity),
            secret=storage_secret(identity),
            replicas=settings.storage_replicas,
        )
    except StorageError as error:
        raise InvalidParameter(f"the storage can't be used: {error}") from error
    return identity, storage


def run(settings: Settings) -> None:
    """Serve until SIGTERM or Ctrl-C; says on stderr where, and which trust anchor devices need."""
    from hubbub_service_common import serving  # the commands beside a running service need none

    configure(settings.log_format, "hubbub_aggregator")
    if names := settings.unknown(os.environ):
        _LOG.warning("no setting is called %s: is it misspelt?", ", ".join(names))
    with only_one(state_directory(settings.state_dir)):
        service = build(settings)
        try:
            serving.run(_serve(settings, service))
        finally:
            service.close()  # also if it could not even listen


async def _serve(settings: Settings, service: Aggregator) -> None:
    """At the signal no connection is taken any more, requests in work get some seconds, then the app's work ends."""
    from hubbub_service_common.serving import Server, listen, serve_together, server_config

    certificate, timeout = service.certificate, settings.shutdown_timeout
    public = server_config(create_app(service), lifespan="on", shutdown_timeout=timeout, certificate=certificate)
    with ExitStack() as open_:
        listener = open_.enter_context(listen(settings.host, settings.port))
        servers = [Server(public, listener, lambda address: _announce(address, service.anchor))]
        if settings.admin_port is not None:
            admin = create_admin(service, Tokens.of(settings.admin_token, settings.admin_token_next))
            listener = open_.enter_context(listen(settings.admin_host, settings.admin_port))
            servers.append(Server(server_config(admin, shutdown_timeout=timeout), listener))
        await serve_together(servers, *([] if certificate is None else [certificate.renewal.watch()]))


def _announce(address: str, anchor: str) -> None:
    sys.stderr.write(f"aggregator ready at {address}\ntrust anchor {anchor}\n")
    sys.stderr.flush()


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """A state directory belongs to one process, whatever the storage; the lock ends with it, however it ends."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidParameter(f"another aggregator runs on {directory}: stop it, or use another one") from error
        yield
    finally:
        os.close(descriptor)
