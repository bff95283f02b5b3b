"""`hubbub privacy`: the guarantee of one or more batches, for a mechanism named on the command line."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from hubbub.mechanisms import Bounds, Categories, mechanism, registered
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.table import table
from hubbub_cli.terminal.wrapped_text import say

if TYPE_CHECKING:
    from hubbub.accounting import Randomizer


@click.command()
@click.option(
    "--mechanism",
    "name",
    type=click.Choice(sorted(registered())),
    metavar="NAME",
    help="One of `hubbub mechanisms`.",
)
@click.option("--any", "bare", is_flag=True, help="Any randomizer of this local epsilon, instead of a mechanism.")
@click.option("--epsilon", required=True, help="Local epsilon of one report.")
@click.option("--size", type=int, help="Number of values (krr, matrix).")
@click.option("--steps", type=int, help="Grid steps (laplace, piecewise, hybrid). Default: as calibrated.")
@click.option("--matrix", help="Rows of probabilities as JSON (matrix).")
@click.option("--reports", type=click.IntRange(min=1), required=True, help="Honest reports in the batch.")
@click.option("--delta", type=click.FloatRange(0, 1), default=1e-8, show_default=True, help="Delta of the guarantee.")
@click.option(
    "--times",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of such batches that one device takes part in.",
)
@click.option(
    "--dishonest",
    type=click.IntRange(min=0),
    multiple=True,
    help="Also show the guarantee if this many of the reports are dishonest; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def privacy(
    name: str | None,
    bare: bool,
    epsilon: str,
    size: int | None,
    steps: int | None,
    matrix: str | None,
    reports: int,
    delta: float,
    times: int,
    dishonest: tuple[int, ...],
    as_json: bool,
) -> None:
    """Print the certified (epsilon, delta) of a shuffled batch.

    It is an upper bound on what one device's report reveals while shuffler and aggregator do not collude. If they do,
    the local epsilon still holds. Also prints how the bound was found, and what it assumes.
    """
    from hubbub.accounting import compose, guarantee, guarantee_curve

    built = _build(name, bare, epsilon, size, steps, matrix)
    found = guarantee(built, reports, delta)
    answer: dict[str, Any] = {"mechanism": built.name, **asdict(found), "amplified": found.amplified}
    if times > 1:
        answer["composed"] = asdict(compose([(built, reports, times)], delta))
    if dishonest:
        curve = guarantee_curve(built, reports, delta, dishonest)
        answer["curve"] = [
            {"dishonest": bad, "honest": one.reports, "epsilon": one.epsilon, "method": one.method}
            for bad, one in zip(dishonest, curve, strict=True)
        ]
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    rows = [["one batch", above(found.epsilon, 6), f"{delta:g}", f"{reports:,}", found.method]]
    if times > 1:
        composed = answer["composed"]
        rows.append(
            [f"{times} batches", above(composed["epsilon"], 6), f"{delta:g}", f"{reports:,}", composed["method"]]
        )
    rows += [
        [f"{row['dishonest']:,} dishonest", above(row["epsilon"], 6), f"{delta:g}", f"{row['honest']:,}", row["method"]]
        for row in answer.get("curve", [])
    ]
    rows.append(["if they collude", above(found.local_epsilon * times, 6), "0", "1", "local"])
    click.echo(table(["for", "epsilon", "delta", "honest reports", "method"], rows))
    if not found.amplified:
        click.echo("\nShuffling adds nothing at this size.\nUse more reports, or a smaller local epsilon.")
    say("\nAssumes that:")
    for line in found.assumptions or ["nothing"]:
        say(line, first="- ", rest="  ")


def _build(
    name: str | None, bare: bool, epsilon: str, size: int | None, steps: int | None, matrix: str | None
) -> Randomizer:
    """The randomizer that the options describe."""
    from hubbub.accounting import AnyRandomizer

    if bare == (name is not None):
        raise click.UsageError("give either --mechanism NAME or --any")
    if name is None:
        return AnyRandomizer(epsilon)
    cls = mechanism(name)
    options: dict[str, Any] = {}
    if steps is not None:
        options["steps"] = steps
    if matrix is not None:
        try:
            options["matrix"] = json.loads(matrix, parse_float=str)
        except json.JSONDecodeError as error:
            raise click.BadParameter(f"not JSON: {error}", param_hint="--matrix") from error
        size = size or (
            len(options["matrix"][0]) if options["matrix"] and isinstance(options["matrix"][0], list) else None
        )
    numbers = Bounds(Fraction(0), Fraction(1))
    if cls.fits(numbers):
        return cls.calibrate(epsilon, numbers, **options)
    if not cls.fits(Categories(3)):
        size = 2
    if size is None:
        raise click.UsageError(f"{name} needs --size, the number of values")
    return cls.calibrate(epsilon, Categories(size), **options)
