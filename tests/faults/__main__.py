"""Fault runs: `python -m tests.faults` breaks a running system on purpose, and counts every report afterwards.

Prints tables in Markdown. The exit code is 1 if anything acknowledged was lost, or counted that must not be.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from tests.faults import runs
from tests.faults.clock_excursion import OFFSETS, Cell, excursions
from tests.faults.clocks import NO_FAKETIME, faketime
from tests.faults.plan import PARTIES, STORAGES, Party, Plan, StorageName
from tests.faults.table import markdown

SEED = click.option("--seed", default=1, show_default=True, help="All choices of faults come from it.")
STORAGE = click.option(
    "--storage", "storages", type=click.Choice(STORAGES), multiple=True, default=STORAGES, help="Both unless given."
)
KEEP = click.option("--keep", type=click.Path(path_type=Path), help="Folder for logs and state, to look at afterwards.")


@click.group(help=__doc__)
def main() -> None:
    pass


@main.result_callback()
def _exit(holds: bool) -> None:
    sys.exit(0 if holds else 1)


@main.command()
@STORAGE
@SEED
@KEEP
@click.option("--kills", default=100, show_default=True, help="Of each service, at least.")
def kill(storages: tuple[StorageName, ...], seed: int, keep: Path | None, kills: int) -> bool:
    """kill -9 of shuffler and aggregator, one at a time or both."""
    plans = [Plan(storage, seed) for storage in storages]
    return _tell(plans, keep, lambda plan, folder: runs.kill(plan, folder, kills))


@main.command()
@STORAGE
@SEED
@KEEP
@click.option("--stops", default=40, show_default=True)
def stop(storages: tuple[StorageName, ...], seed: int, keep: Path | None, stops: int) -> bool:
    """SIGSTOP of services for up to three leases. Two shufflers; on Redis two aggregators, too."""
    plans = [Plan(s, seed, shufflers=2, aggregators=2 if s == "redis" else 1) for s in storages]
    return _tell(plans, keep, lambda plan, folder: runs.stop(plan, folder, stops))


@main.command()
@SEED
@KEEP
@click.option("--events", default=40, show_default=True)
def redis(seed: int, keep: Path | None, events: int) -> bool:
    """Redis killed, stopped, its connections cut, and services killed meanwhile. Two of each service."""
    plans = [Plan("redis", seed, shufflers=2, aggregators=2)]
    return _tell(plans, keep, lambda plan, folder: runs.redis(plan, folder, events))


@main.command()
@STORAGE
@SEED
@KEEP
@click.option("--requests", default=1_000, show_default=True, help="Requests to mistreat.")
def proxy(storages: tuple[StorageName, ...], seed: int, keep: Path | None, requests: int) -> bool:
    """A bad network between devices and shuffler, and between shuffler and aggregator. Batches are cut."""
    plans = [Plan(storage, seed, max_batch=80, bad_network=True) for storage in storages]
    return _tell(plans, keep, lambda plan, folder: runs.proxy(plan, folder, requests))


def _tell(plans: list[Plan], keep: Path | None, run: Callable[[Plan, Path], runs.Row]) -> bool:
    """Run each, print the table and what is wrong; whether nothing is."""
    rows = []
    for plan in plans:
        with tempfile.TemporaryDirectory(prefix="hubbub-faults-") as name:
            rows.append(run(plan, Path(name) if keep is None else keep / plan.storage))
        for wrong in rows[-1].found.wrong:
            click.echo(f"{plan.storage}: {wrong}", err=True)
    click.echo(markdown(runs.Row.HEADS, [row.cells() for row in rows]))
    return all(row.found.holds for row in rows)


@main.command()
@STORAGE
@SEED
@KEEP
@click.option("--party", "parties", type=click.Choice(PARTIES), multiple=True, default=PARTIES, help="Whose clock.")
@click.option(
    "--offset",
    "offsets",
    type=int,
    multiple=True,
    default=OFFSETS,
    help="Seconds by which it is set; those of the table unless given.",
)
@click.option("--seconds", default=60.0, show_default=True, help="For which it is wrong.")
@click.option("--horizon", default="10m", show_default=True, help="After which a period is over for everyone.")
@click.option("--jobs", default=4, show_default=True, help="Worlds at the same time.")
def clocks(
    storages: tuple[StorageName, ...],
    seed: int,
    keep: Path | None,
    parties: tuple[Party, ...],
    offsets: tuple[int, ...],
    seconds: float,
    horizon: str,
    jobs: int,
) -> bool:
    """Set the clock of one party under load, and set it right again. Needs libfaketime."""
    if faketime() is None:
        raise click.ClickException(NO_FAKETIME)
    chosen = [
        (replace(Plan.for_clocks(storage, party), seed=seed, horizon=horizon), party, offset)
        for storage in storages
        for party in parties
        if (storage, party) != ("sqlite", "redis")  # it has no clock of its own
        for offset in offsets
    ]
    cells = []
    for cell in excursions(chosen, seconds, jobs, keep):
        cells.append(cell)
        click.echo(markdown((), [cell.cells()]), err=True)
        for wrong in [*cell.found.wrong, *cell.found.notes]:
            click.echo(f"  {wrong}", err=True)
    click.echo(markdown(Cell.HEADS, [cell.cells() for cell in cells]))
    return all(cell.holds for cell in cells)


@main.command("all")
@click.pass_context
def everything(context: click.Context) -> bool:
    """Every table as it is by default: about two hours."""
    held = []
    for command in (kill, stop, redis, proxy, clocks):
        click.echo(f"\n{command.name}\n")
        held.append(context.invoke(command))
    return all(held)


if __name__ == "__main__":
    main()
