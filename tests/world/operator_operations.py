"""Operations of operators in a simulated world: keys, codebooks, backups."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hubbub.errors import InvalidParameter
from hubbub_aggregator.main import DATABASE
from hubbub_aggregator.operations.backup_and_restore import backup, restore
from hubbub_service_common.storage.kinds_and_errors import StorageError
from tests.world import operations as op
from tests.world.codebooks import PERIOD, book
from tests.world.event_loop import acting
from tests.world.handlers import carries_out
from tests.world.process import Killed

if TYPE_CHECKING:
    from tests.world.history import History
    from tests.world.site import AggregatorSite


def _command(history: History, number: int, work: Callable[[AggregatorSite], object]) -> None:
    """A command beside the service, on its storage."""
    site = history.aggregator(number)
    if site.able is not None:
        with acting(site.up), suppress(InvalidParameter, StorageError, Killed):
            work(site)


@carries_out(op.Rotate)
def rotate(history: History, given: op.Rotate) -> None:
    _command(history, given.aggregator, lambda site: site.service.ring.rotate(site.machine.wall()))


@carries_out(op.Revoke)
def revoke(history: History, given: op.Revoke) -> None:
    def work(site: AggregatorSite) -> None:
        period = int(history.loop.now // PERIOD) + max(0, given.ahead)
        for key in site.service.storage.sealing_keys():
            if key.covers(period) and not key.revoked:
                history.oracle.revoked.add(key.id)
                site.service.ring.revoke(key.id, site.machine.wall())

    _command(history, given.aggregator, work)


@carries_out(op.Switch)
def switch(history: History, given: op.Switch) -> None:
    if given.off:
        history.oracle.switched.add(given.metric)
    _command(history, given.aggregator, lambda site: site.service.codebooks.switch(given.metric, off=bool(given.off)))


@carries_out(op.Publish)
def publish(history: History, given: op.Publish) -> None:
    def work(site: AggregatorSite) -> object:
        return site.service.codebooks.publish(book(given.edit), site.machine.wall(), None)

    _command(history, given.aggregator, work)


@carries_out(op.Backup)
def make_backup(history: History, given: op.Backup) -> None:
    site = history.aggregator(given.aggregator)
    if history.redis is None and site.able is not None:
        file = history.home / f"backup-{history.at}"
        with acting(None), suppress(InvalidParameter):
            backup(site.database, file, identity=site.directory / "identity.key" if given.keys else None)
            history.backups[site.number] = file


@carries_out(op.Restore)
def put_backup_back(history: History, given: op.Restore) -> None:
    site = history.aggregator(given.aggregator)
    if site.number not in history.backups:
        return
    site.kill()
    for file in site.directory.glob(f"{DATABASE}*"):
        file.unlink()
    bodies: list[Any] = [each.parts.bundles._newest for each in history.shufflers if each.up]
    relayed = max((each for each in bodies if each), key=lambda each: each.bundle.body.sequence, default=None)
    with acting(None):
        raw = relayed.raw if relayed else None
        restore(history.backups[site.number], site.directory, DATABASE, site.machine.wall(), raw, max_age=600)
    history.gone_back.add(site.number)
    site.start()
