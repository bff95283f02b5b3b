"""`hubbub select`: the mechanism that a metric gets if the codebook names none, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import REPORT_BYTES
from hubbub.mechanisms import select as choice_for
from hubbub.metric_types import metric_type, names
from hubbub_cli.terminal.table import table
from hubbub_cli.terminal.wrapped_text import say

if TYPE_CHECKING:
    from hubbub.mechanisms import Candidate, Choice, Domain


@click.command()
@click.option("--type", "kind", required=True, help=f"As in a codebook: {', '.join(names())}.")
@click.option("--size", type=int, help="Number of values of a category.")
@click.option("--epsilon", required=True, help="Local epsilon of one report.")
@click.option(
    "--report-bytes",
    type=click.IntRange(min=1),
    default=REPORT_BYTES,
    show_default=True,
    help="Longest payload allowed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def select(kind: str, size: int | None, epsilon: str, report_bytes: int, as_json: bool) -> None:
    """Show which mechanism a codebook chooses, and why.

    It chooses the lowest variance whose reports are short enough; near-ties go to the shorter report. Variance is the
    number of reports times the exact variance: averaged over the values of a uniform population for boolean and
    category, the worst case on [-1, 1] for mean.
    """
    made = choice_for(_domain(kind, size), epsilon, report_bytes)
    if as_json:
        click.echo(json.dumps(_document(made), indent=2))
        return
    header = ["", "mechanism", "variance", "of optimum", "bytes", ""]
    click.echo(table(header, [_row(one, made) for one in made.candidates], wrap=True))
    say(f"\n{made.why}")


def _domain(kind: str, size: int | None) -> Domain:
    try:
        found = metric_type(kind)
    except InvalidParameter as error:
        raise click.BadParameter(str(error), param_hint="--type") from error
    try:
        return found.of_size(size).domain
    except InvalidParameter as error:
        if size is None:
            raise click.UsageError(str(error)) from error
        raise click.BadParameter(str(error), param_hint="--size") from error


def _document(made: Choice) -> dict[str, object]:
    return {
        "mechanism": made.mechanism.name,
        "parameters": made.mechanism.parameters(),
        "variance": made.variance,
        "report_bytes": made.mechanism.report_bytes,
        "why": made.why,
    }


def _row(one: Candidate, made: Choice) -> list[str]:
    return [
        "" if one.against else "*",
        one.name,
        "-" if one.variance is None else f"{one.variance:.4g}",
        "-" if one.variance is None or made.optimum is None else f"{one.variance / made.optimum:.2f}",
        "-" if one.report_bytes is None else f"{one.report_bytes:,}",
        one.against or "chosen",
    ]
