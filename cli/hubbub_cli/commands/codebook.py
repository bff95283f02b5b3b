"""`hubbub codebook`: check and compile a codebook, show what a change of it means, and put it in force."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from hubbub.codebook import Codebook, decimal_text, diff, is_compiled, lint, read_file
from hubbub.errors import CodebookError, InvalidParameter
from hubbub.period import duration_text
from hubbub_cli.compile_codebook import compiled, read_codebook, write_compiled
from hubbub_cli.services.aggregator_state import STATE, beside, warn_of_clock
from hubbub_cli.terminal.output_file import refuse_if_nowhere
from hubbub_cli.terminal.period_names import named
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.table import table_or_records
from hubbub_cli.terminal.wrapped_text import say, wrapped
from hubbub_service_common.process.clock_and_entropy import wall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hubbub.codebook import Collection, Diff, Metric
    from hubbub.errors import Finding

__all__ = ["codebook"]

_FILE = click.Path(dir_okay=False)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")


@click.group()
def codebook() -> None:
    """Check a metrics.toml, compare it, freeze it and publish it."""


@codebook.command()
@click.argument("file", type=_FILE)
@click.option(
    "--devices",
    type=click.IntRange(min=1),
    help="Devices expected per period: also warn if they are too few for a batch.",
)
@_JSON
def check(file: str, devices: int | None, as_json: bool) -> None:
    """Check FILE and list its metrics as they would be served.

    FILE is a metrics.toml or a compiled codebook. Errors end with exit code 1; warnings do not. The id at the end is
    what apps and shufflers pin.
    """
    checked = _compiled(file, as_json=as_json)
    warnings = lint(
        checked,
        today=datetime.fromtimestamp(wall(), UTC).date(),
        file=file,
        devices=devices,
        min_batch_of=partial(_min_batch, checked),
    )
    if as_json:
        _print_json({"ok": True, "codebook": checked.compiled(), "warnings": [asdict(w) for w in warnings]})
        return
    collection = checked.collection
    click.echo(
        table_or_records(
            [
                {
                    "metric": metric.name if metric.enabled else f"{metric.name} (off)",
                    "type": f"{metric.type}, in {unit}" if (unit := metric.values.shape.unit) else metric.type,
                    "mechanism": metric.mechanism.name,
                    "epsilon": decimal_text(metric.epsilon),
                    "needed": f"{_needed(metric):,}",
                    "id": metric.id.hex()[:8],
                }
                for metric in checked.in_file_order
            ],
        )
    )
    spent = f"epsilon {decimal_text(checked.spent)} of {decimal_text(collection.device_epsilon)}"
    click.echo(wrapped(f"\n{collection.name}: a device spends {spent} in a period of {collection.calendar}"))
    click.echo(f"codebook {checked.id.hex()}")
    _say("warning", warnings)


@codebook.command()
@click.argument("file", type=_FILE)
@_JSON
def show(file: str, as_json: bool) -> None:
    """Print the compiled form of FILE.

    It is what devices and services work from: JSON in any case.
    """
    _print_json(_compiled(file, as_json=as_json).compiled())


@codebook.command("compile")
@click.argument("file", type=_FILE)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("codebook.json"),
    show_default=True,
    help="The file that the aggregator, and apps that ship a codebook, are given.",
)
@_JSON
def compile_command(file: str, out: Path, as_json: bool) -> None:
    """Freeze FILE: decide mechanisms and batch sizes, once.

    What is written will be served byte for byte. No later version of this software changes what a compiled codebook
    means. Review and keep it beside metrics.toml.
    """
    refuse_if_nowhere(out)
    frozen = _compiled(file, as_json=as_json)
    before = _earlier(out)
    write_compiled(frozen, out)
    found = None if before is None else diff(before, frozen)
    if as_json:
        changed = {} if found is None else {"changed": found.document()}
        _print_json({"ok": True, "file": str(out), "id": frozen.id.hex(), **changed})
        return
    click.echo(f"{out}: codebook {frozen.id.hex()}")
    for metric in frozen.in_file_order:
        say(f"{metric.name}: {_decided(metric, frozen.collection)}", first="  ", rest="    ")
    if found is not None:
        say(f"what it held before differs:\n{_rendered(found)}" if found else "as it was before")


@codebook.command()
@click.argument("file", type=_FILE)
@_JSON
def notice(file: str, as_json: bool) -> None:
    """Print FILE in plain words, for the privacy notice of an app.

    The output is Markdown, one section for each metric.
    """
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
    """Show what changes from OLD to NEW: ids, history, budget."""
    found = diff(_compiled(old, as_json=as_json), _compiled(new, as_json=as_json))
    if as_json:
        _print_json({"ok": True, **found.document()})
    else:
        click.echo(_rendered(found))


@codebook.command()
@click.argument("file", type=_FILE)
@STATE
@click.option(
    "--from", "start", metavar="DATE", help="First period it is in force for. Default: the first possible one."
)
@_JSON
def publish(file: str, state_dir: Path, start: str | None, as_json: bool) -> None:
    """Put FILE in force at an aggregator, which may be running.

    A metrics.toml is compiled first.

    A running aggregator signs it into its bundle within a second. FILE takes effect in the first period that begins at
    least two cache lifetimes of the bundle from now, so that every device and the shuffler know it by then. Until then,
    and for reports already on their way, earlier versions hold. Only a metric that FILE switches off (enabled = false)
    stops at once, with the next bundle that devices get. `hubbub codebook off` does that without another codebook.
    """
    from hubbub_aggregator.publication.lead_time import CACHE_LIFETIMES, cache_lifetime

    written = _compiled(file, as_json=as_json)
    if not as_json and not is_compiled(read_file(file)):
        say(f"{file} is compiled: codebook {written.id.hex()}")
    with beside(state_dir) as state:
        before = state.codebooks.newest
        calendar = state.codebooks.collection.calendar
        warn_of_clock(state.storage, now := wall())
        version = state.codebooks.publish(written, now, None if start is None else calendar.boundary(start))
        ahead = duration_text(CACHE_LIFETIMES * cache_lifetime(state.storage, state.max_age))
        period = calendar.period(version.first_period)
        label = period.label
        last = None if version.last_period is None else calendar.period(version.last_period).label
        off = sorted(m.name for m in version.codebook.metrics if not m.enabled)
    if as_json:
        when = {"first_period": label, "last_period": last, "begins": period.start}
        found = {"id": version.codebook.id.hex(), **when, "switched_off": off}
        _print_json({"ok": True, **found, **diff(before, version.codebook).document()})
        return
    click.echo(wrapped(f"codebook {version.codebook.id.hex()} is in force from the period {named(label)} on"))
    if last is not None:
        click.echo(wrapped(f"its last period is {named(last)}: more would be above the total of the codebook"))
    say(f"an edit takes effect at least two cache lifetimes ({ahead}) later, when every device knows it")
    if off:
        click.echo(wrapped(f"switched off at once: {', '.join(off)}"))
    say(_rendered(diff(before, version.codebook)))


@codebook.command()
@click.argument("name")
@STATE
@_JSON
def off(name: str, state_dir: Path, as_json: bool) -> None:
    """Switch the metric NAME off, at once.

    The bundle says so, and the codebook stays what it is. Devices stop with the next bundle that they get, the
    shuffler refuses its reports and discards those that wait. Pinned codebooks need no change.
    """
    _switch(name, state_dir, off=True, as_json=as_json)


@codebook.command()
@click.argument("name")
@STATE
@_JSON
def on(name: str, state_dir: Path, as_json: bool) -> None:
    """Switch the metric NAME on again after `hubbub codebook off`.

    It goes on with the next period.
    """
    _switch(name, state_dir, off=False, as_json=as_json)


def _switch(name: str, state_dir: Path, *, off: bool, as_json: bool) -> None:
    with beside(state_dir) as state:
        changed, all_off = state.codebooks.switch(name, off=off), sorted(state.codebooks.off(wall()))
    if as_json:
        _print_json({"ok": True, "changed": changed, "switched_off": all_off})
        return
    word = "off" if off else "on"
    click.echo(f"{name} is switched {word}" if changed else f"{name} was switched {word} before; nothing was changed")
    if changed:
        say("an aggregator that runs signs it into its bundle within a second")
    if all_off:
        say(f"switched off: {', '.join(all_off)}")


def _decided(metric: Metric, collection: Collection) -> str:
    """What compiling has decided, and what an epsilon that it worked out buys and costs."""
    said = f"{metric.mechanism.name}, released from {_needed(metric):,} reports on"
    if (what := metric.chosen_for) is None:
        return said
    from hubbub.accounting import guarantee, honest_reports
    from hubbub.accounting.auto_epsilon import half_width, in_unit

    honest = honest_reports(what.reports, collection.honest_fraction)
    reveals = above(guarantee(metric.mechanism, honest, collection.release_delta).epsilon)
    confidence = 0.95 if what.error is None else float(what.confidence)
    error = in_unit(metric.values, half_width(metric.values, metric.mechanism, what.reports, confidence))
    is_cap = " (its cap)" if metric.epsilon == what.cap else ""
    return (
        f"{said}. Worked out: epsilon {decimal_text(metric.epsilon)}{is_cap}, which is what holds if shuffler and "
        f"aggregator collude. From {what.reports:,} reports: {error} at {confidence:.0%}, and a release reveals "
        f"epsilon {reveals}"
    )


def _min_batch(checked: Codebook, metric: Metric) -> int:
    """Reports that the accountant and a shuffler ask for; if no batch suffices, more than there are devices."""
    from hubbub.accounting.codebook_plan import min_batch
    from hubbub_cli.services.default_min_crowd import usual_floor

    try:
        return max(min_batch(metric, checked), usual_floor())
    except InvalidParameter:
        return 10**12


def _needed(metric: Metric) -> int:
    """Fewest reports that are released: those of the codebook, or those that a shuffler waits for in any case."""
    from hubbub_cli.services.default_min_crowd import usual_floor

    return max(metric.min_batch or 0, usual_floor())


def _rendered(found: Diff) -> str:
    """A comparison of codebooks; what a line continues is indented below it."""
    return "\n".join(wrapped(line, rest="  ") for line in found.render().split("\n"))


def _load(file: str, *, as_json: bool) -> Codebook:
    try:
        return read_codebook(file)
    except CodebookError as error:
        _refuse(error.findings, as_json=as_json)


def _compiled(file: str, *, as_json: bool) -> Codebook:
    """The codebook as it would be served."""
    try:
        return compiled(file)
    except CodebookError as error:
        _refuse(error.findings, as_json=as_json)


def _earlier(out: Path) -> Codebook | None:
    """What a file held that is to be replaced, if it was a codebook."""
    with suppress(CodebookError):
        return Codebook.load(out)
    return None


def _refuse(findings: Sequence[Finding], *, as_json: bool) -> NoReturn:
    if as_json:
        _print_json({"ok": False, "errors": [asdict(finding) for finding in findings]})
    else:
        _say("error", findings)
    sys.exit(1)


def _say(severity: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        place = f"{finding.file}: {finding.key}" if finding.key else finding.file
        say(f"{severity}: {place}: {finding.problem}", rest="  ")
        say(finding.fix, first="  fix: ", rest="       ")


def _print_json(document: object) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
