"""`hubbub shuffler damaged`: buckets with reports that are missing or can't be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub_cli.services.shuffler_storage import STATE_DIR, shuffler_storage
from hubbub_cli.terminal.wrapped_text import say

if TYPE_CHECKING:
    from hubbub_shuffler.storage import Damage, Storage

__all__ = ["damaged"]

_BUCKETS = click.argument("buckets", nargs=-1, metavar="[BUCKET]...")
_SAVED = "{bucket}: {go_on} go on, {lost} are lost"
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")


@click.group()
def damaged() -> None:
    """Show and settle buckets with missing or unreadable reports.

    These are buckets with damaged pages in the SQLite file, or with reports that a Redis lost. The shuffler may run
    meanwhile. By itself it goes on with the reports that can be read, after two checks: ten seconds apart on SQLite,
    ten minutes on Redis. Left for you are buckets of which the aggregator may already have a part, and those that you
    do not want to wait for.
    """


@damaged.command("list")
@STATE_DIR
@_JSON
def list_(state_dir: Path | None, as_json: bool) -> None:
    """List the damaged buckets, and what was lost before.

    Reads every report that waits.
    """
    with shuffler_storage(state_dir) as storage:
        rows = [_row(found) for found in storage.repair.find()]
        remains, counts = storage.repair.remains(), storage.overview().counts
    lost = {name or "(unknown)": count.reports for (name, what), count in counts.items() if what in {"damaged", "lost"}}
    if as_json:
        click.echo(json.dumps({"buckets": rows, "lost": lost, "undeletable_tables": remains}))
        return
    if rows:
        from hubbub_cli.terminal.table import table_or_records

        click.echo(table_or_records(rows))
    else:
        say("All waiting reports can be read.")
    for name, reports in sorted(lost.items()):
        say(f"{name}: {reports} reports were lost before")
    if any(row["lacks MiB"] for row in rows):
        say(
            "The reports that can be read have to be copied, and the disk lacks room for that: make room, or give the "
            "bucket up with hubbub shuffler damaged discard"
        )
    if remains:
        say(
            f"{remains} tables of damaged buckets can't be deleted: once nothing waits, stop the shuffler and move "
            "reports.sqlite and all files whose names begin with it out of the state directory"
        )


@damaged.command()
@STATE_DIR
@_BUCKETS
@_JSON
def salvage(state_dir: Path | None, buckets: Sequence[str], as_json: bool) -> None:
    """Save the readable reports of these BUCKETs, or of all.

    They go on their way now; the rest counts as lost.
    """
    with shuffler_storage(state_dir) as storage:
        done = [_salvaged(storage, found) for found in _chosen(storage, buckets)]
    if as_json:
        click.echo(json.dumps({"buckets": done}))
    else:
        for one in done:
            say("{bucket}: {left}".format_map(one) if "left" in one else _SAVED.format_map(one))
    if any("left" in one for one in done):
        raise click.exceptions.Exit(1)


def _salvaged(storage: Storage, found: Damage) -> dict[str, object]:
    """What became of the reports of a bucket; `left` says why it was left as it is."""
    from hubbub_shuffler.storage import NeedsRoom

    try:
        mended = storage.repair.mend(found.bucket)
    except NeedsRoom as error:
        return {"bucket": _name(found), "left": str(error)}
    if mended is not None and mended.on_its_way:
        return {"bucket": _name(found), "left": "the aggregator may have part of it; it can only be discarded"}
    lost = mended.lost if mended else 0
    return {"bucket": _name(found), "go_on": found.reports - lost, "lost": lost}


@damaged.command()
@STATE_DIR
@_BUCKETS
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
def discard(state_dir: Path | None, buckets: Sequence[str], yes: bool, as_json: bool) -> None:
    """Give up these BUCKETs, or all that are damaged.

    The reports in them that could still be read are lost too.
    """
    with shuffler_storage(state_dir) as storage:
        chosen = _chosen(storage, buckets)
        if chosen and not yes:
            click.confirm(f"Give up {len(chosen)} buckets for good?", abort=True, err=True)
        lost = {_name(found): storage.repair.discard(found.bucket) for found in chosen}
        storage.forget()
    if as_json:
        click.echo(json.dumps({"buckets": [{"bucket": name, "lost": count} for name, count in lost.items()]}))
        return
    for name, count in lost.items():
        say(f"{name}: {count} are lost")


def _chosen(storage: Storage, names: Sequence[str]) -> list[Damage]:
    known = {_name(found): found for found in storage.repair.find()}
    for name in names:
        if name not in known:
            raise click.UsageError(f"no bucket {name} is damaged; hubbub shuffler damaged list shows all")
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def _name(found: Damage) -> str:
    metric, period, key = found.bucket
    return f"{metric.hex()}:{period}:{key}"


def _row(found: Damage) -> dict[str, object]:
    return {
        "bucket": _name(found),
        "metric": found.name,
        "state": found.state,
        "reports": found.reports,
        "unreadable": found.lost,
        "on its way": "yes" if found.on_its_way else "no",
        "lacks MiB": -(-found.lacks // 2**20),
    }
