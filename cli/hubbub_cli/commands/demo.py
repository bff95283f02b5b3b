"""`hubbub demo`: the whole path on this machine, from devices to published estimates, next to the truth."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hubbub.codebook import Codebook
from hubbub_cli import demo_data
from hubbub_cli.api_client import ask
from hubbub_cli.browser_page.crowd import Crowd
from hubbub_cli.browser_page.server import BrowserPage
from hubbub_cli.commands.up import stop_on_sigterm
from hubbub_cli.compile_codebook import read_codebook
from hubbub_cli.services.own_command import own_command
from hubbub_cli.services.processes import Services, held_ports
from hubbub_cli.terminal import estimate_bars, estimates
from hubbub_cli.terminal.wrapped_text import say, wrapped
from hubbub_query import IntervalKind
from hubbub_query.read_json import read
from hubbub_service_common.process.clock_and_entropy import monotonic, sleep, wall

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub.period import Period

PERIOD = "10s"
PERIODS = 3
"""The current period and the two before it, all still open."""
USUAL = 2_000
"""Reports per second that a machine randomizes, seals and uploads at least, unless it is very busy."""
SETTLING = 180.0
"""Seconds after the last close within which everything must have been published."""

Crowds = dict[tuple[str, int], list[Any]]


@click.command()
@click.option(
    "--devices", default=3_000, show_default=True, type=click.IntRange(200, 100_000), help="Simulated devices."
)
@click.option(
    "--codebook",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Collect by your own codebook, with made-up values. Default: 20,000 real flights.",
)
@click.option(
    "--once/--stay",
    default=None,
    help="Exit after the numbers, or keep serving until Ctrl-C. Default: stay if stdout is a terminal.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout, and exit.")
def demo(devices: int, codebook: Path | None, once: bool | None, as_json: bool) -> None:
    """Collect from simulated devices and compare with the truth.

    Starts the shuffler and the aggregator as two processes with periods of ten seconds. Each device randomizes and
    seals its values as a real one would. When the periods have closed, the estimates of the aggregator are shown next
    to the truth. Takes about a minute.
    """
    from hubbub.accounting.auto_epsilon import solve_open_epsilons

    once = once if once is not None else as_json or not sys.stdout.isatty()
    text = codebook.read_text() if codebook else demo_data.flights_codebook()
    metrics = len(Codebook.from_toml(text, str(codebook or "flights.toml"), solve_open_epsilons).metrics)
    grace = 25 + math.ceil(devices * metrics * PERIODS / min(USUAL, _sealed_a_second() / 3))
    stop_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="hubbub-demo-") as folder:
        home = Path(folder)
        path = home / "metrics.toml"
        path.write_text(demo_data.in_a_hurry(text, PERIOD, f"{grace}s"))
        with (home / "services.log").open("w") as log:
            _run(home, path, devices, log, once=once, as_json=as_json)


def _sealed_a_second() -> float:
    """Reports per second that this machine seals at present: sealing is the largest part of the work."""
    from hubbub.sealing import Sealer, new_private_key, public_key_of
    from hubbub.wire import ReportHeader

    sealer, header, count = Sealer(public_key_of(new_private_key())), ReportHeader(bytes(16), 0, 0), 500
    began = monotonic()
    for _ in range(count):
        sealer.seal(header, bytes(24))
    return count / (monotonic() - began)


def _run(home: Path, path: Path, devices: int, log: Any, *, once: bool, as_json: bool) -> None:
    loaded = read_codebook(path)
    say("starting shuffler and aggregator; batch sizes are worked out first ...")
    with (
        BrowserPage() as page,
        held_ports(2) as (shuffler_port, aggregator_port),
        Services(
            home,
            path,
            shuffler_port=shuffler_port,
            aggregator_port=aggregator_port,
            aggregator_settings={"BACKFILL_PERIODS": str(PERIODS - 1)},
            shuffler_settings={"TICK": "0.5", **page.listed({})},
            log=log,
        ) as services,
    ):
        click.echo(_addresses(services), err=True)
        say("numbers come with the first close\n")
        periods = _periods(loaded)
        is_flights = loaded.collection.name == "flights-demo"
        crowds = _crowds(loaded, devices, periods, flights=is_flights)
        _report(services, loaded, crowds, periods)
        _wait(services, loaded, periods)
        found = {m: _answer(services, m, crowds, periods) for m in loaded.in_file_order if m.enabled}
        answers = {metric: answer for metric, answer in found.items() if answer}
        for metric in found.keys() - answers.keys():
            say(_discarded(services, metric, devices))
        if as_json:
            click.echo(json.dumps({"metrics": {m.name: answer for m, answer in answers.items()}}, indent=2))
        else:
            click.echo("\n\n".join(_render(metric, answer) for metric, answer in answers.items()))
            say(
                "\nThe truth is known here because the devices are simulated; about one metric in twenty has an "
                "interval that misses it.\n"
                "In a demo one operator runs both services, so the promise is each device's local epsilon."
            )
        if not once:
            page.show(services.frozen, services, Crowd(services, loaded, _usual(flights=is_flights)))
            say("\nStill serving, until Ctrl-C.")
            click.echo(
                f"{_addresses(services)}\nfrom your browser   {page.address}/     (buttons that report)", err=True
            )
            try:
                services.watch()
            except KeyboardInterrupt:
                say("\nstopped")  # as asked: exit code 0


def _addresses(services: Services) -> str:
    """Where to look, and a command that a reader can copy, which is why it is not wrapped."""
    asking = f"{own_command()} query --address {services.aggregator}"
    return f"dashboard           {services.aggregator}/\nin a terminal       {asking}"


def _discarded(services: Services, metric: Metric, devices: int) -> str:
    """That nothing was released, and how many devices were missing."""
    reports = int(devices * metric.share)
    needed = max(services.frozen.metric(metric.name).min_batch or 0, services.floor)
    return wrapped(
        f"{metric.name} was DISCARDED: {reports:,} reports are expected of {devices:,} devices, and a release needs "
        f"{needed:,}, so {max(0, needed - reports):,} are missing; try --devices {math.ceil(needed / metric.share):,}",
        rest="  ",
    )


def _periods(codebook: Codebook) -> list[Period]:
    """The current period and those before it, oldest first."""
    calendar = codebook.collection.calendar
    now = calendar.index_at(wall())
    return [calendar.period(index) for index in range(now - PERIODS + 1, now + 1)]


def _crowds(codebook: Codebook, devices: int, periods: list[Period], *, flights: bool) -> Crowds:
    """The values of all devices, for each metric and period."""
    rows = demo_data.flights() if flights else []
    found: Crowds = {}
    for age, period in enumerate(reversed(periods)):
        crowd = demo_data.crowd(rows, devices, age) if flights else []
        for metric in codebook.metrics:
            known = flights and metric.name in rows[0]
            values = [row[metric.name] for row in crowd] if known else demo_data.made_up(metric, devices, age)
            found[metric.name, period.index] = values
    return found


def _usual(*, flights: bool) -> Callable[[Metric, int], list[Any]]:
    """What this many devices record of a metric in the newest period."""
    rows = demo_data.flights() if flights else []

    def values(metric: Metric, devices: int) -> list[Any]:
        if flights and metric.name in rows[0]:
            return [row[metric.name] for row in demo_data.crowd(rows, devices, 0)]
        return demo_data.made_up(metric, devices, 0)

    return values


def _report(services: Services, codebook: Codebook, crowds: Crowds, periods: list[Period]) -> None:
    """Let the devices report, the oldest period first: it closes first."""
    from hubbub_client.testing import Fleet

    fleet = Fleet(services.shuffler, trust=services.anchor)
    refused = 0
    total = sum(len(values) for values in crowds.values())
    with click.progressbar(
        length=total, label="devices randomize, seal and report", width=24, file=sys.stderr
    ) as shown:
        for period in periods:
            for metric in codebook.metrics:
                if not metric.enabled:
                    continue
                values = crowds[metric.name, period.index]
                delivered = fleet.report(metric.name, values, period)
                refused += len(values) - delivered.acknowledged - delivered.silent
                shown.update(len(values))
    if refused:
        say(f"{refused:,} reports were refused: this machine is too slow for that many devices; try fewer")


def _wait(services: Services, codebook: Codebook, periods: list[Period]) -> None:
    """Wait until the last period is closed, forwarded, opened and published."""
    closes = periods[-1].closes_at(codebook.collection.grace)
    waiting = max(1, math.ceil(closes - wall()))
    buckets = len(periods) * sum(metric.enabled for metric in codebook.metrics)
    steps: Iterable[int] | None = None
    bar = click.progressbar(
        steps,
        length=waiting,
        label="periods close one by one",
        item_show_func=lambda done: f"{done or 0} of {buckets} batches arrived",
        show_eta=False,
        width=20,
        file=sys.stderr,
    )
    with bar as shown:
        while (left := closes - wall()) > 0:
            sleep(min(1.0, left))
            shown.update(1, _arrived(services))
    say("all are closed: the last batches are shuffled, forwarded, opened, published ...")
    until = wall() + SETTLING
    while wall() < until:
        if _arrived(services) >= buckets:
            return
        sleep(0.5)
    raise click.ClickException(f"some batches had not arrived {SETTLING:.0f} seconds after the last period closed")


def _arrived(services: Services) -> int:
    """Batches that have their verdict, and crowds that were discarded."""
    status = ask(services.aggregator, "/v1/status")
    return int(status["batches"]["accepted"] + status["batches"]["refused"] + status["discards"])


def _answer(services: Services, metric: Metric, crowds: Crowds, periods: list[Period]) -> dict[str, Any] | None:
    """The newest period in full, and the values of all periods; None if nothing was released."""
    series = []
    for period in periods:
        after = period.calendar.period(period.index + 1).label
        try:
            found = ask(
                services.aggregator, f"/v1/metrics/{metric.name}/estimate", {"from": period.label, "to": after}
            )["segments"][-1]
        except click.ClickException:
            continue  # a period that was discarded has no estimate
        truth = demo_data.truth(metric, crowds[metric.name, period.index])
        rows = [
            {key: value for key, value in {**row, "truth": real}.items() if key in _ROW}
            for row, real in zip(found["values"], truth, strict=True)
        ]
        series.append({"period": period.label, "found": found, "values": rows})
    if not series:
        return None
    newest = series[-1]["found"]
    privacy = newest["privacy"]
    return {
        "type": metric.type,
        "mechanism": newest["mechanism"]["name"],
        "reports": newest["reports"],
        "interval": newest["interval"],
        "privacy": {key: privacy[key] for key in ("local_epsilon", "epsilon", "delta", "method")},
        "values": series[-1]["values"],
        "series": [{"period": one["period"], "values": one["values"]} for one in series],
    }


_ROW = ("value", "truth", "estimate", "stderr", "low", "high", "shown")


def _render(metric: Metric, answer: Mapping[str, Any]) -> str:
    shape = metric.values.shape
    share, unit = shape.measure == "share", f", in {shape.unit}" if shape.unit else ""
    lines = [
        wrapped(f"{metric.name}: {metric.description or metric.type}{unit}"),
        wrapped(f"{answer['reports']:,} reports by {answer['mechanism']}; {estimate_bars.promise(answer['privacy'])}"),
        estimate_bars.estimates(answer["values"], shape.labels, share=share, truth=True),
        *estimates.interval(read(IntervalKind, answer["interval"])),
    ]
    values = answer["values"]
    largest = max(range(len(values)), key=lambda place: values[place]["shown"]["value"])
    item = largest if shape.leading is None else shape.leading
    course = " → ".join(
        estimate_bars.number(one["values"][item]["shown"]["value"], share=share) for one in answer["series"]
    )
    truth = " → ".join(estimate_bars.number(one["values"][item]["truth"], share=share) for one in answer["series"])
    name = metric.label_of(item)
    lines.append(wrapped(f"over {len(answer['series'])} periods, {name}: {course} (truth {truth})"))
    return "\n".join(lines)
