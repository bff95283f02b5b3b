"""Figures of a load run: as JSON, in the terminal, and as one row of docs/performance.md."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import click

from benchmarks.load.plan import Plan
from benchmarks.load.receipts import Receipts
from benchmarks.load.reckoning import Reckoning
from benchmarks.load.tally import Tally
from benchmarks.machine import machine
from benchmarks.pages import PAGE, renew

__all__ = ["Figures", "print_summary", "write_page"]

WINDOW = 10
"""Seconds over which the lowest rate is measured."""
HEAD = [
    "run",
    "reports/s",
    "lowest 10 s",
    "uploads p50, p99 ms",
    "queries p50, p99 ms",
    "acknowledged",
    "lost",
    "doubled",
    "refused",
]
CPU_HEAD = ["run", "command, date", "shuffler", "aggregator", "Redis", "Locust"]
BUSY = 0.5
"""Share of a core that is used in the figure of reports per day: the rest is for the busy hour."""
SIZE_HEAD = ["process", "CPU-seconds per 1,000 reports", "reports/s on a core", "reports/day on a core, half busy"]


@dataclass(frozen=True)
class Figures:
    """All figures of one run."""

    document: dict[str, Any]

    @classmethod
    def of(
        cls,
        plan: Plan,
        *,
        keeper: str,
        when: str,
        seconds: float,
        cpu_under_load: Mapping[str, float],
        cpu: Mapping[str, float],
        tally: Tally,
        times: Mapping[str, Any],
        receipts: Receipts,
        reckoning: Reckoning,
        invalid: Mapping[str, int],
        outage: Sequence[Mapping[str, Any]],
        troubles: Sequence[str],
    ) -> Self:
        taken = reckoning.acknowledged
        thousands = max(taken, 1) / 1000
        document = {
            "when": when,
            "machine": machine(),
            "command": f"make load USERS={plan.users} MINUTES={plan.seconds / 60:g} STORAGE={plan.storage} "
            f"SHAPE={plan.shape} RATE={plan.rate}",
            "plan": asdict(plan),
            "keeper": keeper,
            "seconds": round(seconds, 1),
            "reports_per_second": round(taken / plan.seconds),
            "lowest_ten_seconds": lowest(tally),
            "times": times,
            "uploads": tally.uploads,
            "retries": tally.retries,
            "repeated_on_purpose": tally.repeated,
            "hung_up": tally.hung_up,
            "unreachable": tally.unreachable,
            "sold_out": tally.sold_out,
            "refused_reports": dict(tally.refused),
            "junk": dict(tally.junk),
            "twins_acknowledged": receipts.twins,
            "garbage": dict(receipts.garbage),
            "invalid_at_aggregator": dict(invalid),
            "faults": dict(tally.faults),
            "outages": list(outage),
            "reckoning": reckoning.document(),
            "cpu": {
                part: {
                    "cores_under_load": round(cpu_under_load[part] / seconds, 2),
                    "seconds": round(cpu[part], 1),
                    "seconds_per_thousand_reports": round(cpu[part] / thousands, 4),
                }
                for part in cpu
            },
            "troubles": list(troubles) + ([] if taken else ["nothing was acknowledged"]),
        }
        document["passed"] = reckoning.holds and not tally.faults and not document["troubles"]
        return cls(document)

    @property
    def passed(self) -> bool:
        return bool(self.document["passed"])

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.document, indent=2) + "\n")

    def row(self) -> list[str]:
        """One line of the table in docs/performance.md."""
        kept, plan, reckoning = self.document, self.document["plan"], self.document["reckoning"]
        refused = ", ".join(f"{name} {count:,}" for name, count in sorted(kept["refused_reports"].items()))
        return [
            f"{plan['storage']}, {plan['shape']}",
            f"{kept['reports_per_second']:,}",
            f"{kept['lowest_ten_seconds']:,}",
            _times(kept["times"], "uploads"),
            _times(kept["times"], "queries"),
            f"{reckoning['acknowledged']:,}",
            f"{reckoning['lost']:,}",
            f"{reckoning['doubled']:,}",
            refused or "none",
        ]

    def cpu_row(self) -> list[str]:
        """CPU of each process, as a line of the second table."""
        kept, plan = self.document, self.document["plan"]
        parts = [_cores(kept["cpu"][part]) for part in ("shuffler", "aggregator", "redis", "locust")]
        return [f"{plan['storage']}, {plan['shape']}", f"`{kept['command']}`, {kept['when']}", *parts]


def lowest(tally: Tally) -> int:
    """Reports per second in the worst ten seconds between the first and the last acknowledgement."""
    if not tally.taken:
        return 0
    first, last = min(tally.taken), max(tally.taken)
    starts = range(first, max(first + 1, last - WINDOW + 1))
    return min(round(sum(tally.taken[at + i] for i in range(WINDOW)) / WINDOW) for at in starts)


def _times(times: Mapping[str, Any], kind: str) -> str:
    found = times.get(kind)
    return f"{found['p50_ms']:.0f}, {found['p99_ms']:.0f}" if found else "-"


def _cores(cpu: Mapping[str, float]) -> str:
    """Cores used under load, and CPU-seconds per thousand reports until all were settled."""
    if not cpu["seconds"]:
        return "-"
    return f"{cpu['cores_under_load']:.2f}; {cpu['seconds_per_thousand_reports']:.3f} s"


def print_summary(figures: Figures) -> None:
    """Print the rows as Markdown, then what went wrong, if anything."""
    kept = figures.document
    click.echo(markdown(HEAD, [figures.row()]))
    click.echo("")
    click.echo(markdown(CPU_HEAD, [figures.cpu_row()]))
    busy = sum(part["cores_under_load"] for part in kept["cpu"].values())
    first = max(kept["cpu"], key=lambda part: kept["cpu"][part]["cores_under_load"])
    click.echo(f"{busy:.2f} of {os.cpu_count()} cores were in use under load, most of them by {first}.")
    if kept["sold_out"]:
        click.echo(
            f"Devices had nothing left to send {kept['sold_out']} times: raise RATE to find the services' limit."
        )
    reckoning = kept["reckoning"]
    click.echo(
        f"{reckoning['acknowledged']:,} reports acknowledged: {reckoning['counted']:,} counted once, "
        f"{reckoning['discarded']:,} in discards, {reckoning['lost']:,} lost, {reckoning['doubled']:,} doubled. "
        f"{reckoning['unsure']:,} without an answer, of which {reckoning['unsure_counted']:,} counted once."
    )
    for trouble in [*kept["troubles"], *reckoning["wrong"], *(f"{n} x {what}" for what, n in kept["faults"].items())]:
        click.echo(f"WRONG {trouble}")
    click.echo("passed" if figures.passed else "FAILED")


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def write_page(figures: Figures, page: Path = PAGE) -> Path:
    """Put this run's rows and sizes into docs/performance.md, in place of older ones of the same kind."""
    held = figures.document["machine"]
    machine = f"{held['processor']}, {held['cores']} cores, {held['memory_gib']} GiB, Python {held['python']}"
    caption = f"Machine of the newest row: {machine}.\n\n"
    renew("load", lambda old: caption + markdown(HEAD, _merged(old, [figures.row()])), page)
    renew("cpu", lambda old: markdown(CPU_HEAD, _merged(old, [figures.cpu_row()])), page)
    if figures.document["plan"]["shape"] == "steady":
        renew("size", lambda old: markdown(SIZE_HEAD, _merged(old, sizes(figures))), page)
    return page


def sizes(figures: Figures) -> list[list[str]]:
    """The load that one core of each part can carry, from the CPU used for the reports of this run."""
    storage = figures.document["plan"]["storage"]
    found = []
    for part in ("shuffler", "aggregator", "redis"):
        each = figures.document["cpu"][part]["seconds_per_thousand_reports"]
        if each:
            day = 86_400 * BUSY * 1000 / each / 1e6
            found.append([f"{part}, on {storage}", f"{each:.3f}", f"{1000 / each:,.0f}", f"{day:,.0f} million"])
    return found


def _merged(old: str, rows: Sequence[list[str]]) -> list[list[str]]:
    """The lines of a table with these rows in place of those of the same name. The first two lines are the header."""
    lines = [line.strip("| ").split(" | ") for line in old.splitlines() if line.startswith("| ")][2:]
    names = {row[0] for row in rows}
    return sorted([*(line for line in lines if line[0] not in names), *rows])
