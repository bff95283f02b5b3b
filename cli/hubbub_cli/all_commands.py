"""All subcommands in one group."""

from __future__ import annotations

import click

from hubbub_cli.commands.aggregator import aggregator
from hubbub_cli.commands.audit import audit
from hubbub_cli.commands.checklist import checklist
from hubbub_cli.commands.client_js import client_js
from hubbub_cli.commands.codebook import codebook
from hubbub_cli.commands.demo import demo
from hubbub_cli.commands.health import health
from hubbub_cli.commands.keys import keys
from hubbub_cli.commands.mechanisms import mechanisms
from hubbub_cli.commands.plan import plan
from hubbub_cli.commands.privacy import privacy
from hubbub_cli.commands.query import query
from hubbub_cli.commands.report import report
from hubbub_cli.commands.select import select
from hubbub_cli.commands.shuffler import shuffler
from hubbub_cli.commands.simulate import simulate
from hubbub_cli.commands.up import up
from hubbub_cli.main import version


class _Root(click.Group):
    """Names the group of a command that was typed without it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in self.commands:
            groups = [one for one in self.commands.values() if isinstance(one, click.Group)]
            meant = [f"`hubbub {group.name} {name}`" for group in groups if name in group.commands]
            if meant:
                ctx.fail(f"No such command '{name}'. Did you mean {' or '.join(meant)}?")
        return super().resolve_command(ctx, args)


@click.group(cls=_Root)
@click.version_option(version(), message="%(version)s")
def hubbub() -> None:
    """Hear the crowd, never the person: telemetry with local differential privacy.

    Start with `hubbub demo`; then write a metrics.toml, `hubbub codebook check` it and `hubbub up`.
    """


for command in (
    aggregator,
    audit,
    checklist,
    client_js,
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


def _with_short_help(command: click.Command) -> None:
    """Let `-h` ask for help. Each command is told, as one that runs without the group above it would not inherit it."""
    command.context_settings["help_option_names"] = ["-h", "--help"]
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _with_short_help(below)


_with_short_help(hubbub)
