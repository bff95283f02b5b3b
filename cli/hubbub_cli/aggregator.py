"""`hubbub aggregator`: run the aggregator in this terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

__all__ = ["aggregator"]


@click.command()
@click.option("--codebook", type=click.Path(path_type=Path), help="The metrics.toml to collect by.")
@click.option("--state-dir", type=click.Path(path_type=Path), help="Where keys, releases and the spool live.")
@click.option("--host", help="Address to listen on; loopback unless said otherwise.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one.")
@click.option("--single-operator", is_flag=True, default=None, help="One party runs both services: say so in answers.")
def aggregator(**options: Any) -> None:
    """Open shuffled batches and answer queries, until Ctrl-C or SIGTERM.

    Address and trust anchor are printed to stderr. Everything else is set by HUBBUB_AGGREGATOR_* in the
    environment, tokens always; see docs/aggregator.md.
    """
    from pydantic import ValidationError

    from hubbub_aggregator.main import run
    from hubbub_aggregator.settings import Settings

    given = {name: value for name, value in options.items() if value is not None}
    try:
        settings = Settings(**given)
    except ValidationError as error:
        # where and why, never the value: it may be a token
        found = "; ".join(": ".join([*map(str, fault["loc"]), fault["msg"]]) for fault in error.errors())
        raise click.UsageError(found) from None
    run(settings)
