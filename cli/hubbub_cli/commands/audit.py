"""`hubbub audit`: attacks on the privacy claims of the installed code."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hubbub.mechanisms import registered
from hubbub_cli.compile_codebook import read_codebook
from hubbub_cli.terminal.table import table
from hubbub_cli.terminal.wrapped_text import say
from hubbub_service_common.process.clock_and_entropy import wall

if TYPE_CHECKING:
    from hubbub_audit.findings import Attack, Finding
    from hubbub_audit.plan import Audit, Plan
    from hubbub_audit.report import Run

FEWEST = 1_000
BEATEN, WEAK = 1, 3


@click.command()
@click.option(
    "--mechanism",
    "names",
    multiple=True,
    type=click.Choice(sorted(registered())),
    metavar="NAME",
    help="Audit only this mechanism; may be given several times. Default: all that `hubbub mechanisms` lists.",
)
@click.option(
    "--epsilon",
    "epsilons",
    multiple=True,
    type=click.FloatRange(0.0001, 30),
    help="Local epsilon of single reports; may be given several times. Default: 0.5, 1 and 4.",
)
@click.option(
    "--codebook",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Audit the metrics of this codebook instead, as they are collected.",
)
@click.option(
    "--trials",
    default=100_000,
    show_default=True,
    type=click.IntRange(min=FEWEST),
    help="Reports per input. Batches and devices, which cost more, are fewer in proportion.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="number of processors",
    help="Attacks to run at the same time.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Also write a report, as one HTML page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
@click.option("--self-test", is_flag=True, help="Plant known bugs one by one, and show that the audit catches each.")
@click.option("--plant", "plants", multiple=True, help="With --self-test: plant only the bug of this name.")
def audit(
    names: tuple[str, ...],
    epsilons: tuple[float, ...],
    codebook: Path | None,
    trials: int,
    jobs: int,
    out: Path | None,
    as_json: bool,
    self_test: bool,
    plants: tuple[str, ...],
) -> None:
    """Attack the privacy claims of the code installed here.

    Attacks single reports, all outcomes of small randomizers, batches out of a real shuffler, devices over time,
    lengths, times, logs and fakes, and prints what each attack proves. Takes some minutes. Exit code 0: every claim
    holds. 1: a claim is beaten. 3: none is beaten, but some attack was too weak to tell (raise --trials).

    For honest code, at most one audit in a million raises a false alarm.
    """
    if plants and not self_test:
        raise click.UsageError("--plant needs --self-test: bugs are planted only to see them caught")
    if codebook is not None and (names or epsilons):
        raise click.UsageError("--codebook names the mechanisms and epsilons: leave out --mechanism and --epsilon")
    if out is not None and not os.access(out if out.exists() else out.parent, os.W_OK):
        raise click.BadParameter(f"{out} cannot be written", param_hint="--out")  # before the audit, not minutes later
    if self_test:
        _self_test(plants, trials, as_json=as_json)
        return
    from hubbub_audit.plan import Plan
    from hubbub_audit.report import Run, document, html

    plan = Plan(names, epsilons, trials, None if codebook is None else read_codebook(codebook).to_bytes())
    what = f"codebook {codebook.name}" if codebook else ", ".join(names) or "all mechanisms"
    started = wall()
    found = _watched(plan, jobs)
    run = Run(started, wall() - started, trials, what)
    if out is not None:
        out.write_text(html(found, run), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(document(found, run), indent=2))
    else:
        click.echo(_rows(found.findings))
    _conclude(found, run, out)


def _watched(plan: Plan, jobs: int) -> Audit:
    """Run the audit, with a bar on stderr."""
    from hubbub_audit.plan import audit as run
    from hubbub_audit.plan import audit_in_processes

    def shown(attack: Attack | None) -> str:
        return "" if attack is None else f"{attack.kind}: {attack.subject}"

    planned = plan.attacks()
    with click.progressbar(length=len(planned), label="attacking", file=sys.stderr, item_show_func=shown) as bar:

        def done(attack: Attack) -> None:
            bar.update(1, attack)

        return run(planned, done) if jobs == 1 else audit_in_processes(plan, jobs, done)


def _rows(findings: tuple[Finding, ...]) -> str:
    from hubbub_audit.report import WORDS, short

    return table(
        ["subject", "attack", "claimed", "observed", "power", "verdict"],
        [
            [one.subject, one.attack, short(one.claimed), short(one.observed), one.power, WORDS[one.verdict]]
            for one in findings
        ],
    )


def _conclude(found: Audit, run: Run, out: Path | None) -> None:
    """The verdict on stderr, so that rows and JSON stay clean; and as the exit code."""
    say(
        f"\n{len(found.findings)} claims, {found.tests} statistical tests at {found.alpha:.2g} each: "
        f"false alarms at most {found.false_alarms:.2g} in all. {run.seconds:.0f} s, "
        "randomness of the operating system, no seed."
    )
    if out is not None:
        say(f"Report written to {out}")
    if found.beaten:
        for finding in found.beaten:
            say(f"BEATEN: {finding.subject}: {finding.claim}; {finding.attack} ({finding.detail})", rest="  ")
        sys.exit(BEATEN)
    if found.weak:
        say(f"No claim was beaten, but {len(found.weak)} attacks were too weak to tell: raise --trials.")
        sys.exit(WEAK)
    say("Every claim holds.")


def _self_test(names: tuple[str, ...], trials: int, *, as_json: bool) -> None:
    from hubbub_audit.planted_bugs import PLANTS, caught

    known = {plant.name: plant for plant in PLANTS}
    if unknown := set(names) - known.keys():
        raise click.BadParameter(
            f"no planted bug is named {unknown.pop()!r}; known: {', '.join(known)}", param_hint="--plant"
        )
    chosen = [plant for plant in PLANTS if not names or plant.name in names]
    rows, listed = [], []
    with click.progressbar(
        chosen, label="planting", file=sys.stderr, item_show_func=lambda p: p.name if p else ""
    ) as bar:
        for plant in bar:
            found = caught(plant, trials)
            by = [finding.attack for finding in found.beaten]
            rows.append([plant.name, plant.what, "caught" if by else "MISSED", "; ".join(by)])
            listed.append({"plant": plant.name, "what": plant.what, "caught": bool(by), "by": by})
    click.echo(
        json.dumps({"plants": listed}, indent=2) if as_json else table(["bug", "what it does", "audit", "by"], rows)
    )
    if not all(one["caught"] for one in listed):
        say("\nThe audit missed a planted bug, so its verdicts on this code prove nothing.")
        sys.exit(BEATEN)
    say(f"\nAll {len(listed)} planted bugs are caught.")
