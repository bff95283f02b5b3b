"""`hubbub plan`: the errors and guarantees of a codebook, before anything is collected."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hubbub.codebook import is_compiled, read_file
from hubbub.errors import InvalidParameter
from hubbub_cli import plan_allotment, plan_course, plan_tradeoff, plot_option
from hubbub_cli.compile_codebook import read_codebook
from hubbub_cli.services.default_min_crowd import usual_floor
from hubbub_cli.terminal import estimate_bars
from hubbub_cli.terminal.round_up import above
from hubbub_cli.terminal.table import table_or_records
from hubbub_cli.terminal.wrapped_text import say, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hubbub.accounting import ShareCredit
    from hubbub.accounting.codebook_plan import MetricPlan, Plan
    from hubbub.codebook import Codebook

_WORTH = 1.05
"""Another mechanism is worth a mention from this factor in the error on."""
POINTS = 13
"""Numbers of devices in a plot: from a thirtieth to thirty times the planned one."""


@click.command()
@click.argument("codebook", type=click.Path(dir_okay=False))
@click.option("--devices", type=click.IntRange(min=1), required=True, help="Devices that report in a period.")
@click.option("--periods", type=click.IntRange(min=1), default=1, show_default=True, help="Periods to plan for.")
@click.option(
    "--floor",
    type=click.IntRange(min=2),
    help="Fewest reports that the shuffler forwards together. Unset: the default of its min_batch_floor, 100.",
)
@click.option("--why", is_flag=True, help="Also say why each metric has its mechanism, and what speaks against others.")
@click.option(
    "--allot", is_flag=True, help="Split device_epsilon over the metrics: equal relative errors, by importance."
)
@click.option(
    "--importance",
    multiple=True,
    metavar="NAME=NUMBER",
    help="With --allot: twice as important is half the error; repeatable. Default: as in the codebook, or 1.",
)
@plot_option.option("Draw error and epsilon against devices")
@plot_option.option("Draw error against the local epsilon, between trusted server and local bound", "--plot-tradeoff")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
def plan(
    codebook: str,
    devices: int,
    periods: int,
    floor: int | None,
    why: bool,
    allot: bool,
    importance: tuple[str, ...],
    plot: str | None,
    plot_tradeoff: str | None,
    as_json: bool,
) -> None:
    """Work out batch sizes, errors and guarantees of CODEBOOK.

    Also says what to change. Nothing is collected and no data is read: everything follows from the codebook and the
    number of devices. CODEBOOK is a metrics.toml or a compiled codebook.

    An epsilon that is written in CODEBOOK is kept, and its mechanism is the best at that local epsilon. Beside it
    stands the best mechanism at equal certificate: with the largest local epsilon, up to the metric's cap, with which
    these devices meet the release target.
    """
    picture, tradeoff_picture = plot_option.target(plot), plot_option.target(plot_tradeoff, "--plot-tradeoff")
    if importance and not allot:
        raise click.UsageError("--importance is for --allot")
    from hubbub.accounting import codebook_plan as planning

    loaded, is_frozen = read_codebook(codebook), is_compiled(read_file(codebook))
    weights = plan_allotment.weights(importance, loaded)
    say("working out batch sizes and guarantees ...")
    floor = usual_floor() if floor is None else floor
    made = planning.plan(loaded, devices, periods, floor=floor, is_frozen=is_frozen, compare=True)
    split = plan_allotment.allot(made, weights) if allot else None
    course = plan_course.course_of(loaded)
    if as_json:
        allotment = {} if split is None else {"allotment": plan_allotment.document(made, split)}
        click.echo(json.dumps({**_document(made), "total": plan_course.document(course), **allotment}, indent=2))
    else:
        estimate_bars.echo(_render(made, why=why))
        if course is not None:
            estimate_bars.echo("\n" + "\n".join(wrapped(line, rest="  ") for line in plan_course.sentences(course)))
        if split is not None:
            estimate_bars.echo(f"\n{plan_allotment.render(made, split)}")
    if picture:
        _draw(loaded, devices, floor, picture)
        say(f"drew {plot}")
    if tradeoff_picture:
        plan_tradeoff.draw(made, tradeoff_picture)
        say(f"drew {plot_tradeoff}")


def _document(made: Plan) -> dict[str, Any]:
    collection = made.codebook.collection
    return {
        "devices": made.devices,
        "periods": made.periods,
        "release": {"epsilon": float(collection.release_epsilon), "delta": float(collection.release_delta)},
        "honest_fraction": float(collection.honest_fraction),
        "metrics": {metric.metric.name: _metric_document(metric) for metric in made.metrics},
        "device_period": asdict(made.device_period) if made.device_period else None,
        "device_total": asdict(made.device_total) if made.device_total else None,
    }


def _metric_document(one: MetricPlan) -> dict[str, Any]:
    return {
        "type": one.metric.type,
        "mechanism": one.metric.mechanism.name,
        "report_bytes": one.metric.mechanism.report_bytes,
        "local_epsilon": one.metric.mechanism.realised_epsilon,
        "reports": one.reports,
        "min_batch": one.min_batch,
        "released": one.released,
        "stderr": one.stderr if math.isfinite(one.stderr) else None,
        "interval_width": one.interval if math.isfinite(one.interval) else None,
        "per_period": asdict(one.guarantee) if one.guarantee else None,
        "after_periods": asdict(one.composed) if one.composed else None,
        "share_credit": _credit_document(one),
        "advice": list(one.advice),
        "compared": "at equal local epsilon" if one.metric.chosen_for is None else "at equal certificate",
        "why": one.why,
        "at_equal_certificate": _choice_document(one),
    }


def _choice_document(one: MetricPlan) -> dict[str, Any] | None:
    if (made := one.at_equal_certificate) is None:
        return None
    return {
        "mechanism": made.mechanism.name,
        "epsilon": float(made.mechanism.epsilon),
        "cap": float(made.cap),
        "standard_error": made.error,
        "certified": asdict(made.certified),
        "central_gaussian": made.central,
        "local_bound": made.least,
        "why": made.why,
    }


def _credit_document(one: MetricPlan) -> dict[str, Any] | None:
    if one.credit is None:
        return None
    return {**asdict(one.credit), "share": float(one.credit.share), "failure": float(one.credit.failure)}


def _render(made: Plan, *, why: bool) -> str:
    lines = [table_or_records([_row(one, made.periods) for one in made.metrics]), "", *map(wrapped, _legend(made))]
    advice = [
        wrapped(f"{one.metric.name}: {line}", first="! ", rest="  ") for one in made.metrics for line in one.advice
    ]
    lines += ["", *advice] if advice else []
    hidden = [
        wrapped(f"{one.metric.name}: {_credit(one, one.credit)}", rest="  ") for one in made.metrics if one.credit
    ]
    lines += ["", *hidden] if hidden else []
    lines += ["", *(wrapped(line, rest="  ") for line in _compared(made))]
    if why:
        for one in made.metrics:
            lines += [f"\n{wrapped(f'{one.metric.name}: {one.why}', rest='  ')}"]
            if (best := one.at_equal_certificate) is not None:
                lines += [wrapped(best.why, first="  ", rest="  ")]
    return "\n".join(lines)


def _compared(made: Plan) -> Iterator[str]:
    """How mechanisms were compared, and what comparing them at equal certificate would give."""
    from hubbub.accounting.release_target import standard_error

    by_hand = [one for one in made.metrics if one.metric.chosen_for is None]
    if worked_out := [one.metric.name for one in made.metrics if one.metric.chosen_for is not None]:
        yield (
            f"at equal certificate, because the codebook leaves epsilon open and gives a crowd: {', '.join(worked_out)}"
        )
    if not by_hand:
        return
    names = ", ".join(one.metric.name for one in by_hand)
    yield (
        f"at equal local epsilon, because the codebook fixes eps0: {names}. At equal certificate, with epsilon = "
        '"auto" and without a cap, these devices would allow:'
    )
    for one in by_hand:
        best = one.at_equal_certificate
        if best is None:
            continue
        times = standard_error(one.metric.mechanism, one.reports) / best.error
        what = f"{best.mechanism.name} at eps0 {above(float(best.mechanism.epsilon))}"
        yield f"- {one.metric.name}: {what}, " + (
            f"{1 / times:.2g} of the error" if times > _WORTH else "practically the same error"
        )


def _row(one: MetricPlan, periods: int) -> dict[str, object]:
    composed = {f"eps x{periods}": above(one.composed.epsilon) if one.composed else "-"}
    return {
        "metric": one.metric.name,
        "reports": f"{one.reports:,}",
        "needed": "-" if one.min_batch is None else f"{one.min_batch:,}",
        "released": "yes" if one.released else "no",
        "95% error": _error(one),
        "eps": above(one.guarantee.epsilon) if one.guarantee else "-",
        **(composed if periods > 1 else {}),
        "eps0": above(float(one.metric.epsilon), 6),
    }


def _credit(one: MetricPlan, credit: ShareCredit) -> str:
    """What the coin of `share` adds, beside the figure for the reports, which holds without any secret."""
    each = one.guarantee
    beside = f", beside eps {above(each.epsilon)} for {each.reports:,} honest reports" if each else ""
    more = "; it follows from the smallest batch, so a larger min_batch makes it smaller"
    return (
        f"share {float(one.metric.share):g} also hides who reported: eps {above(credit.epsilon)} for anyone who "
        f"does not know that{beside}" + (more if each and each.epsilon < credit.epsilon else "")
    )


def _error(one: MetricPlan) -> str:
    """Half of a 95 % interval: points of a share, or a number in its unit."""
    if not math.isfinite(one.interval):
        return "-"
    half, shape = one.interval / 2, one.metric.values.shape
    unit = f" {shape.unit}" if shape.unit else ""
    number = f"{100 * half:.2g}%" if shape.measure == "share" else f"{estimate_bars.number(half, share=False)}{unit}"
    return f"{'±' if estimate_bars.signs() is estimate_bars.BLOCKS else '+-'}{number}"


def _legend(made: Plan) -> Iterator[str]:
    collection = made.codebook.collection
    yield (
        f"eps: what a release reveals of a device while shuffler and aggregator do not collude, at delta "
        f"{float(collection.release_delta):g}, for {float(collection.honest_fraction):.0%} honest reports: an "
        "assumption that nothing enforces. eps0: if they collude."
    )
    if (one := made.device_period) is None or (total := made.device_total) is None:
        return
    each, colluding = f"eps {above(one.epsilon)}", f"eps {above(one.local_epsilon, 6)}"
    if made.periods > 1:
        each += f" per period, {above(total.epsilon)} after {made.periods}"
        colluding += f" per period, {above(total.local_epsilon, 6)} after {made.periods}"
    yield f"a device in all released metrics: {each}; if they collude: {colluding}"


def _draw(codebook: Codebook, devices: int, floor: int, path: Path) -> None:
    """Two panels over the number of devices, one line per metric."""
    import altair as alt

    rows = _points(codebook, devices, floor)
    axis = alt.Axis(format="~s", labelOverlap=True)
    base = alt.Chart(plot_option.as_data(rows)).encode(
        x=alt.X("devices:Q", scale=alt.Scale(type="log", nice=False), axis=axis, title="devices per period"),
        color=alt.Color("metric:N", scale=alt.Scale(scheme="tableau10")),
    )
    marks = alt.Scale(domain=["released", "discarded"], range=["circle", "cross"])
    planned = alt.Chart(plot_option.as_data([{"devices": devices}])).mark_rule(strokeDash=[4, 4]).encode(x="devices:Q")

    def panel(field: str, title: str) -> Any:
        y = alt.Y(f"{field}:Q", scale=alt.Scale(type="log"), title=title)
        dots = base.mark_point(filled=True, size=45).encode(y=y, shape=alt.Shape("released:N", scale=marks))
        return (base.mark_line().encode(y=y) + dots + planned).properties(width=420, height=220)

    delta = float(codebook.collection.release_delta)
    error = panel("error", "standard error (share, or part of the range)")
    guarantee = panel("epsilon", f"epsilon of one release at delta {delta:g}")
    title = f"{codebook.collection.name}: error and guarantee by number of devices"
    (error | guarantee).properties(title=title).save(str(path), scale_factor=2)


def _points(codebook: Codebook, devices: int, floor: int) -> list[dict[str, Any]]:
    """Error and epsilon of each metric at several numbers of devices."""
    from hubbub.accounting import guarantee, honest_reports
    from hubbub.accounting.codebook_plan import min_batch

    delta = codebook.collection.release_delta
    sizes = sorted({max(2, round(devices * 30 ** (2 * i / (POINTS - 1) - 1))) for i in range(POINTS)})
    rows: list[dict[str, Any]] = []
    with click.progressbar([m for m in codebook.metrics if m.enabled], label="drawing", file=sys.stderr) as metrics:
        for metric in metrics:
            try:
                needed: float = max(min_batch(metric, codebook), floor)
            except InvalidParameter:
                needed = math.inf
            for size in sizes:
                reports = int(size * metric.share)
                honest = honest_reports(reports, codebook.collection.honest_fraction)
                if honest:
                    rows.append(
                        {
                            "devices": size,
                            "metric": metric.name,
                            "error": metric.expected_error(reports) / metric.values.span,
                            "epsilon": guarantee(metric.mechanism, honest, delta).epsilon,
                            "released": "released" if reports >= needed else "discarded",
                        }
                    )
    return rows
