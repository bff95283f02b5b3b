"""`hubbub privacy`: the guarantee of one or more batches, for a mechanism named on the command line."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Bounds, Categories, mechanism, registered
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.table import table
from hubbub_cli.terminal.wrapped_text import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hubbub.accounting import PrivacyCurve, Randomizer


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
@click.option(
    "--share",
    help="Also show what a private coin hides: with this chance a device reports. Then --reports is the fewest honest "
    "reports that are released.",
)
@click.option(
    "--group",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Also show the guarantee for this many devices together.",
)
@click.option("--curve", "as_curve", is_flag=True, help="Print delta at each epsilon, as CSV; JSON with --json.")
@click.option(
    "--errors",
    "as_errors",
    is_flag=True,
    help="Print the least errors of any test that tells two values apart, as CSV; JSON with --json.",
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
    share: str | None,
    group: int,
    as_curve: bool,
    as_errors: bool,
    as_json: bool,
) -> None:
    """Print the certified (epsilon, delta) of a shuffled batch.

    It is an upper bound on what one device's report reveals while shuffler and aggregator do not collude. If they do,
    the local epsilon still holds. Also prints how the bound was found, and what it assumes.
    """
    from hubbub.accounting import PrivacyCurve, compose, guarantee, guarantee_curve, share_credit

    if as_curve and as_errors:
        raise click.UsageError("give either --curve or --errors")
    built = _build(name, bare, epsilon, size, steps, matrix)
    together = PrivacyCurve(((built, reports, times),), devices=group)
    if as_curve or as_errors:
        _print_points(together, as_errors, as_json)
        return
    found = guarantee(built, reports, delta)
    answer: dict[str, Any] = {"mechanism": built.name, **asdict(found), "amplified": found.amplified}
    rows: list[tuple[str, float, int, str]] = [("one batch", found.epsilon, reports, found.method)]
    if times > 1:
        composed = compose([(built, reports, times)], delta)
        answer["composed"] = asdict(composed)
        rows.append((f"{times} batches", composed.epsilon, reports, composed.method))
    if group > 1:
        answer["group"] = {"devices": group, "epsilon": together.epsilon(delta), "delta": delta}
        answer["group"]["local_epsilon"] = together.local_epsilon
        rows.append((f"{group} devices together", answer["group"]["epsilon"], reports, "group"))
    credit = None if share is None else share_credit(built, _share(share), reports, delta)
    if credit is not None:
        answer["share_credit"] = {**asdict(credit), "share": float(credit.share), "failure": float(credit.failure)}
        rows.append((f"share {share}, hidden", credit.epsilon, reports, "share"))
    if dishonest:
        curve = guarantee_curve(built, reports, delta, dishonest)
        answer["curve"] = [
            {"dishonest": bad, "honest": one.reports, "epsilon": one.epsilon, "method": one.method}
            for bad, one in zip(dishonest, curve, strict=True)
        ]
        rows += [
            (f"{bad:,} dishonest", one.epsilon, one.reports, one.method)
            for bad, one in zip(dishonest, curve, strict=True)
        ]
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    cells = [[what, above(epsilon, 6), f"{delta:g}", f"{honest:,}", method] for what, epsilon, honest, method in rows]
    cells.append(["if they collude", above(found.local_epsilon * times, 6), "0", "1", "local"])
    if group > 1:
        cells.append([f"{group} devices, if so", above(together.local_epsilon, 6), "0", "1", "local"])
    click.echo(table(["for", "epsilon", "delta", "honest reports", "method"], cells))
    if not found.amplified:
        click.echo("\nShuffling adds nothing at this size.\nUse more reports, or a smaller local epsilon.")
    _assumes("\nAssumes that:", found.assumptions or ("nothing",))
    if credit is not None:
        _assumes("\nWith the share hidden, also that:", credit.assumptions)


def _assumes(title: str, lines: Iterable[str]) -> None:
    say(title)
    for line in lines:
        say(line, first="- ", rest="  ")


def _print_points(curve: PrivacyCurve, as_errors: bool, as_json: bool) -> None:
    """The curve, or the errors that follow from it."""
    names = ("type_1_error", "least_type_2_error") if as_errors else ("epsilon", "delta")
    points = curve.errors() if as_errors else curve.points()
    if as_json:
        click.echo(json.dumps([dict(zip(names, point, strict=True)) for point in points], indent=2))
        return
    click.echo(",".join(names))
    for one, other in points:
        click.echo(f"{one!r},{other!r}")


def _share(text: str) -> Fraction:
    from hubbub.mechanisms._exact_arithmetic import exact_number

    try:
        share = exact_number(text, "share")
    except InvalidParameter as error:
        raise click.BadParameter(str(error), param_hint="--share") from error
    if not 0 < share <= 1:
        raise click.BadParameter("expected a number above 0 and at most 1, such as 0.1", param_hint="--share")
    return share


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
