"""Answers that the API leaves parts out of, for pages of many metrics. The parts that stay are the same."""

from __future__ import annotations

import pytest

from tests.aggregator.dashboard.conftest import Visited

COMPARE = "/v1/metrics/{}/compare?a_from=2027-01-12&a_to=2027-01-13&b_from=2027-01-13&b_to=2027-01-14"


@pytest.mark.parametrize("every", [1, 2, 3, 4, 7])
def test_every_nth_period_is_counted_from_the_newest(populated: Visited, every: int) -> None:
    whole = populated.get("/v1/metrics/nasty/series?to=2027-01-15").json()
    part = populated.get(f"/v1/metrics/nasty/series?to=2027-01-15&every={every}").json()
    assert part["points"] == whole["points"][::-1][::every][::-1]
    assert part["points"][-1]["period"] == "2027-01-14"


@pytest.mark.parametrize("name", ["dark_mode", "nasty"])
def test_a_headline_comparison_is_a_row_of_the_whole_one(populated: Visited, name: str) -> None:
    whole = populated.get(COMPARE.format(name)).json()
    (row,) = populated.get(COMPARE.format(name) + "&headline=true").json()["values"]
    assert row in whole["values"]
    leading = whole["headline"]["label"]
    assert row["label"] == leading or (leading is None and row["b"] == max(one["b"] for one in whole["values"]))


def test_without_p_values_and_guarantee_the_limits_are_the_same(populated: Visited) -> None:
    whole = populated.get(COMPARE.format("nasty")).json()
    part = populated.get(COMPARE.format("nasty") + "&p_values=false&composed=false").json()
    assert part["privacy"] is None
    for one, other in zip(whole["values"], part["values"], strict=True):
        assert other == {**one, "p_value": None, "adjusted_p_value": None}


@pytest.mark.parametrize("wrong", ["top=2&headline=true", "headline=true&simultaneous=false"])
def test_a_headline_that_contradicts_another_wish_is_refused(populated: Visited, wrong: str) -> None:
    assert populated.get(COMPARE.format("nasty") + f"&{wrong}").status_code == 422


def test_a_comparison_without_p_values_can_be_a_csv(populated: Visited) -> None:
    answer = populated.get(COMPARE.format("dark_mode") + "&p_values=false&composed=false&format=csv")
    assert answer.status_code == 200
    assert answer.text.count("\n") == 3
