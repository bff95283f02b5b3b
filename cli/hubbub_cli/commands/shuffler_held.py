"""`hubbub shuffler held`: the batches that the aggregator refused and that the shuffler still keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub.period import Calendar
from hubbub_cli.services.shuffler_storage import STATE_DIR, shuffler_storage
from hubbub_cli.terminal.period_names import named
from hubbub_cli.terminal.wrapped_text import say
from hubbub_service_common.process.clock_and_entropy import sleep

if TYPE_CHECKING:
    from hubbub_shuffler.storage import HeldBatch, Storage

__all__ = ["held"]

_TIMES, _UNKNOWN = ("period", "since", "until"), "unknown"
_LEASE = 60.0
_LOOKS, _PAUSE = 50, 0.1
_IDS = click.argument("ids", nargs=-1, metavar="[ID]...")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")


@click.group()
def held() -> None:
    """Show and settle batches that the aggregator refused.

    The shuffler keeps them since it can't confirm the reason. These commands work on its storage, whether it runs or
    not.
    """


@held.command("list")
@STATE_DIR
@_JSON
def list_(state_dir: Path | None, as_json: bool) -> None:
    """List the held batches.

    Shows id, metric, period, reports, why, since when (to the hour) and until when each is kept.
    """
    with shuffler_storage(state_dir) as storage:
        rows = [_row(batch, _calendar(storage)) for batch in storage.held_batches()]
    if as_json:
        click.echo(json.dumps(rows))
    elif rows:
        from hubbub_cli.terminal.table import table_or_records

        click.echo(table_or_records([{**row, **{name: _spoken(row[name]) for name in _TIMES}} for row in rows]))
    else:
        say("No batch is held.")


@held.command()
@STATE_DIR
@_IDS
@_JSON
def offer(state_dir: Path | None, ids: Sequence[str], as_json: bool) -> None:
    """Offer the batches with these IDs, or all, again at once.

    A running shuffler does so within a moment.
    """
    with shuffler_storage(state_dir) as storage:
        offered = storage.offer([batch.id for batch in _chosen(storage, ids)])
    if as_json:
        click.echo(json.dumps({"offered": offered}))
    else:
        say(f"{offered} to be offered")


@held.command()
@STATE_DIR
@_IDS
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
def discard(state_dir: Path | None, ids: Sequence[str], yes: bool, as_json: bool) -> None:
    """Delete the batches with these IDs, or all, for good.

    They are counted under the reason of their refusal.
    """
    with shuffler_storage(state_dir) as storage:
        batches = _chosen(storage, ids)
        reports = sum(batch.reports for batch in batches)
        if batches and not yes:
            click.confirm(f"Delete {len(batches)} batches with {reports} reports for good?", abort=True, err=True)
        left = []
        for batch in batches:
            claim = storage.claim_held(batch.id, _LEASE)
            if claim is None or not storage.settle(claim, batch.why):
                left.append(batch.id.hex())
        for _ in range(_LOOKS):
            if storage.forget() is not None:
                break  # otherwise files are being rewritten; a shuffler that runs, or starts next, continues with that
            sleep(_PAUSE)
    if as_json:
        click.echo(json.dumps({"discarded": len(batches) - len(left), "left": left}))
    else:
        for id_ in left:
            say(f"{id_} is being offered now, or is settled: list again")
        say(f"{len(batches) - len(left)} discarded")
    if left:
        raise click.exceptions.Exit(1)


def _chosen(storage: Storage, ids: Sequence[str]) -> list[HeldBatch]:
    """The held batches with these ids, or all."""
    batches = storage.held_batches()
    known = {batch.id.hex(): batch for batch in batches}
    for id_ in ids:
        if id_ not in known:
            raise click.UsageError(f"no batch {id_} is held; hubbub shuffler held list shows all")
    return [known[id_] for id_ in dict.fromkeys(ids)] if ids else batches


def _calendar(storage: Storage) -> Calendar | None:
    from hubbub_shuffler.bundle.begun_periods import Held

    seconds = Held.from_bytes(storage.held_periods()).seconds
    return Calendar(seconds) if seconds else None


def _row(batch: HeldBatch, calendar: Calendar | None) -> dict[str, object]:
    return {
        "id": batch.id.hex(),
        "metric": batch.name,
        "period": calendar.period(batch.period).label if calendar else batch.period,
        "reports": batch.reports,
        "why": batch.why,
        "since": _time(batch.since),
        "until": _time(batch.until) if batch.until else _UNKNOWN,
    }


def _spoken(time: object) -> object:
    """A time as people write it; anything else as it is."""
    return named(time) if isinstance(time, str) and time != _UNKNOWN else time


def _time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"
