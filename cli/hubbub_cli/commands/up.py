"""`hubbub up`: both services on this machine, on embedded storage; a codebook is all they need."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent

import click

from hubbub.codebook import Codebook
from hubbub.sdk_snippet import sdk_snippet
from hubbub_cli.browser_page.server import BrowserPage
from hubbub_cli.services.default_min_crowd import usual_floor
from hubbub_cli.services.edit_to_come import waiting
from hubbub_cli.services.environment import PassedOn, passed_on
from hubbub_cli.services.own_command import own_command
from hubbub_cli.services.processes import Services
from hubbub_cli.services.relayed_log import RelayedLog
from hubbub_cli.terminal.wrapped_text import say, wrapped
from hubbub_service_common.process.clock_and_entropy import wall

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

_NOT_YET = """
It may be later than that: {doubt}.
If the clock is right, stop and start again with --clock-is-right.
"""


@click.command()
@click.option(
    "--codebook",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("metrics.toml"),
    show_default=True,
    help="The metrics.toml that says what is collected.",
)
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("hubbub-state"),
    show_default=True,
    help="Where both services keep their state.",
)
@click.option(
    "--shuffler-port", type=click.IntRange(1, 65535), default=8701, show_default=True, help="Where devices report."
)
@click.option(
    "--aggregator-port", type=click.IntRange(1, 65535), default=8702, show_default=True, help="Where analysts ask."
)
@click.option(
    "--page-port",
    type=click.IntRange(1, 65535),
    help="Where the page is that reports from your browser. Default: 8703, or any free port.",
)
@click.option(
    "--clock-is-right",
    is_flag=True,
    help="You have checked the time: trust this machine's clock at once, however long it was off.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout: one line, as soon as both are ready.")
def up(
    codebook: Path,
    state_dir: Path,
    shuffler_port: int,
    aggregator_port: int,
    page_port: int | None,
    clock_is_right: bool,
    as_json: bool,
) -> None:
    """Run shuffler and aggregator here until Ctrl-C.

    Needs no Redis, no Docker and no root. Keys and tokens are made in the state directory on first start. One party
    runs both services here, so only each device's own (local) guarantee holds. For the shuffle guarantee, let two
    parties run `hubbub shuffler` and `hubbub aggregator`.

    HUBBUB_SHUFFLER_* and HUBBUB_AGGREGATOR_* variables are passed on, except for what this command decides: addresses,
    ports, TLS, storage, state directories, codebook, identity, and the tokens and trust between the two services. A
    warning names those without effect.
    """
    if not codebook.exists():
        raise click.ClickException(_NO_CODEBOOK.format(path=codebook))
    stop_on_sigterm()
    confirmed = {"CLOCK_IS_RIGHT": "true"} if clock_is_right else {}
    given = {name: passed_on(name, os.environ) for name in ("shuffler", "aggregator")}
    log, settings = _log(given)
    with BrowserPage(page_port) as page:
        services = Services(
            state_dir.absolute(),
            codebook.absolute(),
            shuffler_port=shuffler_port,
            aggregator_port=aggregator_port,
            aggregator_settings=settings["aggregator"] | confirmed,
            shuffler_settings=settings["shuffler"] | page.listed(settings["shuffler"]) | confirmed,
            relayed=log,
        )
        services.refuse_if_taken()
        if ignored := [variable for one in given.values() for variable in one.ignored]:
            say(f"warning: no effect here, since `hubbub up` decides these: {', '.join(ignored)}")
        _serve(codebook, services, page, log, as_json=as_json)


def _serve(codebook: Path, services: Services, page: BrowserPage, log: RelayedLog | None, *, as_json: bool) -> None:
    """Start, say what was started, and wait for Ctrl-C."""
    say(f"dashboard at {services.aggregator}/ in a moment")
    say(f"starting; {codebook} is compiled after each edit, about a second for each metric ...")
    try:
        with services:
            how = "compiled into" if services.was_compiled else "as it was when it was compiled into"
            say(f"{codebook} is {how} {services.served}")
            page.show(services.frozen, services)
            if as_json:
                click.echo(json.dumps(addresses(services, page.address)))
                if (edit := waiting(services, wall())) is not None:
                    say(f"warning: {edit.text}")
            else:
                click.echo(welcome(services.frozen, services, wall(), page.address))
            if log is not None:
                log.show(only_trouble=True)
            services.watch()
    except KeyboardInterrupt:
        say("\nstopped")  # as asked: exit code 0


def _log(given: Mapping[str, PassedOn]) -> tuple[RelayedLog | None, dict[str, dict[str, str]]]:
    """How the services' log is printed, and their settings: as lines for people, or as the environment asks for it."""
    settings = {name: dict(one.settings) for name, one in given.items()}
    if any("LOG_FORMAT" in one for one in settings.values()):
        return None, settings
    return RelayedLog(), {name: {**one, "LOG_FORMAT": "json"} for name, one in settings.items()}


def stop_on_sigterm() -> None:
    """End on SIGTERM as on Ctrl-C, so that no service is left behind."""
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))


def addresses(services: Services, page: str) -> dict[str, str]:
    """What a script needs to know to use what was started."""
    return {
        "shuffler": services.shuffler,
        "aggregator": services.aggregator,
        "page": page,
        "trust": services.anchor,
        "codebook": services.frozen.id.hex(),
    }


def welcome(codebook: Codebook, services: Services, now: float, page: str) -> str:
    """What a user who has just started it needs to know next."""
    from hubbub_aggregator.dashboard.formatting import date, moment

    collection = codebook.collection
    edit = waiting(services, now)
    begins = None if edit is None else edit.begins
    period = collection.calendar.at(now) if begins is None else begins
    first = "First numbers: the period that began" if begins is None else "First numbers of it: the period that begins"
    not_yet = "" if edit is None else f"{wrapped(edit.text)}\n\n"
    doubt = services.clock_warning()
    later = "" if doubt is None else "\n".join(map(wrapped, _NOT_YET.format(doubt=doubt).split("\n")))
    snippet = indent(sdk_snippet(codebook, services.shuffler, services.anchor), "    ")
    javascript = indent(sdk_snippet(codebook, services.shuffler, services.anchor, "JavaScript"), "    ")
    command, floor = own_command(), "" if services.floor == usual_floor() else f" --floor {services.floor}"
    hint = wrapped(
        f"closes {moment(period.closes_at(collection.grace))}. A metric is released if enough devices have reported it "
        f"by then: `{command} plan {services.codebook.name} --devices N{floor}` says how many are enough, never fewer "
        f"than the {services.floor:,} that this shuffler waits for. Below, each batch is named as it arrives, and each "
        "crowd that was too small (times in UTC)."
    )
    # snippets first: a terminal of 24 lines shows all that follows them
    return f"""
in Python:

{snippet}

in JavaScript, in a page of an origin that HUBBUB_SHUFFLER_CORS_ORIGINS lists:

{javascript}

dashboard           {services.aggregator}/
from your browser   {page}/     (buttons that report)
devices report to   {services.shuffler}
analysts ask at     {services.aggregator}
in a terminal       {command} query --address {services.aggregator}
trust anchor        {services.anchor}
codebook            {codebook.id.hex()}     (an app may pin it)

{not_yet}{first} {date(period.label)}
{hint}
{later}
One operator runs both services here, so the promise is each device's local
epsilon. The shuffle guarantee holds only if different parties run the two.

Ctrl-C stops both.
"""
