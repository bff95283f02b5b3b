"""All subcommands in one group."""

from __future__ import annotations

import click

import hubbub as core
from hubbub_cli.codebook import codebook
from hubbub_cli.demo import demo
from hubbub_cli.mechanisms import mechanisms
from hubbub_cli.plan import plan
from hubbub_cli.privacy import privacy


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(core.__version__, prog_name="hubbub")
def hubbub() -> None:
    """Hear the crowd, never the person: telemetry with local differential privacy.

    Start with `hubbub demo`; then write a metrics.toml and `hubbub codebook check` it.
    """


hubbub.add_command(codebook)
hubbub.add_command(demo)
hubbub.add_command(mechanisms)
hubbub.add_command(plan)
hubbub.add_command(privacy)
