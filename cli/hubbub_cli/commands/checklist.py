"""`hubbub checklist`: asks for the decisions of a deployment one by one, and writes the release plan."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub_cli.checklist.answers import Answers, template
from hubbub_cli.checklist.interview import interview, say
from hubbub_cli.checklist.plan_figures import Figures, figures, near
from hubbub_cli.checklist.plan_markdown import render
from hubbub_cli.checklist.review import review
from hubbub_cli.compile_codebook import compiled
from hubbub_cli.terminal import output_file
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.table import table
from hubbub_service_common.process.clock_and_entropy import wall

if TYPE_CHECKING:
    from hubbub.codebook import Codebook
    from hubbub_cli.checklist.review import Review

OPEN = 3
"""Exit code of `--strict` when points are open."""
INTERRUPTED = 130
_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("codebook", type=click.Path(dir_okay=False))
@click.option(
    "--out",
    type=_PATH,
    default=Path("release-plan.md"),
    show_default=True,
    help="Where to write the plan, in Markdown. The answers are kept beside it, in a .toml file.",
)
@click.option("--answers", "source", type=_PATH, help="Take the answers from this file and ask nothing.")
@click.option("--all", "again", is_flag=True, help="Ask every question again, not only the open and stale ones.")
@click.option("--strict", is_flag=True, help=f"End with exit code {OPEN} if any point is open.")
@click.option("--template", "as_template", is_flag=True, help="Print an answers file to fill in, and exit.")
@click.option("--json", "as_json", is_flag=True, help="Print figures, open points and warnings as JSON to stdout.")
def checklist(
    codebook: str, out: Path, source: Path | None, again: bool, strict: bool, as_template: bool, as_json: bool
) -> None:
    """Go through the decisions that CODEBOOK needs, and record them.

    Do this before anything is collected. It asks about the unit of privacy, who runs which service, where bounds and
    values come from, the honest fraction, epsilon and delta, the budget over a year, audience and stakeholders, and
    what is not protected; works out the figures that follow; and writes a release plan. Run it again when the codebook
    has changed: it then asks only what the change affects and what is still open.

    \b
    hubbub checklist metrics.toml                        ask, in a terminal
    hubbub checklist metrics.toml --template > plan.toml
    hubbub checklist metrics.toml --answers plan.toml --strict

    The last one is for CI: it asks nothing, and fails while a point is open or the codebook has changed in something
    that an answer was about.
    """
    loaded = compiled(codebook)  # its id is the one that is served
    if as_template:
        click.echo(template(loaded, f"hubbub checklist {shlex.quote(codebook)} --answers THIS-FILE"), nl=False)
        return
    output_file.refuse_if_nowhere(out)
    if out.suffix == ".toml":
        raise click.UsageError(f"{out} would be both the plan and its answers: give a name that ends in .md")
    worked = _Worked(loaded)
    if source is not None:
        answers = Answers.load(source, loaded)
    elif as_json or not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask in: give --answers FILE; --template prints one to fill in")
    else:
        answers = _interviewed(loaded, codebook, out, worked, again=again)
    found = review(loaded, answers, worked.of(answers), today=_today(), file=codebook)
    output_file.write(out, render(found, codebook))
    if as_json:
        click.echo(json.dumps(_document(found), indent=2, ensure_ascii=False))
    else:
        _summary(found, out)
    if strict and not found.complete:
        sys.exit(OPEN)


class _Worked:
    """Figures of the plan. Worked out when first needed, and again when the number of devices changes."""

    def __init__(self, codebook: Codebook) -> None:
        self._codebook = codebook
        self._made: Figures | None = None

    def of(self, answers: Answers) -> Figures | None:
        devices = answers.given.get("devices")
        if not isinstance(devices, int):
            return None
        if self._made is None or self._made.plan.devices != devices:
            click.echo("working out batch sizes and guarantees ...", err=True)
            self._made = figures(self._codebook, devices)
        return self._made


def _interviewed(loaded: Codebook, codebook: str, out: Path, worked: _Worked, *, again: bool) -> Answers:
    kept = out.with_suffix(".toml")
    answers = Answers.load(kept, loaded) if kept.exists() else Answers()
    if answers.codebook and answers.codebook != loaded.id.hex():
        say(f"The codebook has changed since {kept} was written. Questions that the change affects are asked again.")
    conflicts = review(loaded, answers, worked.of(answers), today=_today(), file=codebook).conflicts
    command = f"hubbub checklist {shlex.quote(codebook)} --out {shlex.quote(str(out))}"

    def show(section: str) -> str:
        made = worked.of(answers) if section in {"parameters", "year"} else None
        return "" if made is None else _by_metric(made) if section == "parameters" else _in_all(made)

    try:
        interview(loaded, answers, lambda: answers.save(kept, loaded, command), show, conflicts, again=again)
    except (click.Abort, KeyboardInterrupt, EOFError):
        click.echo()
        say(f"Stopped. Your answers are in {kept}; run the same command to continue." if kept.exists() else "Stopped.")
        sys.exit(INTERRUPTED)
    answers.save(kept, loaded, command)
    return answers


def _today() -> date:
    return datetime.fromtimestamp(wall(), UTC).date()


def _by_metric(made: Figures) -> str:
    """The figures that the questions on epsilon and delta are about, narrow enough for a terminal."""
    rows = [
        [
            one.metric.name,
            f"{one.min_batch:,}" if one.min_batch else "-",
            near(one.stderr),
            above(one.guarantee.epsilon) if one.released and one.guarantee else "-",
            above(one.composed.epsilon) if one.released and one.composed else "-",
            above(float(one.metric.epsilon)),
        ]
        for one in made.plan.metrics
    ]
    shown = table(["metric", "min batch", "stderr", "eps, period", "eps, year", "local eps"], rows)
    return f"{shown}\n\neps: shuffle guarantee at delta {made.delta:g}. A dash: nothing would be released."


def _in_all(made: Figures) -> str:
    """The figures of one device over all metrics."""
    period, year = made.plan.device_period, made.plan.device_total
    rows = [
        ["a period", above(period.epsilon) if period else "-", above(made.local_period, 6)],
        [f"a year ({made.periods:,} periods)", above(year.epsilon) if year else "-", above(made.local_year, 6)],
    ]
    shown = table(["one device, all metrics, in", f"eps at delta {made.delta:g}", "local eps"], rows)
    return f"{shown}\n\nThe local eps holds even if the services collude, or one party runs both."


def _summary(found: Review, out: Path) -> None:
    click.echo()
    if found.moved:
        say(
            "The answers were given for another version of the codebook. Those that the change affects are open points."
        )
    for point in found.points:
        say(f"! {point.key}, {point.kind}: {point.text}")
    if found.warnings:
        say(f"{len(found.warnings)} warning(s) about the codebook: see the plan, or `hubbub codebook check`.")
    if found.complete:
        click.echo(f"{out}: complete")
    else:
        click.echo(f"{out}: {len(found.points)} OPEN point(s)")


def _document(found: Review) -> dict[str, object]:
    return {
        "codebook": found.codebook.id.hex(),
        "collection": found.codebook.collection.name,
        "complete": found.complete,
        "answered_for": found.answers.codebook or None,
        "open": [asdict(point) for point in found.points],
        "warnings": [asdict(one) for one in found.warnings],
        "figures": found.figures.document() if found.figures else None,
    }
