"""`hubbub query`: estimates of a metric in the terminal, with their intervals and what they cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import click

from hubbub_cli.api_client import Refusal, explained
from hubbub_cli.services.own_command import own_command
from hubbub_cli.terminal import distributions, estimate_bars, estimates
from hubbub_cli.terminal.wrapped_text import say
from hubbub_query import Comparison, Estimate, MetricList, NothingReleased, NumberDistribution, Query, Series
from hubbub_query.query import ADDRESS, path
from hubbub_query.read_json import read

_LINES = 3
"""Most values that are shown over time."""


@click.command()
@click.argument("metric", required=False)
@click.option("--address", default=ADDRESS, show_default=True, envvar="HUBBUB_ADDRESS", help="The aggregator.")
@click.option("--token", envvar="HUBBUB_TOKEN", help="Analyst token, if one is set. Better given in HUBBUB_TOKEN.")
@click.option("--from", "since", metavar="DATE", help="First period, as an ISO date or date-time.")
@click.option("--to", "until", metavar="DATE", help="End of the range; a period that starts then is left out.")
@click.option("--series", "as_series", is_flag=True, help="One estimate for each period, with the gaps.")
@click.option(
    "--compare",
    "ranges",
    nargs=2,
    metavar="A B",
    help="Two ranges, each FROM..TO: how B differs from A, and whether noise alone could explain it.",
)
@click.option(
    "--top",
    type=click.IntRange(1, 65_536),
    help="Only this many values, the largest first; the intervals still hold for all values at once. "
    f"[default: {estimates.ROWS} of a longer list]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Chance that an interval holds the truth.",
)
@click.option(
    "--postprocess",
    type=click.Choice(["none", "norm_sub", "base_cut", "clip", "projected"]),
    default="none",
    show_default=True,
    help="Make raw estimates presentable; the answer says how.",
)
@click.option("--quantiles", metavar="Q,Q", help="Of a number in bins: quantiles, such as 0.5,0.99.")
@click.option("--ranges", "shares", metavar="A..B", help="Of a number in bins: shares of ranges, with commas.")
@click.option("--before", metavar="RANGE", help="Of a number in bins: periods FROM..TO since which quantiles moved.")
@click.option("--csv", "as_csv", is_flag=True, help="Print a table for other programs, one row per value.")
@click.option("--json", "as_json", is_flag=True, help="Print the aggregator's answer, as JSON.")
def query(
    metric: str | None,
    address: str,
    token: str | None,
    since: str | None,
    until: str | None,
    as_series: bool,
    ranges: tuple[str, str] | None,
    top: int | None,
    confidence: float,
    postprocess: str,
    quantiles: str | None,
    shares: str | None,
    before: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Print the estimates of METRIC, or list all metrics.

    \b
    hubbub query theme
    hubbub query theme --from 2027-01-01 --to 2027-02-01 --top 5
    hubbub query theme --series
    hubbub query theme --compare 2027-01-01..2027-01-08 2027-01-08..2027-01-15
    hubbub query startup --quantiles 0.5,0.99 --ranges 0..200,200..500 --csv

    A bar is solid up to the lower limit, lighter up to the estimate and lightest up to the upper limit. A long curve is
    printed in steps, a wide grid in several tables. --csv and --json print all values, unless --top is given.
    """
    _refuse_bins_elsewhere(metric if not (as_series or ranges) else None, quantiles, shares, before)
    _refuse_contradictions(metric, since, until, as_series, ranges, postprocess, as_csv, as_json)
    client = Query(address, token=token)
    with explained(token):
        if metric is None:
            _list(client, as_csv=as_csv, as_json=as_json)
            return
        kind = "compare" if ranges else "series" if as_series else "estimate"
        of_bins = {"quantiles": quantiles, "ranges": shares} | _since(before)
        about = {"confidence": str(confidence), "from": since, "to": until} | of_bins
        if any(of_bins.values()) and (as_csv or as_json):
            where = path(metric, "distribution")
            if as_csv:
                click.echo(client.get(where, about, accept="text/csv"), nl=False)
            else:
                click.echo(json.dumps(client.json(where, about), indent=2))
            return
        asked: dict[str, str | None] = {"confidence": str(confidence), "top": None if top is None else str(top)}
        asked |= _sides(ranges) if ranges else {"from": since, "to": until, "postprocess": postprocess}
        if top is None and not (as_csv or as_json):
            asked |= _fitting(client.metrics(), metric, kind)
        if as_csv:
            click.echo(client.get(path(metric, kind), asked, accept="text/csv"), nl=False)
            return
        try:
            answer = client.json(path(metric, kind), asked)
        except NothingReleased as nothing:
            if kind == "series":
                raise  # it has said why, and there is nothing more to see
            hint = f"\nTry `{_series(metric, address)}`: it shows the state of each period."
            raise Refusal(str(nothing) + hint, nothing.name) from nothing
        _refuse_without_bins(metric, answer, of_bins)
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        elif kind == "estimate" and _has_bins(answer):
            shown = read(Estimate, answer)
            more = ",".join(filter(None, [shares, *distributions.groups(shown.newest)]))
            found = read(NumberDistribution, client.json(path(metric, "distribution"), about | {"ranges": more}))
            estimate_bars.echo(estimates.estimate(distributions.grouped(shown, found)))
            estimate_bars.echo("\n" + distributions.in_words(found, shares))
        else:
            estimate_bars.echo(_SHOWN[kind](answer))


_SHOWN: dict[str, Callable[[Any], str]] = {
    "estimate": lambda answer: estimates.estimate(read(Estimate, answer)),
    "series": lambda answer: estimates.course(read(Series, answer)),
    "compare": lambda answer: estimates.comparison(read(Comparison, answer)),
}


def _has_bins(answer: Any) -> bool:
    return any(axis["edges"] for axis in answer["segments"][-1]["axes"])


def _refuse_bins_elsewhere(metric: str | None, *asked: str | None) -> None:
    if any(asked) and metric is None:
        raise click.UsageError("--quantiles, --ranges and --before take a METRIC without --series and --compare")


def _refuse_without_bins(metric: str, answer: Any, of_bins: dict[str, str | None]) -> None:
    if any(of_bins.values()) and not _has_bins(answer):
        said = f"{metric} is no number in bins: leave out --quantiles, --ranges and --before"
        raise Refusal(said, "invalid-query")


def _since(before: str | None) -> dict[str, str | None]:
    if before is None:
        return {}
    start, dots, end = before.partition("..")
    if not (start and dots and end):
        raise click.UsageError(f"{before!r} is not a range: write it FROM..TO, like 2027-01-01..2027-01-08")
    return {"before_from": start, "before_to": end}


def _series(metric: str, address: str) -> str:
    """The command that shows the periods of this metric, so that it works when it is pasted."""
    context = click.get_current_context()
    is_typed = context.get_parameter_source("address") is click.core.ParameterSource.COMMANDLINE
    return f"{own_command()} query {metric} --series{f' --address {address}' if is_typed else ''}"


def _list(client: Query, *, as_csv: bool, as_json: bool) -> None:
    if as_csv:
        click.echo(client.get("/v1/metrics", accept="text/csv"), nl=False)
        return
    answer = client.json("/v1/metrics")
    listed = read(MetricList, answer)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    estimate_bars.echo(estimates.listing(listed))
    if not any(version.released_periods for one in listed.metrics for version in one.versions):
        say(f"\n{estimates.empty(listed.metrics)}")


def _refuse_contradictions(
    metric: str | None,
    since: str | None,
    until: str | None,
    as_series: bool,
    ranges: tuple[str, str] | None,
    postprocess: str,
    as_csv: bool,
    as_json: bool,
) -> None:
    if as_csv and as_json:
        raise click.UsageError("give either --csv or --json")
    if metric is None and (as_series or ranges or since or until):
        raise click.UsageError("name a METRIC; `hubbub query` alone lists them")
    if ranges and (as_series or since or until):
        raise click.UsageError("--compare has its own ranges: leave out --series, --from and --to")
    if ranges and postprocess != "none":
        raise click.UsageError("--compare takes raw estimates, which are unbiased: leave out --postprocess")


def _sides(ranges: tuple[str, str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for side, text in zip("ab", ranges, strict=True):
        start, dots, end = text.partition("..")
        if not (start and dots and end):
            raise click.UsageError(f"{text!r} is not a range: write it FROM..TO, like 2027-01-01..2027-01-08")
        found |= {f"{side}_from": start, f"{side}_to": end}
    return found


def _fitting(listed: MetricList, metric: str, kind: str) -> dict[str, str]:
    """Parameters that make the answer fit a screen.

    Curves, grids and groups are asked for whole, since gaps in them would mislead. There are two exceptions: in a
    series the leading value stands for all, and a comparison lists only the largest changes, except of a curve.
    """
    versions = [version for one in listed.metrics if one.name == metric for version in one.versions]
    if kind == "series":
        led = [one.value_count for one in versions if one.headline.label is not None]
        rest = [one.value_count for one in versions if one.headline.label is None]
        return ({"headline": "true"} if max(led, default=0) > _LINES else {}) | _top(rest, _LINES)
    if any(one.shape == "curve" or (one.axes and kind == "estimate") for one in versions):
        return {}
    return _top([one.value_count for one in versions], estimates.ROWS)


def _top(sizes: Sequence[int], most: int) -> dict[str, str]:
    return {"top": str(most)} if max(sizes, default=0) > most else {}
