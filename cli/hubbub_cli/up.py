"""`hubbub up`: both services on this machine, on embedded storage, from nothing but a codebook."""

from __future__ import annotations

import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub.codebook import Codebook
from hubbub_cli.services import Services

if TYPE_CHECKING:
    pass

_NO_CODEBOOK = """there is no {path}. Write one, for example:

[collection]
name = "my-app"
period = "1d"
device_epsilon = 2.0
release = {{ epsilon = 0.5, delta = 1e-8 }}

[metrics.dark_mode]
type = "boolean"
epsilon = 1.0
missing = false
"""


@click.command()
@click.option(
    "--codebook",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("metrics.toml"),
    show_default=True,
    help="What is collected.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("hubbub-state"),
    show_default=True,
    help="Where both services keep what they hold.",
)
@click.option(
    "--shuffler-port", type=click.IntRange(1, 65535), default=8701, show_default=True, help="Where devices report."
)
@click.option(
    "--aggregator-port", type=click.IntRange(1, 65535), default=8702, show_default=True, help="Where analysts ask."
)
def up(codebook: Path, state_dir: Path, shuffler_port: int, aggregator_port: int) -> None:
    """Run shuffler and aggregator here until Ctrl-C. No Redis, no Docker, no root.

    Keys and tokens are made in the state directory on first start. Since one party runs both services, what holds
    is each device's own (local) guarantee; for the other one, let two parties run `hubbub shuffler` and `hubbub
    aggregator`.
    """
    if not codebook.exists():
        raise click.ClickException(_NO_CODEBOOK.format(path=codebook))
    loaded = Codebook.load(codebook)
    stop_on_sigterm()
    click.echo("starting; the first start works out batch sizes and takes a few seconds ...", err=True)
    with Services(
        state_dir.absolute(), codebook.absolute(), shuffler_port=shuffler_port, aggregator_port=aggregator_port
    ) as services:
        click.echo(welcome(loaded, services, time.time()))
        services.watch()


def stop_on_sigterm() -> None:
    """Leave through the same door on SIGTERM as on Ctrl-C, so that no service is left behind."""
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))


def welcome(codebook: Codebook, services: Services, now: float) -> str:
    """What someone who has just started it needs to know next."""
    collection = codebook.collection
    period = collection.calendar.at(now)
    first = datetime.fromtimestamp(period.closes_at(collection.grace), UTC)
    records = "\n".join(f"    client.record({m.name!r}, {m.values.example()!r})" for m in codebook.metrics if m.enabled)
    return f"""
devices report to   {services.shuffler}
dashboard           {services.aggregator}/     (open it in a browser)
analysts ask at     {services.aggregator}     (try: hubbub query --address {services.aggregator})
trust anchor        {services.anchor}

    from hubbub_client import Client

    client = Client({services.shuffler!r}, trust={services.anchor!r},
                    consent=True, state_dir="my-app-state")
{records}
    client.flush(timeout=5)

First numbers: the period that began {period.label} closes {first:%Y-%m-%d %H:%M:%S} UTC; a metric is released if
enough devices reported it by then (`hubbub plan {services.codebook.name} --devices N` says how many are enough).

One operator runs both services here: the shuffle guarantee holds only if different parties run the two; until
then each device's local epsilon is the promise.

Ctrl-C stops both.
"""
