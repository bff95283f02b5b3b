"""All benchmarks of the repository in one table, in under ten minutes: `make bench`.

    python -m benchmarks                    # all, in the short form
    python -m benchmarks --only ingest      # one part (may be given several times)
    python -m benchmarks --long             # more rounds and larger samples
    python -m benchmarks --strict           # exit code 1 if a row is short of its target
    python -m benchmarks --write            # renew the table in docs/performance.md
    python -m benchmarks --use FILE --write # the same from the JSON of an earlier run

Each part runs in its own process, so that none is affected by what another has loaded, pinned or allocated. Without
--strict the exit code is 1 only if a part failed, since other work on the machine can make a row miss its target. The
rows are also written as JSON. `make bench-mechanisms`, which compares with other libraries, is separate.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from benchmarks.machine import machine
from benchmarks.pages import renew
from benchmarks.table import HEAD, Row, cells, show

PARTS = {
    "randomize": "SDK: randomize one value",
    "client": "SDK: import, record, reduce, randomize, seal",
    "mechanisms.ours": "mechanisms by default",
    "accounting": "accounting",
    "plan": "plan",
    "simulate": "simulate",
    "ingest": "shuffler: ingest",
    "shuffler_storage": "shuffler: storage, empty and full",
    "batch": "shuffler: prepare a batch",
    "open": "aggregator: open and accumulate",
    "deduplicate": "aggregator: find what was counted before",
    "estimate": "aggregator: estimate",
    "dashboard": "aggregator: dashboard",
}
OUT = Path(__file__).parent.parent / "build" / "bench.json"
LONGEST = 1_800
"""Seconds after which a part counts as failed."""


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(PARTS)), help="Run only this part; repeatable.")
@click.option("--long", "long_form", is_flag=True, help="More rounds and larger samples.")
@click.option("--strict", is_flag=True, help="Exit with 1 if a row misses its target.")
@click.option("--write", is_flag=True, help="Renew the table in docs/performance.md.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Where to write the JSON.")
@click.option(
    "--use", type=click.Path(exists=True, path_type=Path), help="Measure nothing; use this JSON of an earlier run."
)
@click.option("--here", is_flag=True, hidden=True, help="Run in this process and only write the rows.")
def main(
    only: tuple[str, ...], long_form: bool, strict: bool, write: bool, out: Path, use: Path | None, here: bool
) -> None:
    """Run the benchmarks, each with a limit or a peer measured in the same run."""
    if here:
        out.write_text(json.dumps([row.document() for row in measured(only[0], long_form)]))
        return
    document = json.loads(use.read_text()) if use else run(only or tuple(PARTS), long_form, out)
    rows = [Row.read(row) for row in document["rows"]]
    short = [row for row in rows if row.verdict == "short"]
    click.echo(show(rows))
    click.echo(
        f"\n{len(rows)} figures in {document['seconds']} s: {sum(row.verdict == 'pass' for row in rows)} pass, "
        f"{len(short)} short, the others have no target. JSON: {use or out}\n"
        "To compare with other libraries: make bench-mechanisms (a separate environment; ten minutes)."
    )
    if write:
        click.echo(f"renewed: {renew('bench', lambda _old: page_part(document))}", err=True)
    sys.exit(1 if document["failed"] or (strict and short) else 0)


def run(names: Sequence[str], long_form: bool, out: Path) -> dict[str, Any]:
    """Measure these parts one after the other; write and return the results."""
    began, rows, failed = time.monotonic(), list[Row](), list[str]()
    for number, name in enumerate(names, 1):
        click.echo(f"[{number}/{len(names)}] {PARTS[name]} ...", err=True, nl=False)
        start = time.monotonic()
        found = apart(name, long_form)
        click.echo(f" {time.monotonic() - start:.0f} s" + ("" if found else ", FAILED"), err=True)
        rows += found
        failed += [] if found else [name]
    document = {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "form": "long" if long_form else "short",
        "seconds": round(time.monotonic() - began),
        "failed": failed,
        "rows": [row.document() for row in rows],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=2) + "\n")
    return document


def measured(name: str, long_form: bool) -> list[Row]:
    """The rows of one part, measured in this process."""
    module = importlib.import_module(f"benchmarks.{name}")
    return [replace(row, part=name) for row in module.rows(long=long_form)]


def apart(name: str, long_form: bool) -> list[Row]:
    """The rows of one part, measured in another process. None if that failed; then its last output is shown."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        command = [sys.executable, "-m", "benchmarks", "--here", "--only", name, "--out", str(out)]
        try:
            done = subprocess.run(
                command + ["--long"] * long_form, check=False, capture_output=True, text=True, timeout=LONGEST
            )
        except subprocess.TimeoutExpired:
            click.echo(f"\n{name} had not finished after {LONGEST} s", err=True)
            return []
        if done.returncode:
            click.echo(f"\n{done.stderr[-3000:]}", err=True)
            return []
        return [Row.read(row) for row in json.loads(out.read_text())]


def page_part(document: dict[str, Any]) -> str:
    """The table for docs/performance.md, from the JSON."""
    held, rows = document["machine"], [Row.read(row) for row in document["rows"]]
    lines = [
        f"`make bench` on {document['when']}, {held['processor']}, {held['cores']} cores, {held['memory_gib']} GiB, "
        f"Python {held['python']}; {document['form']} form, {document['seconds']} s in all."
    ]
    for name, title in PARTS.items():
        own = [row for row in rows if row.part == name]
        if own:
            lines += ["", f"**{title}**", "", "| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
            lines += ["| " + " | ".join(cells(row)) + " |" for row in own]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
