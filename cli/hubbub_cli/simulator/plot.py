"""Chart of a simulation's truth and estimates, one panel per metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hubbub_cli import plot_option

if TYPE_CHECKING:
    from pathlib import Path

    from hubbub_cli.simulator.outcome_text_and_json import Outcome

__all__ = ["draw"]

MOST = 25
"""Most values in one panel. Of a longer list the largest are shown, of a longer curve evenly spaced ones."""
_WIDTH, _ROW = 420, 22
_LEGEND = {"known": "truth", "found": "estimate and interval"}


def draw(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw estimates with their intervals, and a mark at the truth."""
    import altair as alt

    panels = [_panel(outcome) for outcome in outcomes]
    columns = 1 if len(panels) == 1 else 2
    chart = alt.concat(*panels, columns=columns).resolve_scale(x="independent", y="independent", color="shared")
    chart.configure_axis(labelLimit=160, grid=True, gridOpacity=0.4).configure_view(stroke=None).save(
        str(path), scale_factor=2
    )


def _seen(row: Mapping[str, Any]) -> dict[str, float]:
    """Estimate and limits as people are shown them."""
    return {"estimate": row["shown"]["value"], "low": row["shown"]["low"], "high": row["shown"]["high"]}


def _panel(outcome: Outcome) -> Any:
    import altair as alt

    chosen = outcome.shown(MOST)
    names = [outcome.metric.label_of(index) for index in chosen]
    rows = [
        {**row, **_seen(row), "name": name, **_LEGEND} for row, name in zip(outcome.rows(chosen), names, strict=True)
    ]
    marks = alt.Scale(domain=list(_LEGEND.values()), range=["#d6604d", "#2166ac"])
    y = alt.Y("name:N", sort=None, title=None)
    format_ = "~%" if outcome.share else "~g"
    base = alt.Chart(plot_option.as_data(rows)).encode(y=y)
    axis = alt.Axis(format=format_, title="share of devices" if outcome.share else outcome.metric.label_of(0))
    scale = alt.Scale(zero=outcome.share, nice=True)
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", axis=axis, scale=scale), x2="high:Q", color=alt.Color("found:N", scale=marks, title=None)
    )
    dots = base.mark_point(filled=True, size=50).encode(x=alt.X("estimate:Q"), color=alt.Color("found:N", scale=marks))
    truth = base.mark_tick(thickness=3, size=16).encode(x=alt.X("truth:Q"), color=alt.Color("known:N", scale=marks))
    metric = outcome.metric
    left = len(outcome.first.truth) - len(chosen)
    which = f"{len(chosen)}, evenly spaced," if outcome.is_curve else f"the {len(chosen)} largest"
    subtitle = [
        f"{metric.mechanism.name}, {outcome.first.reports:,} reports, {100 * outcome.confidence:.10g}% intervals"
        + (f", {which} of {len(outcome.first.truth):,}" if left else ""),
        *outcome.promises(),
    ]
    if not outcome.verdict.released:
        subtitle.append("would NOT be released: too few reports")
    title = alt.TitleParams(metric.name, subtitle=subtitle, anchor="start")
    return (bars + dots + truth).properties(title=title, width=_WIDTH, height=max(60, _ROW * len(rows)))
