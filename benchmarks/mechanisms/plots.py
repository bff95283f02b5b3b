"""Charts of the comparison, in docs/images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from benchmarks.mechanisms.least import least_mean_variance
from benchmarks.mechanisms.run import OURS, Found

LIBRARIES = ["hubbub", "pure-ldp", "multi-freq-ldpy", "opendp"]
COLOURS = ["#111111", "#1f77b4", "#d95f02", "#7b3294"]
LEAST = "as a multiple of the least possible"


def draw(found: Found, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, chart in (("accuracy", accuracy(found)), ("cost", cost(found)), ("means", means(found))):
        chart.save(str(folder / f"mechanisms-{name}.svg"))


def accuracy(found: Found) -> Any:
    """Error over the optimum, one row per protocol and one column per length of the list."""
    rows = [
        {"who": _ours_as_one(one.who), "size": one.size, "epsilon": f"{one.epsilon:g}", "ratio": one.ratio}
        for one in found.shares
        if one.size > 2
    ]
    ticks = alt.Axis(values=[1, 10, 100, 1000], format="~s", gridOpacity=0.5)
    dots = alt.Chart(_data(rows)).mark_point(filled=True, size=55, opacity=0.9, aria=False)
    dots = dots.encode(
        x=alt.X("ratio:Q", scale=alt.Scale(type="log", domain=[0.7, 10_000]), axis=ticks, title="error / least"),
        y=alt.Y("who:N", sort=list(dict.fromkeys(_ours_as_one(one.who) for one in reversed(found.shares))), title=None),
        color=alt.Color("epsilon:O", scale=alt.Scale(scheme="viridis"), title="epsilon"),
    )
    header = alt.Header(labelExpr="format(datum.value, ',') + ' values'", labelFontWeight="bold")
    return dots.properties(width=170, height=230).facet(column=alt.Column("size:O", title=None, header=header))


def cost(found: Found) -> Any:
    """Error against the server's time at 1024 values, one point per protocol."""
    errors = {one.who: one.ratio for one in found.shares if one.size == 1024 and one.epsilon == 1}
    rows = [
        {"library": one.who.split()[0], "name": one.who.split()[1], "server": one.server, "ratio": errors[one.who]}
        for one in found.crowd
        if one.epsilon == 1 and one.who in errors
    ]
    colour = alt.Color("library:N", scale=alt.Scale(domain=LIBRARIES, range=COLOURS), title=None)
    times, errors_axis = (
        alt.Axis(values=[0.01, 0.1, 1, 10, 100, 1000], format="~g"),
        alt.Axis(values=[1, 2, 5, 10, 100]),
    )
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("server:Q", scale=alt.Scale(type="log", domain=[0.01, 3000]), axis=times).title(
            "CPU microseconds a report on the server"
        ),
        y=alt.Y("ratio:Q", scale=alt.Scale(type="log", domain=[0.8, 200]), axis=errors_axis, title=f"error, {LEAST}"),
        color=colour,
    )
    label = base.mark_text(align="left", dx=7, dy=-7, angle=315, aria=False).encode(text="name:N")
    return (base.mark_point(filled=True, size=80, opacity=1, aria=False) + label).properties(width=560, height=300)


def means(found: Found) -> Any:
    """Variance of unbiased noisy numbers over the optimum, against epsilon."""
    biased = biased_noises(found)
    rows = [
        {
            "who": _ours_as_one(one.who),
            "epsilon": one.epsilon,
            "ratio": one.variance / least_mean_variance(one.epsilon),
        }
        for one in found.numbers
        if one.who not in biased
    ]
    whos = sorted({str(row["who"]) for row in rows}, key=lambda who: (who != OURS, who))
    colours = alt.Scale(domain=whos, range=[COLOURS[0], "#1b9e77", "#66c2a5", "#7b3294", "#c2a5cf"])
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("epsilon:Q", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=[0.5, 1, 2, 4])),
        y=alt.Y("ratio:Q", scale=alt.Scale(zero=True), title=f"variance, {LEAST}"),
        color=alt.Color("who:N", scale=colours, title=None),
        strokeWidth=alt.condition(f"datum.who == '{OURS}'", alt.value(3.5), alt.value(1.5)),
    )
    points = base.mark_point(filled=True, size=45, opacity=1, aria=False).encode(strokeWidth=alt.value(0))
    return (base.mark_line() + points).properties(width=460, height=260)


def biased_noises(found: Found) -> set[str]:
    """Noises whose mean is off at the upper end of the range by more than six standard errors."""
    return {one.who for one in found.ends if abs(one.bias) > 6 * one.doubt}


def _ours_as_one(who: str) -> str:
    """Our mechanisms share one row or line, whichever was chosen."""
    return OURS if who.startswith(OURS) else who


def _data(rows: list[dict[str, Any]]) -> Any:
    return alt.Data(values=rows)  # type: ignore[no-untyped-call]  # altair leaves this one constructor untyped
