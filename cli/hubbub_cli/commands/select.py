"""`hubbub select`: the mechanism that a metric gets if the codebook names none, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import REPORT_BYTES
from hubbub.mechanisms import select as choice_for
from hubbub.metric_types import metric_type, names
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.table import table
from hubbub_cli.terminal.wrapped_text import say

if TYPE_CHECKING:
    from hubbub.accounting.release_choice import ReleaseChoice
    from hubbub.accounting.release_target import Contender
    from hubbub.mechanisms import Candidate, Choice, Domain

_NO_CAP = 30


@click.command()
@click.option("--type", "kind", required=True, help=f"As in a codebook: {', '.join(names())}.")
@click.option("--size", type=int, help="Number of values of a category.")
@click.option("--epsilon", help="Local epsilon of one report: compare mechanisms at this.")
@click.option("--release-epsilon", help="What a release must meet: compare mechanisms at this instead.")
@click.option("--delta", help="With --release-epsilon: its delta, such as 1e-8.")
@click.option("--devices", type=click.IntRange(min=1), help="With --release-epsilon: reports of a release, all honest.")
@click.option("--local-cap", help="With --release-epsilon: the largest local epsilon allowed. Unset: no cap.")
@click.option(
    "--report-bytes",
    type=click.IntRange(min=1),
    default=REPORT_BYTES,
    show_default=True,
    help="Longest payload allowed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def select(
    kind: str,
    size: int | None,
    epsilon: str | None,
    release_epsilon: str | None,
    delta: str | None,
    devices: int | None,
    local_cap: str | None,
    report_bytes: int,
    as_json: bool,
) -> None:
    """Show which mechanism is best, and why.

    Give --epsilon, or a release target and a crowd: --release-epsilon, --delta and --devices.

    With --epsilon, mechanisms are compared at that local epsilon: the lowest variance whose reports are short enough;
    near-ties go to the shorter report. Variance is the number of reports times the exact variance: averaged over the
    values of a uniform population for boolean and category, the worst case on [-1, 1] for mean.

    With a release target, they are compared at equal certificate: each gets the largest local epsilon, up to
    --local-cap, with which the crowd is certified to meet the target, and the least standard error wins: of one share
    at a uniform population, or of a mean over the width of its bounds.
    """
    domain = _domain(kind, size)
    release = {"--release-epsilon": release_epsilon, "--delta": delta, "--devices": devices}
    if epsilon is not None:
        if given := [name for name, value in {**release, "--local-cap": local_cap}.items() if value is not None]:
            raise click.UsageError(f"give either --epsilon or a release target, not both: leave out {given[0]}")
        _show(choice_for(domain, epsilon, report_bytes), as_json=as_json)
        return
    if lacking := [name for name, value in release.items() if value is None]:
        if len(lacking) == len(release):
            raise click.UsageError(f"give --epsilon, or a release target and a crowd: {', '.join(release)}")
        raise click.UsageError(f"a release target also needs {' and '.join(lacking)}")
    _show_release(_for_release(domain, release, local_cap, report_bytes), as_json=as_json)


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


def _for_release(
    domain: Domain, release: dict[str, str | int | None], cap: str | None, report_bytes: int
) -> ReleaseChoice:
    from hubbub.accounting.release_choice import choose_for_release
    from hubbub.accounting.release_target import Target
    from hubbub.mechanisms._exact_arithmetic import exact_number

    epsilon, delta = (exact_number(release[name], name) for name in ("--release-epsilon", "--delta"))
    reports = release["--devices"]
    assert isinstance(reports, int)  # noqa: S101  click has read it; for the type checker
    return choose_for_release(
        domain, Target(epsilon, delta, reports, reports), _NO_CAP if cap is None else cap, report_bytes
    )


def _show(made: Choice, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_document(made), indent=2))
        return
    header = ["", "mechanism", "variance", "of optimum", "bytes", ""]
    click.echo(table(header, [_row(one, made) for one in made.candidates], wrap=True))
    say(f"\n{made.why}")
    say(
        "Compared at equal local epsilon. With --release-epsilon, --delta and --devices, mechanisms are compared by "
        "what a release promises instead, and another one may be best."
    )


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


def _show_release(made: ReleaseChoice, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_release_document(made), indent=2))
        return
    header = ["", "mechanism", "eps0", "error", "bytes", ""]
    click.echo(table(header, [_release_row(one) for one in made.contenders], wrap=True))
    certified = made.certified
    say(
        f"\nA release meets epsilon {above(certified.epsilon)} at delta {certified.delta:g} (certified, "
        f"{certified.method}). If shuffler and aggregator collude, only eps0 holds. The central Gaussian mechanism "
        f"has a standard error of {made.central:.3g} at the same target.\n\n{made.why}"
    )


def _release_document(made: ReleaseChoice) -> dict[str, object]:
    certified = made.certified
    return {
        "mechanism": made.mechanism.name,
        "parameters": made.mechanism.parameters(),
        "epsilon": float(made.mechanism.epsilon),
        "standard_error": made.error,
        "certified": {"epsilon": certified.epsilon, "delta": certified.delta, "method": certified.method},
        "central_gaussian": made.central,
        "local_bound": made.least,
        "why": made.why,
    }


def _release_row(one: Contender) -> list[str]:
    about = "" if one.is_certified else "~"
    return [
        "" if one.against else "*",
        one.title,
        f"{about}{float(one.mechanism.epsilon):.4g}",
        f"{one.error:.3g}",
        f"{one.mechanism.report_bytes:,}",
        one.against or "chosen",
    ]
