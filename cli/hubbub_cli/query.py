"""`hubbub query`: estimates of a metric, with their intervals and what they cost, in the terminal."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import click

from hubbub_cli import drawing
from hubbub_cli.asking import ask
from hubbub_cli.table import table

ADDRESS = "http://127.0.0.1:8702"


@click.command()
@click.argument("metric", required=False)
@click.option("--address", default=ADDRESS, show_default=True, envvar="HUBBUB_ADDRESS", help="The aggregator.")
@click.option("--token", envvar="HUBBUB_TOKEN", help="Analyst token, where one is set. Better in HUBBUB_TOKEN.")
@click.option("--from", "since", help="First period, as an ISO date or date-time.")
@click.option("--to", "until", help="End of the range; the period that starts there is left out.")
@click.option(
    "--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95, show_default=True
)
@click.option("--postprocess", type=click.Choice(["none", "norm_sub", "base_cut", "clip"]), default="none")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as it came.")
def query(
    metric: str | None,
    address: str,
    token: str | None,
    since: str | None,
    until: str | None,
    confidence: float,
    postprocess: str,
    as_json: bool,
) -> None:
    """Print the estimates of METRIC; without one, list what there is to ask for."""
    if metric is None:
        answer = ask(address, "/v1/metrics", token=token)
        click.echo(json.dumps(answer, indent=2) if as_json else _listing(answer))
        return
    options = {"from": since, "to": until, "confidence": str(confidence), "postprocess": postprocess}
    answer = ask(address, f"/v1/metrics/{quote(metric, safe='')}/estimate", options, token)
    click.echo(
        json.dumps(answer, indent=2) if as_json else "\n\n".join(_segment(metric, s) for s in answer["segments"])
    )


def _listing(answer: Any) -> str:
    rows = [
        [
            metric["name"],
            metric["versions"][-1]["type"],
            metric["versions"][-1]["mechanism"]["name"],
            str(metric["versions"][-1]["released_periods"]),
            metric["versions"][-1]["last"] or "nothing yet",
        ]
        for metric in answer["metrics"]
    ]
    return table(["metric", "type", "mechanism", "releases", "newest"], rows)


def _segment(metric: str, segment: Any) -> str:
    """One id of the metric: what was found, from how many reports, at what cost."""
    periods = segment["periods"]
    lines = [
        f"{metric}, {periods['from']} to {periods['to']}: {segment['reports']:,} reports "
        f"by {segment['mechanism']['name']}{'' if segment['complete'] else ' (more may still come)'}",
        drawing.estimates(segment["values"], share=segment["type"] != "mean"),
        "",
        f"{segment['interval']['confidence']:.0%} intervals: {segment['interval']['kind']}",
        f"privacy: {drawing.promise(segment['privacy'])}",
    ]
    if segment["postprocess"] != "none":
        lines.append(f"post-processed by {segment['postprocess']}: biased, for display only")
    shift = drawing.number(segment["manipulation"]["per_thousand_fakes"], share=segment["type"] != "mean")
    lines.append(f"if one report in a thousand is made up, an estimate can be off by {shift}")
    if segment["privacy"].get("note"):
        lines.append(segment["privacy"]["note"])
    return "\n".join(lines)
