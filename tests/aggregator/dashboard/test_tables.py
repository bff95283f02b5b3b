"""The table of a series: every number stands under the name of its value."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hubbub_aggregator.dashboard.pages.metric_series import STATES
from hubbub_aggregator.dashboard.pages.period_tables import gaps, trend


def series(*points: tuple[str, dict[str, float]]) -> Any:
    return SimpleNamespace(
        points=[
            SimpleNamespace(
                period=period,
                state="released" if values else "open",
                reports=1000,
                values=[{"label": label, "estimate": number} for label, number in values.items()],
            )
            for period, values in points
        ]
    )


def test_an_edit_that_changes_the_order_of_values_moves_no_number_to_another_name() -> None:
    found = trend(series(("1", {"dark": 0.6, "light": 0.4}), ("2", {"light": 0.5, "sepia": 0.3, "dark": 0.2})))
    assert found.labels == ["light", "sepia", "dark"]
    rows = {period: [value and value["estimate"] for value in values] for period, values, _ in found.rows}
    assert rows == {"2": [0.5, 0.3, 0.2], "1": [0.4, None, 0.6]}


def test_periods_without_a_number_are_no_rows() -> None:
    course = series(("1", {"dark": 0.6}), ("2", {}))
    assert [period for period, _, _ in trend(course).rows] == ["1"]
    listed, count = gaps(course)
    assert [(gap.period, gap.words, count) for gap in listed] == [("2", STATES["open"], 1)]
