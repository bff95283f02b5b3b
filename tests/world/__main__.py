"""`make world`: explore histories of a simulated world, or play one again.

Prints a line of progress, and each failure as a script. The exit code is 1 if there is one.
"""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path

import click

from tests.faults.table import markdown
from tests.world.explore import Failure, Found, explore, failure_of, redis_for
from tests.world.generate import script_of
from tests.world.operations import Storage, parse

STORAGES: tuple[Storage, ...] = ("sqlite", "redis")


@click.command(help=__doc__)
@click.option("--minutes", default=5.0, show_default=True, help="How long to explore.")
@click.option("--jobs", default=2, show_default=True, help="Processes.")
@click.option(
    "--storage", "storages", type=click.Choice(STORAGES), multiple=True, default=STORAGES, help="Both unless given."
)
@click.option("--first", type=int, help="Number of the first history; random unless given.")
@click.option("--histories", type=int, help="Most histories of each process.")
@click.option("--seed", type=int, help="Play this one history, and print its script.")
@click.option("--script", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Play this script.")
@click.option(
    "--real", is_flag=True, help="Play numbered histories by real processes instead, until there were `--kills`."
)
@click.option("--kills", default=100, show_default=True, help="Of real processes, on each storage.")
def main(
    minutes: float,
    jobs: int,
    storages: tuple[Storage, ...],
    first: int | None,
    histories: int | None,
    seed: int | None,
    script: Path | None,
    real: bool,
    kills: int,
) -> None:
    if real:
        sys.exit(_by_real_processes(storages, 0 if first is None else first, kills, script))
    if seed is not None or script is not None:
        sys.exit(_again(storages[0], seed, script))
    began, number = time.monotonic(), secrets.randbelow(10**9) if first is None else first
    shown = 0
    click.echo(f"histories from number {number} on, {' and '.join(storages)}, {jobs} processes")

    def tell(found: Found) -> None:
        nonlocal shown
        passed = int(time.monotonic() - began)
        click.echo(f"\r{passed // 60:3}:{passed % 60:02}  {found}", nl=not sys.stdout.isatty())
        for failure in found.failures[shown:]:
            click.echo(f"\n{failure}")
        shown = len(found.failures)

    found = explore(minutes * 60, storages, jobs, number, tell, histories)
    click.echo(f"\n{found}")
    click.echo(f"{found.counted:,} metrics and periods had a release")
    sys.exit(1 if found.failures else 0)


def _again(storage: Storage, seed: int | None, path: Path | None) -> int:
    """Play one history, and say what came of it."""
    chosen = parse(path.read_text("utf-8")) if path is not None else script_of(seed or 0, storage)
    click.echo(str(chosen))
    with redis_for(chosen.world.storage) as redis:
        failure: Failure | None = failure_of(chosen, redis)
    click.echo("everything held" if failure is None else str(failure))
    return 0 if failure is None else 1


def _by_real_processes(storages: tuple[Storage, ...], first: int, kills: int, path: Path | None) -> int:
    """Play scripts by real processes, and print a table in Markdown."""
    from tests.world.real_processes import HEADS, played_until

    rows = []
    for storage in storages:
        given = None if path is None else parse(path.read_text("utf-8"))
        rows.append(played_until(storage, first, kills, given, lambda text: click.echo(text, err=True)))
    click.echo(markdown(HEADS, [row.cells() for row in rows]))
    return 0 if all(row.found.holds for row in rows) else 1


if __name__ == "__main__":
    main()
