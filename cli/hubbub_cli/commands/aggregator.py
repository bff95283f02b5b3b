"""`hubbub aggregator`: run the aggregator in this terminal; copy its state, and bring a copy back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from hubbub.errors import InvalidParameter
from hubbub.period import duration_text
from hubbub_cli.services.aggregator_state import STATE, settings_beside
from hubbub_cli.services.settings_help import write_settings

__all__ = ["aggregator"]


class _WithSettings(click.Group):
    """A command whose help ends with every setting of its service, its default and its meaning."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # the server libraries take a while to load; only --help needs it
        from hubbub_aggregator.settings import Settings

        super().format_epilog(ctx, formatter)
        write_settings(formatter, Settings)


@click.group(cls=_WithSettings, invoke_without_command=True)
@click.option("--codebook", type=click.Path(path_type=Path), help="The compiled codebook to collect by.")
@click.option("--state-dir", type=click.Path(path_type=Path), help="Where keys, releases and the spool live.")
@click.option("--host", help="Address to listen on; loopback unless said otherwise.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 picks a free one.")
@click.option("--single-operator", is_flag=True, default=None, help="One party runs both services: say so in answers.")
@click.option("--admin-port", type=click.IntRange(0, 65535), help="Port of the admin listener; none without.")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Log lines as text or as JSON.")
@click.pass_context
def aggregator(context: click.Context, /, **options: Any) -> None:
    """Open shuffled batches and answer queries, until Ctrl-C or SIGTERM.

    Address and trust anchor are printed to stderr. Options win over HUBBUB_AGGREGATOR_* variables, all of which are
    listed below. Tokens, and a storage URL with a password in it, come from the environment or from files: a command
    line can be read by others.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if context.invoked_subcommand is not None:
        if given:
            raise click.UsageError(
                f"options of the service come without a command; {context.invoked_subcommand} has its own"
            )
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
@click.option("--with-keys", is_flag=True, help="Also all private keys and the identity. Whoever has it, has them.")
def backup(file: Path, state_dir: Path, with_keys: bool) -> None:
    """Copy the state into FILE, which must be new; the aggregator may run meanwhile.

    Without --with-keys keep identity.key elsewhere, once, and again if you exchange it. Let copies expire as fast as
    the horizon erases nonces and keys here.
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
    click.echo(f"{file} written", err=True)
    if with_keys:
        click.echo(
            "warning: it holds every private key, readable by you only (mode 0600): whoever gets it can open reports "
            "and speak for this aggregator; encrypt it before it leaves this machine",
            err=True,
        )


@aggregator.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@STATE
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="The newest bundle, as the shuffler's GET /v1/bundle gives it: what was published after the copy was made.",
)
def restore(file: Path, state_dir: Path, bundle: Path | None) -> None:
    """Bring FILE back into a state directory without a database, before the aggregator is started there.

    What was released after the copy was made is not in it. Sealing keys that are not in it are revoked: periods that
    have begun, or begin within two cache lifetimes of the bundle, get no other, later ones do. If anything was
    published after the copy, give --bundle too: the shuffler takes no bundle that forgets the key or the codebook of a
    begun period, until that period has closed.
    """
    from hubbub_aggregator.main import DATABASE, only_one
    from hubbub_aggregator.operations.backup_and_restore import restore as bring_back
    from hubbub_service_common.process.atomic_files import state_directory

    max_age = _embedded(state_dir).bundle_max_age
    with only_one(state_directory(state_dir)):
        relayed = None if bundle is None else bundle.read_bytes()
        done = bring_back(file, state_dir, DATABASE, time.time(), relayed, max_age=max_age)
    noun = "sealing key was" if done.revoked == 1 else "sealing keys were"
    click.echo(f"{file} is in {state_dir}; {done.revoked} {noun} revoked", err=True)
    if done.pause is not None:
        click.echo(
            f"reports are collected again from {done.pause.end} on: that period is the first with a new key. A period "
            f"that has begun, or begins within two cache lifetimes of the bundle ({duration_text(done.lead)}), gets "
            "none, since devices may hold the revoked one for it",
            err=True,
        )


def _embedded(state_dir: Path) -> Any:
    settings = settings_beside(state_dir)
    if settings.storage is not None:
        raise InvalidParameter(
            "HUBBUB_AGGREGATOR_STORAGE names a Redis: copy its append-only file or a snapshot with its own means, and "
            "keep identity.key; see docs/reference/aggregator.md"
        )
    return settings
