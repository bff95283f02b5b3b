"""The comparison as pictures, in docs/images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from benchmarks.mechanisms.least import least_mean_variance
from benchmarks.mechanisms.run import OURS, Found

LIBRARIES = ["hubbub", "pure-ldp", "multi-freq-ldpy", "opendp", "diffprivlib"]
COLOURS = ["#111111", "#1f77b4", "#d95f02", "#7b3294", "#1b9e77"]
DIM = 0.85


def draw(found: Found, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name, chart in (("accuracy", accuracy(found)), ("cost", cost(found)), ("means", means(found))):
        chart.save(str(folder / f"mechanisms-{name}.svg"))


def accuracy(found: Found) -> Any:
    """Error over the optimum against the length of the list, a panel an epsilon."""
    rows = [
        {
            "library": one.who.split()[0],
            "protocol": _protocol(one.who),
            "size": one.size,
            "epsilon": f"epsilon {one.epsilon:g}",
            "ratio": one.ratio,
        }
        for one in found.shares
    ]
    base = alt.Chart(_data(rows)).encode(
        x=alt.X(
            "size:Q", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=[2, 16, 128, 1024, 65536], format="~s")
        ).title("values in the list"),
        y=alt.Y("ratio:Q", scale=alt.Scale(type="log"), title="error, as a multiple of the least possible"),
        color=_colour(),
        detail="protocol:N",
        strokeWidth=alt.condition(f"datum.library == '{OURS}'", alt.value(3.5), alt.value(1.2)),
        opacity=alt.condition(f"datum.library == '{OURS}'", alt.value(1), alt.value(DIM)),
    )
    points = base.mark_point(filled=True, size=26).encode(strokeWidth=alt.value(0))
    panel = (base.mark_line() + points).properties(width=190, height=230)
    return panel.facet(facet=alt.Facet("epsilon:N", title=None), columns=4)


def cost(found: Found) -> Any:
    """Error against the server's time at 1024 values, one point a protocol."""
    errors = {one.who: one.ratio for one in found.shares if one.size == 1024 and one.epsilon == 1}
    rows = [
        {"library": one.who.split()[0], "protocol": one.who, "server": one.server, "ratio": errors[one.who]}
        for one in found.crowd
        if one.epsilon == 1 and one.who in errors
    ]
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("server:Q", scale=alt.Scale(type="log", nice=True), axis=alt.Axis(format="~g", tickCount=6)).title(
            "CPU microseconds a report on the server"
        ),
        y=alt.Y("ratio:Q", scale=alt.Scale(type="log", domain=[0.8, 200]), axis=alt.Axis(format="~g")).title(
            "error, as a multiple of the least possible"
        ),
        color=_colour(),
    )
    label = base.mark_text(align="left", dx=8, dy=-6, angle=330).encode(text="protocol:N")
    return (base.mark_point(filled=True, size=80) + label).properties(width=620, height=320)


def means(found: Found) -> Any:
    """Variance of unbiased noisy numbers over the optimum, against epsilon."""
    biased = biased_noises(found)
    rows = [
        {
            "library": one.who.split()[0],
            "protocol": one.who if one.who.split()[0] != OURS else OURS,
            "epsilon": one.epsilon,
            "ratio": one.variance / least_mean_variance(one.epsilon),
        }
        for one in found.numbers
        if one.who not in biased
    ]
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("epsilon:Q", scale=alt.Scale(type="log", base=2), axis=alt.Axis(values=[0.5, 1, 2, 4])),
        y=alt.Y("ratio:Q", title="variance, as a multiple of the least worst case"),
        color=_colour(),
        detail="protocol:N",
        strokeWidth=alt.condition(f"datum.library == '{OURS}'", alt.value(3.5), alt.value(1.2)),
    )
    last = base.transform_filter("datum.epsilon == 4").mark_text(align="left", dx=8).encode(text="protocol:N")
    points = base.mark_point(filled=True, size=40).encode(strokeWidth=alt.value(0))
    return (base.mark_line() + points + last.encode(strokeWidth=alt.value(0))).properties(width=460, height=260)


def biased_noises(found: Found) -> set[str]:
    """Whose mean is off at the upper end of the range by more than six standard errors."""
    return {one.who for one in found.ends if abs(one.bias) > 6 * one.doubt}


def _protocol(who: str) -> str:
    """Ours is one line whatever it chose."""
    return OURS if who.startswith(OURS) else who


def _colour() -> Any:
    return alt.Color("library:N", scale=alt.Scale(domain=LIBRARIES, range=COLOURS), title=None)


def _data(rows: list[dict[str, Any]]) -> Any:
    return alt.Data(values=rows)  # type: ignore[no-untyped-call]  # altair leaves this one constructor untyped
