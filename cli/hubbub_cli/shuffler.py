"""`hubbub shuffler`: run the service that sees who, never what."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["shuffler"]


@click.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0 picks a free one.")
@click.option("--state-dir", type=click.Path(file_okay=False, path_type=Path), help="Where reports wait.")
@click.option("--aggregator", metavar="ADDRESS", help="Address of the aggregator.")
@click.option(
    "--trust", multiple=True, metavar="ANCHOR", help="Trust anchor of the aggregator, ed25519:...; repeatable."
)
@click.option("--min-batch-floor", type=click.IntRange(min=2), help="Fewest reports that ever leave together.")
@click.option("--max-batch", type=click.IntRange(min=4), help="Most reports in one batch.")
def shuffler(**options: object) -> None:
    """Take sealed reports, wait for a crowd, forward it in random order.

    Options win over HUBBUB_SHUFFLER_* variables; all settings are in docs/shuffler.md. The token for the
    aggregator comes from HUBBUB_SHUFFLER_FORWARD_TOKEN only: a command line can be read by others.
    """
    from hubbub_shuffler.main import load, run  # the server libraries take a second to load; --help needs none

    settings = load(**{name: value for name, value in options.items() if value not in (None, ())})
    run(
        settings,
        lambda address: click.echo(f"Shuffler ready at {address}, forwarding to {settings.aggregator}", err=True),
    )
