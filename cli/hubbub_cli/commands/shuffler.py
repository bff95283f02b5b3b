"""`hubbub shuffler`: run the service that sees who reports, never what; and tend held and damaged batches."""

from __future__ import annotations

from logging import getLogger
from pathlib import Path
from typing import Any

import click

from hubbub_cli.commands.shuffler_damaged import damaged
from hubbub_cli.commands.shuffler_held import held
from hubbub_cli.services.settings_help import write_settings

__all__ = ["shuffler"]


class _WithSettings(click.Group):
    """A command whose help ends with every setting of its service, its default and its meaning."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # the server libraries take a while to load; only --help needs it
        from hubbub_shuffler.settings import Settings

        super().format_epilog(ctx, formatter)
        write_settings(formatter, Settings)


@click.group(cls=_WithSettings, invoke_without_command=True)
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0 picks a free one.")
@click.option("--state-dir", type=click.Path(file_okay=False, path_type=Path), help="Directory where reports wait.")
@click.option("--aggregator", metavar="ADDRESS", help="Address of the aggregator.")
@click.option(
    "--trust", multiple=True, metavar="ANCHOR", help="Trust anchor of the aggregator, ed25519:...; repeatable."
)
@click.option("--min-batch-floor", type=click.IntRange(min=2), help="Fewest reports that are ever forwarded together.")
@click.option("--max-batch", type=click.IntRange(min=4), help="Most reports in one batch.")
@click.option(
    "--admin-port", type=click.IntRange(0, 65_535), help="Port of the admin listener; without it there is none."
)
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Log lines as text or as JSON.")
@click.pass_context
def shuffler(context: click.Context, /, **options: Any) -> None:
    """Run the shuffler, which forwards crowds in random order.

    It takes sealed reports, waits for a crowd, and forwards it in random order. Options win over the HUBBUB_SHUFFLER_*
    variables listed below. Give tokens, and a storage URL with a password in it, in the environment or in files: other
    users of the machine can read a command line.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if context.invoked_subcommand is not None:
        if given:
            raise click.UsageError(f"{context.invoked_subcommand} has its own options: leave out those of the service")
        return
    from hubbub_shuffler.main import run
    from hubbub_shuffler.settings import Settings

    settings = Settings.load_for_service(**given)

    def announce(address: str) -> None:
        said = f"Shuffler ready at {address}, forwarding to {settings.aggregator}"
        if settings.log_format == "json":
            getLogger("hubbub_shuffler").info(said)  # so that every line is an object
        else:
            click.echo(said, err=True)

    run(settings, announce)


shuffler.add_command(held)
shuffler.add_command(damaged)
