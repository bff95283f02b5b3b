"""The picture of `hubbub plan --plot-tradeoff`: error over local epsilon, one panel for each metric."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hubbub_cli import plot_option
from hubbub_cli.terminal.wrapped_text import wrapped

if TYPE_CHECKING:
    from hubbub.accounting.codebook_plan import MetricPlan, Plan
    from hubbub.accounting.tradeoff import Tradeoff

__all__ = ["draw", "tradeoff_of"]

CROWD, CENTRAL, LOCAL = "this crowd, certified", "trusted server, Gaussian noise", "local bound"
_WIDTH, _HEIGHT, _LETTERS = 380, 230, 66


def tradeoff_of(made: Plan, one: MetricPlan) -> Tradeoff:
    """The trade-off of one planned metric."""
    from hubbub.accounting.codebook_plan import asked_of, cap_of
    from hubbub.accounting.release_target import standard_error
    from hubbub.accounting.tradeoff import tradeoff
    from hubbub.mechanisms._exact_arithmetic import LARGEST_EPSILON

    asked, cap = asked_of(one.metric, made.codebook, one.reports), cap_of(one.metric)
    error = standard_error(one.metric.mechanism, one.reports)
    return tradeoff(asked, one.metric.epsilon, error, None if cap == LARGEST_EPSILON else cap)


def draw(made: Plan, path: Path) -> None:
    """Draw the planned metrics that have an honest report."""
    import altair as alt

    planned = [one for one in made.metrics if one.guarantee is not None]
    with click.progressbar(planned, label="drawing", file=sys.stderr) as metrics:
        panels = [_panel(one, tradeoff_of(made, one)) for one in metrics]
    target = made.codebook.collection
    title = alt.TitleParams(
        f"{target.name}: what accuracy costs",
        subtitle=f"{made.devices:,} devices; a release meets epsilon {float(target.release_epsilon):g} at delta "
        f"{float(target.release_delta):g}, for {float(target.honest_fraction):.0%} honest reports",
        anchor="start",
    )
    rows = [alt.hconcat(*panels[place : place + 2]) for place in range(0, len(panels), 2)]
    alt.vconcat(*rows).properties(title=title).save(str(path), scale_factor=2)


def _panel(one: MetricPlan, found: Tradeoff) -> Any:
    import altair as alt

    lines = [
        {"epsilon": float(point.epsilon), "error": error, "line": line}
        for point in found.points
        for line, error in ((CROWD, point.error), (CENTRAL, found.central), (LOCAL, point.local_bound))
        if error is not None
    ]
    base = alt.Chart(plot_option.as_data(lines))
    scale = alt.Scale(domain=[CROWD, CENTRAL, LOCAL], range=["#1f5fa8", "#3a8a4a", "#8a8a8a"])
    dashes = alt.Scale(domain=[CROWD, CENTRAL, LOCAL], range=[[1, 0], [6, 3], [2, 3]])
    legend = alt.Legend(title=None, orient="bottom", columns=1, labelLimit=_WIDTH)
    curves = base.mark_line().encode(
        x=alt.X("epsilon:Q", title="local epsilon: what holds if shuffler and aggregator collude"),
        y=alt.Y("error:Q", scale=alt.Scale(type="log"), title="standard error (share, or part of range)"),
        color=alt.Color("line:N", scale=scale, legend=legend),
        strokeDash=alt.StrokeDash("line:N", scale=dashes, legend=legend),
    )
    layers = [curves, *_marked(found)]
    words = [line for said in found.sides for line in wrapped(said, width=_LETTERS).split("\n")]
    title = alt.TitleParams(one.metric.name, subtitle=words, anchor="start", subtitleFontSize=10)
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title=title)


def _marked(found: Tradeoff) -> list[Any]:
    """The choice as a point, the cap as a line."""
    import altair as alt

    here = [{"epsilon": float(found.epsilon), "error": found.error, "what": "in use"}]
    chart = alt.Chart(plot_option.as_data(here)).encode(x="epsilon:Q", y="error:Q")
    marks = [
        chart.mark_point(filled=True, size=90, color="#c2410c"),
        chart.mark_text(align="left", dx=8, dy=-6, color="#c2410c").encode(text="what:N"),
    ]
    if found.cap is not None:
        cap = alt.Chart(plot_option.as_data([{"epsilon": float(found.cap), "what": "cap"}])).encode(x="epsilon:Q")
        marks += [
            cap.mark_rule(strokeDash=[4, 4], color="#c2410c"),
            cap.mark_text(align="right", dx=-4, color="#c2410c").encode(y=alt.value(10), text="what:N"),
        ]
    return marks
