"""`hubbub codebook`: check what would be collected, say what a change of it means, put it in force."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from hubbub.codebook import Codebook, decimal_text, diff, lint
from hubbub.period import duration_text
from hubbub.problems import CodebookError, InvalidParameter
from hubbub_cli.services.aggregator_state import STATE, beside, warn_of_clock
from hubbub_cli.terminal.table import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hubbub.codebook import Metric
    from hubbub.problems import Finding

__all__ = ["codebook"]

_FILE = click.Path(dir_okay=False)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")


@click.group()
def codebook() -> None:
    """Check metrics.toml, say what a change of it means, and put it in force."""


@codebook.command()
@click.argument("file", type=_FILE)
@click.option("--devices", type=click.IntRange(min=1), help="Devices expected per period: is min_batch in reach?")
@_JSON
def check(file: str, devices: int | None, as_json: bool) -> None:
    """Read FILE and list its metrics. Errors end with exit code 1; warnings do not."""
    checked = _load(file, as_json=as_json)
    warnings = lint(
        checked, today=datetime.now(UTC).date(), file=file, devices=devices, min_batch_of=partial(_min_batch, checked)
    )
    if as_json:
        _print_json({"ok": True, "codebook": checked.compiled(), "warnings": [asdict(w) for w in warnings]})
        return
    collection = checked.collection
    click.echo(
        table(
            ["metric", "type", "mechanism", "epsilon", "report bytes", "id"],
            [
                [
                    metric.name if metric.enabled else f"{metric.name} (off)",
                    metric.type,
                    metric.mechanism.name,
                    decimal_text(metric.epsilon),
                    str(metric.mechanism.report_bytes),
                    metric.id.hex()[:8],
                ]
                for metric in checked.metrics
            ],
        )
    )
    click.echo(
        f"\n{collection.name}, codebook {checked.id.hex()[:8]}: a device spends epsilon {decimal_text(checked.spent)} "
        f"of {decimal_text(collection.device_epsilon)} in a period of {collection.calendar}"
    )
    _say("warning", warnings)


@codebook.command()
@click.argument("file", type=_FILE)
@_JSON
def show(file: str, as_json: bool) -> None:
    """Print the compiled form of FILE, which is JSON in any case: what devices and services work from."""
    _print_json(_load(file, as_json=as_json).compiled())


@codebook.command()
@click.argument("file", type=_FILE)
@_JSON
def notice(file: str, as_json: bool) -> None:
    """Print each question of FILE in plain words, as Markdown for the privacy notice of an app."""
    from hubbub_aggregator.dashboard.pages.what_is_collected import (
        of_codebook,  # the same words as on the aggregator's page
    )
    from hubbub_cli.privacy_notice import markdown

    page = of_codebook(_load(file, as_json=as_json))
    if as_json:
        _print_json(asdict(page))
    else:
        click.echo(markdown(page), nl=False)


@codebook.command("diff")
@click.argument("old", type=_FILE)
@click.argument("new", type=_FILE)
@_JSON
def diff_command(old: str, new: str, as_json: bool) -> None:
    """Say what it means to go from OLD to NEW: ids, history, budget."""
    found = diff(_load(old, as_json=as_json), _load(new, as_json=as_json))
    if as_json:
        _print_json({"ok": True, **found.document()})
    else:
        click.echo(found.render())


@codebook.command()
@click.argument("file", type=_FILE)
@STATE
@click.option(
    "--from", "start", metavar="DATE", help="First period it is in force for; the first possible unless given."
)
@_JSON
def publish(file: str, state_dir: Path, start: str | None, as_json: bool) -> None:
    """Put FILE in force at an aggregator, which may be running and then signs it into its bundle within a second.

    It starts with the first period that begins at least two cache lifetimes of the bundle from now, so that every
    device and the shuffler know it by then; until then, and for what is on its way, the versions before it hold. Only a
    metric that it switches off (enabled = false) stops at once, with the next bundle that devices get.
    """
    from hubbub_aggregator.publication.lead_time import CACHE_LIFETIMES, cache_lifetime

    written = _load(file, as_json=as_json)
    with beside(state_dir) as state:
        before = state.codebooks.newest
        calendar = state.codebooks.collection.calendar
        warn_of_clock(state.storage, now := time.time())
        version = state.codebooks.publish(written, now, None if start is None else calendar.boundary(start))
        ahead = duration_text(CACHE_LIFETIMES * cache_lifetime(state.storage, state.max_age))
        period = calendar.period(version.first_period)
        label, begins = period.label, datetime.fromtimestamp(period.start, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        off = sorted(m.name for m in version.codebook.metrics if not m.enabled)
    if as_json:
        found = {"id": version.codebook.id.hex(), "first_period": label, "begins": period.start, "switched_off": off}
        _print_json({"ok": True, **found, **diff(before, version.codebook).document()})
        return
    click.echo(f"codebook {version.codebook.id.hex()[:8]} is in force from the period {label} on ({begins})")
    click.echo(f"an edit starts two cache lifetimes ({ahead}) ahead at least: every device knows it by then", err=True)
    if off:
        click.echo(f"switched off at once: {', '.join(off)}")
    click.echo(diff(before, version.codebook).render(), err=True)


def _min_batch(checked: Codebook, metric: Metric) -> int:
    """What the accountant and a shuffler ask for; more than there are devices where no batch would do."""
    from hubbub.accounting.plan import min_batch
    from hubbub_cli.services.min_crowd import usual_floor

    try:
        return max(min_batch(metric, checked), usual_floor())
    except InvalidParameter:
        return 10**12


def _load(file: str, *, as_json: bool) -> Codebook:
    try:
        return Codebook.load(file)
    except CodebookError as error:
        _refuse(error.findings, as_json=as_json)


def _refuse(findings: Sequence[Finding], *, as_json: bool) -> NoReturn:
    if as_json:
        _print_json({"ok": False, "errors": [asdict(finding) for finding in findings]})
    else:
        _say("error", findings)
    sys.exit(1)


def _say(severity: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        place = f"{finding.file}: {finding.key}" if finding.key else finding.file
        click.echo(f"{severity}: {place}: {finding.problem}\n  fix: {finding.fix}", err=True)


def _print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
