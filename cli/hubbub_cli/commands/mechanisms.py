"""`hubbub mechanisms`: all mechanisms, with what each costs."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from hubbub.mechanisms import Mechanism, registered
from hubbub_cli.terminal.table import table
from hubbub_cli.terminal.wrapped_text import say


@click.command()
@click.option("--epsilon", default=1.0, show_default=True, help="Local epsilon of one report.")
@click.option("--size", default=4, show_default=True, help="Number of values of a category.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def mechanisms(epsilon: float, size: int, as_json: bool) -> None:
    """List the mechanisms with variance, report size and use.

    Variance is the number of reports times the exact variance: averaged over the values of a uniform population for
    frequencies, the worst case on [-1, 1] for means. "error" is the standard error with 10,000 reports.
    """
    found = [_describe(name, cls, epsilon, size) for name, cls in registered().items()]
    found.sort(key=lambda row: (row["kind"], row["variance"] is None, row["variance"] or 0))
    if as_json:
        click.echo(json.dumps({"epsilon": epsilon, "size": size, "mechanisms": found}, indent=2))
        return
    click.echo(
        table(
            ["mechanism", "estimates", "variance", "bytes", "error", "use it for"],
            [
                [
                    row["name"],
                    row["kind"],
                    "-" if row["variance"] is None else f"{row['variance']:.4g}",
                    "-" if row["report_bytes"] is None else str(row["report_bytes"]),
                    "-" if row["variance"] is None else f"{math.sqrt(row['variance'] / 10_000):.4f}",
                    row["regime"],
                ]
                for row in found
            ],
            wrap=True,
        )
    )
    say(
        f"\nepsilon {epsilon:g}; frequencies over {size} values, means on [-1, 1]; error: standard error of 10,000 "
        "reports. A dash: not applicable."
    )


def _describe(name: str, cls: type[Mechanism[Any]], epsilon: float, size: int) -> dict[str, Any]:
    domain = cls.usual_domain(size)
    built = None if cls.needs_options or domain.estimates not in (1, size) else cls.calibrate(epsilon, domain)
    return {
        "name": name,
        "kind": cls.kind,
        "variance": built.typical_variance() if built else None,
        "report_bytes": built.report_bytes if built else None,
        "realised_epsilon": built.realised_epsilon if built else None,
        "regime": cls.regime,
    }
