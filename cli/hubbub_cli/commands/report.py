"""`hubbub report`: the dashboard as one file that can be sent around and opened by itself."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import click

from hubbub_cli.api_client import exchange, refusal
from hubbub_cli.terminal import output_file
from hubbub_cli.terminal.wrapped_text import say
from hubbub_query.query import ADDRESS

_PATIENCE = 900.0
"""Seconds to wait for an answer: the ledger of a year may have to be composed first, and a report is worth the wait."""


@click.command()
@click.option("--address", default=ADDRESS, show_default=True, envvar="HUBBUB_ADDRESS", help="The aggregator.")
@click.option("--token", envvar="HUBBUB_TOKEN", help="Analyst token, if one is set. Better given in HUBBUB_TOKEN.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="Where to write it; an existing file is replaced.",
)
@click.option("--metric", "only", multiple=True, help="Show only this metric in full; may be given several times.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout: the file and its size.")
def report(address: str, token: str | None, out: Path, only: tuple[str, ...], as_json: bool) -> None:
    """Write what the dashboard shows as one HTML file.

    \b
    hubbub report --out report.html
    hubbub report --metric theme --metric dark_mode --out two.html

    The file has charts, tables, guarantees, and what is collected. It is complete in itself: it makes no request and
    runs no script. It shows what an analyst may see: send it only to people who may see that.
    """
    from hubbub_aggregator.dashboard.api_client import Problem, Question, Reply
    from hubbub_aggregator.dashboard.single_file_report import report as write

    output_file.refuse_if_nowhere(out)

    async def send(question: Question) -> Reply:
        return Reply(*await asyncio.to_thread(exchange, address, question.target, question.headers, _PATIENCE))

    try:
        html = asyncio.run(write(send, f"Bearer {token}" if token else None, _say, only))
    except Problem as problem:
        raise refusal(problem.title, problem.detail, problem.name, token) from problem
    output_file.write(out, html)
    if as_json:
        click.echo(json.dumps({"file": str(out), "bytes": len(html.encode())}, indent=2))
    else:
        click.echo(f"{out}  ({len(html.encode()) / 1000:,.0f} kB; open it in any browser)")


def _say(what: str) -> None:
    say(f"  {what}")
