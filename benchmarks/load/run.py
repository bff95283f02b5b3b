"""Load test, `make load`: real services on loopback under Locust, and a check that no report is lost or doubled.

    python -m benchmarks.load.run --users 60 --minutes 1 --storage redis --shape outage

The environment variables USERS, MINUTES, STORAGE, SHAPE and RATE give the defaults. Writes Locust's HTML report and a
JSON with the figures; prints the row for docs/performance.md, and with --write puts it there. Exit code 1: a report was
lost, doubled or counted without being sent, a service gave an error that is not a documented 503, or a batch was never
settled. `--plant` makes a run that must fail, to test the check.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from benchmarks.load.figures import Figures, print_summary, write_page
from benchmarks.load.meter import Meter
from benchmarks.load.plan import METRICS, SHAPES, STORAGES, Plan
from benchmarks.load.planted import PLANTS, Plant, plant_in_receipts, plant_in_stock
from benchmarks.load.receipts import Fate, Receipts
from benchmarks.load.reckoning import published, reckon
from benchmarks.load.stack import Stack, running
from benchmarks.load.stock import seal_ahead
from benchmarks.load.tally import Tally
from benchmarks.load.world import FOLDER
from hubbub_cli.api_client import ask, fetch
from tests.support.paths import ROOT

OUT = ROOT / "build" / "load"
SETTLING = 240.0
"""Seconds after the last period has closed within which everything must have a verdict."""
DOWN = 5.0
"""Seconds for which a service is down in an outage, before it is started again."""
PARTS = ("shuffler", "aggregator", "redis", "locust")


def _default(name: str, otherwise: str) -> str:
    return os.environ.get(name) or otherwise


@click.command()
@click.option(
    "--users", type=int, default=lambda: _default("USERS", "60"), help="Devices, gateways, analysts, readers."
)
@click.option("--minutes", type=float, default=lambda: _default("MINUTES", "1"), help="Duration of the load.")
@click.option("--storage", type=click.Choice(STORAGES), default=lambda: _default("STORAGE", "sqlite"))
@click.option("--shape", type=click.Choice(SHAPES), default=lambda: _default("SHAPE", "steady"))
@click.option("--rate", type=int, default=lambda: _default("RATE", "8000"), help="Reports per second to seal ahead.")
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Folder for the reports.")
@click.option("--write", is_flag=True, help="Renew this run's row in docs/performance.md.")
@click.option("--use", type=click.Path(exists=True, path_type=Path), help="Make no run; use the figures in this JSON.")
@click.option("--plant", "planted", type=click.Choice(PLANTS), multiple=True, help="Plant a fault: the run must fail.")
def main(
    users: int,
    minutes: float,
    storage: Any,
    shape: Any,
    rate: int,
    out: Path,
    write: bool,
    use: Path | None,
    planted: tuple[Plant, ...],
) -> None:
    """Load both services, then check that every acknowledged report was counted exactly once."""
    try:
        plan = Plan(users, round(60 * minutes), storage, shape, rate)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if use:
        figures = Figures(json.loads(use.read_text()))
        print_summary(figures)
    else:
        out.mkdir(parents=True, exist_ok=True)
        figures = load(plan, out, planted)
        document = out / f"{plan.storage}-{plan.shape}.json"
        figures.save(document)
        print_summary(figures)
        click.echo(f"written: {document} and {document.with_suffix('.html')}", err=True)
    if write:
        click.echo(f"renewed: {write_page(figures)}", err=True)
    sys.exit(0 if figures.passed else 1)


def load(plan: Plan, out: Path, planted: Sequence[Plant] = ()) -> Figures:
    """One run, from the start of the services to the verdict."""
    with tempfile.TemporaryDirectory(prefix="hubbub-load-") as name, running(plan, Path(name)) as stack:
        folder = Path(name)
        begin = prepare(plan, folder, stack, planted)
        wait = max(0.0, begin - time.time())
        _say(f"load: {plan.users} users for {plan.seconds} s, {plan.shape}, on {stack.keeper}, in {wait:.0f} s")
        _sleep_until(begin)
        locust: list[int] = []
        parts = {part: (lambda part=part: stack.processes(part)) for part in PARTS[:3]}
        with Meter({**parts, "locust": lambda: locust}) as meter:
            before, began = meter.seconds(), time.time()
            with outages(plan, stack) as outage:
                status = drive(plan, folder, out, locust)
            ended, loaded = time.time(), meter.seconds()
            receipts = Receipts.load(folder / "receipts.json", plan)
            for what in planted:
                plant_in_receipts(what, receipts)
            _say("waiting until every batch has its verdict")
            settled = wait_until_settled(plan, stack, receipts)
            after = meter.seconds()
        _say("counting every report in what was published")
        invalid = ask(stack.services.aggregator, "/v1/status")["invalid_reports"]
        reckoning = reckon(receipts, published(plan, stack.services.aggregator, sorted(receipts.fates)), invalid)
        tally, more = Tally.load(folder / "tally.json")
        return Figures.of(
            plan,
            keeper=stack.keeper,
            when=datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%d"),
            seconds=ended - began,
            cpu_under_load={part: loaded[part] - before[part] for part in loaded},
            cpu={part: after[part] - before[part] for part in after},
            tally=tally,
            times=more["times"],
            receipts=receipts,
            reckoning=reckoning,
            invalid=invalid,
            outage=outage,
            troubles=["not every batch was settled in time"] * (not settled) + ["Locust failed"] * bool(status),
        )


def prepare(plan: Plan, folder: Path, stack: Stack, planted: Sequence[Plant]) -> float:
    """Seal all reports; return the time at which the first of their periods begins."""
    plan.save(folder / "plan.json")
    bundle = fetch(stack.services.aggregator, "/v1/bundle", accept="*/*")
    stock = folder / "stock"
    stock.mkdir()
    every = (plan.reports + plan.twins) * plan.periods
    with click.progressbar(length=every, label=f"sealing {every:,} reports ahead", file=sys.stderr) as bar:
        first = seal_ahead(
            plan, bundle, stack.services.anchor, stock, lambda done: bar.update(done - bar.pos), clock=time.time
        )
    for what in planted:
        plant_in_stock(what, plan, stock, first, bundle, stack.services.anchor)
    return float(first * plan.period)


def drive(plan: Plan, folder: Path, out: Path, locust: list[int]) -> int:
    """Run Locust, headless, for the time of the run; return its exit code."""
    page = out / f"{plan.storage}-{plan.shape}.html"
    command = [sys.executable, "-m", "locust", "-f", str(Path(__file__).with_name("locustfile.py"))]
    command += ["--headless", "--only-summary", "--html", str(page), "--users", str(plan.users)]
    command += ["--spawn-rate", str(plan.users), "--run-time", f"{plan.seconds}s", "--stop-timeout", "15"]
    said = page.with_suffix(".log")
    with said.open("w") as log:
        process = subprocess.Popen(command, env={**os.environ, FOLDER: str(folder)}, stdout=log, stderr=log)
        locust.append(process.pid)
        try:
            with click.progressbar(length=plan.seconds, label="under load", file=sys.stderr) as bar:
                while process.poll() is None:
                    time.sleep(1)
                    bar.update(1)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        _say(said.read_text()[-4000:])
    return process.returncode


@contextmanager
def outages(plan: Plan, stack: Stack) -> Iterator[list[dict[str, Any]]]:
    """In the shape `outage`, kill -9 the shuffler after three tenths of the run and the aggregator after six, and start
    each again a little later. Yields what was done."""
    did: list[dict[str, Any]] = []
    over = threading.Event()

    def break_things() -> None:
        began = time.monotonic()
        for name, share in (("shuffler", 0.3), ("aggregator", 0.6)):
            if over.wait(max(0.0, began + share * plan.seconds - time.monotonic())):
                return
            gone = time.monotonic()
            stack.services.kill(name)  # type: ignore[arg-type]  # one of the two names
            over.wait(DOWN)
            stack.services.start(name)  # type: ignore[arg-type]  # as above
            did.append({"killed": name, "away_seconds": round(time.monotonic() - gone, 1)})

    thread = threading.Thread(target=break_things, name="outages")
    if plan.shape == "outage":
        thread.start()
    try:
        yield did
    finally:
        over.set()
        if plan.shape == "outage":
            thread.join()


def wait_until_settled(plan: Plan, stack: Stack, receipts: Receipts) -> bool:
    """Wait until all buckets are closed, nothing waits at either service, and all expected batches have arrived."""
    closes = (max(receipts.fates, default=0) + 1) * plan.period + plan.grace
    _sleep_until(closes + 1.0)
    wanted = sum(
        Fate.ACKNOWLEDGED in fates[metric::METRICS] for fates in receipts.fates.values() for metric in range(METRICS)
    )
    until = time.time() + SETTLING
    while time.time() < until:
        with suppress(click.ClickException, KeyError):
            shuffler = ask(stack.services.shuffler, "/v1/status")
            waiting = len(shuffler["buckets"]) + sum(shuffler["batches"].values())
            status = ask(stack.services.aggregator, "/v1/status")
            done = status["batches"]["accepted"] + status["batches"]["refused"] + status["discards"]
            if not waiting and not status["batches"]["pending"] and done >= wanted:
                return True
        time.sleep(0.5)
    return False


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.time()))


def _say(text: str) -> None:
    click.echo(text, err=True)


if __name__ == "__main__":
    main()
