"""All subcommands in one group."""

from __future__ import annotations

import click

from hubbub_cli.aggregator import aggregator
from hubbub_cli.audit import audit
from hubbub_cli.checklist import checklist
from hubbub_cli.codebook import codebook
from hubbub_cli.demo import demo
from hubbub_cli.health import health
from hubbub_cli.keys import keys
from hubbub_cli.main import version
from hubbub_cli.mechanisms import mechanisms
from hubbub_cli.plan import plan
from hubbub_cli.privacy import privacy
from hubbub_cli.query import query
from hubbub_cli.report import report
from hubbub_cli.select import select
from hubbub_cli.shuffler import shuffler
from hubbub_cli.simulate import simulate
from hubbub_cli.up import up


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(), message="%(version)s")
def hubbub() -> None:
    """Hear the crowd, never the person: telemetry with local differential privacy.

    Start with `hubbub demo`; then write a metrics.toml, `hubbub codebook check` it and `hubbub up`.
    """


for command in (
    aggregator,
    audit,
    checklist,
    codebook,
    demo,
    health,
    keys,
    mechanisms,
    plan,
    privacy,
    query,
    report,
    select,
    shuffler,
    simulate,
    up,
):
    hubbub.add_command(command)
