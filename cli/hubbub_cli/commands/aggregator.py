"""`hubbub aggregator`: run the aggregator in this terminal, back up its state, and restore a backup."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hubbub.errors import InvalidParameter
from hubbub.period import duration_text
from hubbub_cli.services.aggregator_state import STATE, settings_beside
from hubbub_cli.services.settings_help import write_settings
from hubbub_cli.terminal.wrapped_text import say
from hubbub_service_common.process.clock_and_entropy import wall

__all__ = ["aggregator"]

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")


class _WithSettings(click.Group):
    """A command whose help ends with every setting of its service, its default and its meaning."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # the server libraries take a while to load; only --help needs it
        from hubbub_aggregator.settings import Settings

        super().format_epilog(ctx, formatter)
        write_settings(formatter, Settings)


@click.group(cls=_WithSettings, invoke_without_command=True)
@click.option("--codebook", type=click.Path(path_type=Path), help="The compiled codebook that says what is collected.")
@click.option("--state-dir", type=click.Path(path_type=Path), help="Where keys, releases and the spool live.")
@click.option("--host", help="Address to listen on; loopback by default.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one.")
@click.option(
    "--single-operator", is_flag=True, default=None, help="One party runs both services; answers then say so."
)
@click.option(
    "--admin-port", type=click.IntRange(0, 65535), help="Port of the admin listener; without it there is none."
)
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Log lines as text or as JSON.")
@click.pass_context
def aggregator(context: click.Context, /, **options: Any) -> None:
    """Run the aggregator, which opens batches and answers queries.

    It runs until Ctrl-C or SIGTERM, and prints its address and trust anchor to stderr. Options win over the
    HUBBUB_AGGREGATOR_* variables listed below. Give tokens, and a storage URL with a password in it, in the environment
    or in files: other users of the machine can read a command line.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if context.invoked_subcommand is not None:
        if given:
            raise click.UsageError(f"{context.invoked_subcommand} has its own options: leave out those of the service")
        return
    from hubbub_aggregator.main import run
    from hubbub_aggregator.settings import Settings

    try:
        settings = Settings.load_for_service(**given)
    except InvalidParameter as error:
        raise click.UsageError(str(error)) from None
    run(settings)


@aggregator.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@STATE
@click.option("--with-keys", is_flag=True, help="Include the identity key and all private keys. FILE is then a secret.")
@_JSON
def backup(file: Path, state_dir: Path, with_keys: bool, as_json: bool) -> None:
    """Back up the state into FILE, which must not exist yet.

    The aggregator may run meanwhile. Without --with-keys, also keep a copy of identity.key elsewhere, and a new one
    whenever you replace the key. Let copies expire as fast as the horizon erases nonces and keys here.
    """
    from hubbub_aggregator.main import DATABASE
    from hubbub_aggregator.operations.backup_and_restore import backup as copy
    from hubbub_aggregator.publication.keys import IDENTITY

    settings = _embedded(state_dir)
    copy(
        state_dir / DATABASE,
        file,
        identity=(settings.identity or state_dir / IDENTITY) if with_keys else None,
    )
    if as_json:
        click.echo(json.dumps({"file": str(file), "with_keys": with_keys}))
    else:
        say(f"{file} written")
    if with_keys:
        say(
            "warning: the file holds every private key, and only you can read it (mode 0600). Anyone who gets it can "
            "open reports and act as this aggregator: encrypt it before it leaves this machine"
        )


@aggregator.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@STATE
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="The newest bundle, from the shuffler's GET /v1/bundle. It says what was published after the backup.",
)
@_JSON
def restore(file: Path, state_dir: Path, bundle: Path | None, as_json: bool) -> None:
    """Restore FILE into a state directory that has no database.

    Do this before you start the aggregator there. Releases made after the backup are not in it. Sealing keys whose
    private halves are not in it are revoked: periods that have begun, or begin within two cache lifetimes of the
    bundle, get no other key; later periods do. If anything was published after the backup, give --bundle too: the
    shuffler refuses a bundle that lacks the key or the codebook of a begun period, until that period has closed.
    """
    from hubbub_aggregator.main import DATABASE, only_one
    from hubbub_aggregator.operations.backup_and_restore import restore as bring_back
    from hubbub_service_common.process.atomic_files import state_directory

    max_age = _embedded(state_dir).bundle_max_age
    with only_one(state_directory(state_dir)):
        relayed = None if bundle is None else bundle.read_bytes()
        done = bring_back(file, state_dir, DATABASE, wall(), relayed, max_age=max_age)
    if as_json:
        found = {"state_dir": str(state_dir), "revoked": done.revoked}
        pause = {} if done.pause is None else {"collected_again_at": done.pause.until}
        click.echo(json.dumps({**found, **pause}))
        return
    noun = "sealing key was" if done.revoked == 1 else "sealing keys were"
    say(f"{file} is in {state_dir}; {done.revoked} {noun} revoked")
    if done.pause is not None:
        say(
            f"reports are collected again from {done.pause.end} on: that period is the first with a new key. A period "
            f"that has begun, or begins within two cache lifetimes of the bundle ({duration_text(done.lead)}), gets "
            "no new key, since devices may already hold the revoked key for it"
        )


def _embedded(state_dir: Path) -> Any:
    settings = settings_beside(state_dir)
    if settings.storage is not None:
        raise InvalidParameter(
            "HUBBUB_AGGREGATOR_STORAGE names a Redis: back up its append-only file or a snapshot with Redis's own "
            "tools, and keep identity.key; see docs/reference/aggregator.md"
        )
    return settings
