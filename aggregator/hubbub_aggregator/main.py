"""Startup of the aggregator from its settings, which are read nowhere else."""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hubbub.codebook import Codebook, is_compiled, read_file
from hubbub.errors import InvalidParameter
from hubbub.trust_anchor import anchor_of
from hubbub_aggregator.app import create_app
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.intake.spool import Spool
from hubbub_aggregator.operations.admin_listener import create_admin
from hubbub_aggregator.publication.bundles import Publisher
from hubbub_aggregator.publication.codebook_versions import Codebooks
from hubbub_aggregator.publication.keys import IDENTITY, KeyRing, load_identity, storage_secret
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.settings import Settings
from hubbub_aggregator.storage import Storage, StorageError, open_storage
from hubbub_service_common.clock.last_seen import LastSeen
from hubbub_service_common.clock.trusted_clock import TrustedClock
from hubbub_service_common.http.tokens import Tokens
from hubbub_service_common.process.atomic_files import state_directory
from hubbub_service_common.process.logs import configure, ends_in_format

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from hubbub_service_common.http.listeners import Listener

__all__ = ["DATABASE", "build", "only_one", "open_state", "run"]

DATABASE = "aggregator.db"
_OTHER_FILES = 200
"""Descriptors that the admin listener, the storage, the workers and the spool need, besides public connections."""
_LOG = logging.getLogger("hubbub_aggregator")
_HELD_UP = "no key, nonce or release is erased, and no batch is refused as too late or for an unknown key or metric"


def build(settings: Settings, clock: TrustedClock | None = None) -> Aggregator:
    """The service that these settings describe, with its codebook in force and its bundle signed.

    `clock`: used instead of this machine's clock, which is compared with the shufflers' clocks.
    """
    clock = clock or TrustedClock(peer="a shuffler's", says=_HELD_UP, log=_LOG)
    directory = state_directory(settings.state_dir)
    last_seen = LastSeen(directory, clock)
    last_seen.recall(confirmed=settings.clock_is_right)
    written = _compiled(settings.codebook)
    identity, storage = open_state(settings)
    try:
        codebooks = Codebooks(storage, settings.bundle_max_age)
        if not codebooks:
            codebooks.adopt(written, clock.now(), settings.backfill_periods)
        clock.wait = codebooks.wait
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
            last_seen=last_seen,
            backfill=settings.backfill_periods,
            written=written,
            anchor=anchor_of(identity),
            max_batch_bytes=settings.max_batch_bytes,
            single_operator=settings.single_operator,
            shuffler_address=settings.shuffler_address,
            shuffler_floor=settings.shuffler_floor,
            public_frames=settings.public_frames,
            lease=settings.lease,
            retention=None if settings.retention_days is None else settings.retention_days * 86_400,
        )
        service.start()
    except BaseException:
        storage.close()
        raise
    return service


def _compiled(path: Path) -> Codebook:
    """The compiled codebook in a file. What devices are sent is what was looked at, byte for byte: a service compiles
    nothing."""
    raw = read_file(path)
    if not is_compiled(raw):
        raise InvalidParameter(
            f"{path} is not compiled",
            f"run `hubbub codebook compile {path} --out codebook.json`, and give the aggregator codebook.json",
        )
    return Codebook.from_compiled(raw)


def open_state(settings: Settings) -> tuple[Ed25519PrivateKey, Storage]:
    """The identity key and the storage. Commands that run beside the service open them here too."""
    directory = state_directory(settings.state_dir)
    embedded = settings.storage is None and settings.identity is None
    if embedded and (directory / DATABASE).exists() and not (directory / IDENTITY).exists():
        raise InvalidParameter(
            f"{directory / IDENTITY} is missing, and a new one would silence every device: restore it from your copy"
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
    """Serve until SIGTERM or Ctrl-C. Prints the address and the trust anchor that devices need to stderr."""
    # imported here because commands that run beside the service do not need them
    from hubbub_service_common.http import server
    from hubbub_service_common.http.listeners import listening
    from hubbub_service_common.storage.wait_for_storage import open_when_reachable

    configure(settings.log_format, "hubbub_aggregator")
    if names := settings.unknown(os.environ):
        _LOG.warning("no setting is called %s: is it misspelt?", ", ".join(names))
    with (
        ends_in_format(settings.log_format, _LOG),
        only_one(state_directory(settings.state_dir, "aggregator")),
        listening(settings, max_body=settings.max_batch_bytes, other_files=_OTHER_FILES, log=_LOG) as listeners,
    ):
        service = open_when_reachable(lambda: build(settings), Aggregator.close, listeners, _LOG)
        if service is not None:
            try:
                server.run(_serve(settings, service, listeners))
            finally:
                service.close()


async def _serve(settings: Settings, service: Aggregator, listeners: Sequence[Listener]) -> None:
    """At the signal: take no more connections, give running requests some seconds, then end the background work."""
    from hubbub_service_common.http.server import Server, serve_together

    public, timeout = listeners[0], settings.shutdown_timeout
    service.connections, service.certificate = public.limits, public.certificate
    config = public.config(create_app(service), lifespan="on", shutdown_timeout=timeout)
    servers = [Server(config, public.socket, lambda address: _announce(settings, address, service.anchor))]
    for admin in listeners[1:]:
        app = create_admin(service, admin.tokens or Tokens([]))
        servers.append(Server(admin.config(app, shutdown_timeout=timeout), admin.socket))
    renewals = [] if service.certificate is None else [service.certificate.renewal.watch()]
    await serve_together(servers, *(each.limits.run() for each in listeners), *renewals)


def _announce(settings: Settings, address: str, anchor: str) -> None:
    for said in (f"aggregator ready at {address}", f"trust anchor {anchor}"):
        if settings.log_format == "json":
            _LOG.info(said)  # every line must be a JSON object
        else:
            sys.stderr.write(f"{said}\n")
    sys.stderr.flush()


@contextmanager
def only_one(directory: Path) -> Iterator[None]:
    """Lock the state directory for one process, whatever the storage. The lock ends when the process does."""
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidParameter(
                f"another aggregator is running on {directory}: stop it, or use another directory"
            ) from error
        yield
    finally:
        os.close(descriptor)
