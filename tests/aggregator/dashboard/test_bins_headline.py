"""A number in bins is led by its median, and a count by its mean per device, on the overview and on its own page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hubbub_aggregator.app import create_app
from hubbub_aggregator.dashboard.routes import Dashboard
from tests.aggregator.dashboard.conftest import Visited
from tests.browser.crowd import Crowd
from tests.browser.sites import DAY, TODAY, start
from tests.support.codebooks import metric, photo_app

BINNED = photo_app(
    metric("response_ms", type="distribution", bounds=[0, 1000], bins=20, unit="ms", epsilon=3.0),
    metric("shares", type="count", cap=9, unit="photos", epsilon=3.0),
    grace="1d",
    device_epsilon=8.0,
    delta=1e-6,
    honest_fraction=0.9,
)
LAST, END = "2027-01-14", "2027-01-15"


@pytest.fixture(scope="module")
def binned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:
    """Two days: responses became 200 ms slower, and shared photos stayed what they were."""
    root = tmp_path_factory.mktemp("binned")
    start(root, BINNED, (TODAY - 3) * DAY + 60.0).close()
    service = start(root, BINNED)
    crowd = Crowd(service.storage, service.codebooks)
    for period, middle in ((TODAY - 2, 8), (TODAY - 1, 12)):
        crowd.shares("response_ms", period, np.exp(-(((np.arange(20) - middle) / 3) ** 2)), 20_000)
        crowd.shares("shares", period, 0.5 ** np.arange(10), 20_000)
    app = create_app(service)
    app.state.dashboard = Dashboard(app, is_patient=True)
    yield Visited(app, service)
    service.close()


def asked(binned: Visited, name: str) -> dict[str, Any]:
    found: dict[str, Any] = binned.get(f"/v1/metrics/{name}/distribution?from={LAST}&to={END}").json()["segments"][0]
    return found


def card(binned: Visited, name: str) -> str:
    found = next(one for one in binned.page("/").all("article") if one.attributes["data-metric"] == name)
    return " ".join(found.text.split())


def test_the_card_of_a_number_in_bins_says_its_median_with_interval_and_unit(binned: Visited) -> None:
    median = next(one for one in asked(binned, "response_ms")["quantiles"] if one["q"] == 0.5)
    text = card(binned, "response_ms")
    assert f"{median['estimate']:.0f} ms median" in text
    assert 550 < median["estimate"] < 700
    words = median["words"]
    assert words.startswith("half of the devices are below ")
    assert words.endswith(" ms")
    assert words[1:] in text
    assert "%" not in text.partition("ε")[0]


def test_its_change_is_that_of_the_median(binned: Visited) -> None:
    shift = binned.get(
        f"/v1/metrics/response_ms/distribution?from={LAST}&to={END}&before_from=2027-01-13&before_to={LAST}&quantiles=0.5"
    ).json()["shifts"][0]["shift"]
    text = card(binned, "response_ms")
    assert f"up {shift['estimate']:.0f} ms since 13 Jan 2027: real" in text
    assert "No clear change since 13 Jan 2027" in card(binned, "shares")


def test_the_card_of_a_count_says_its_mean_per_device(binned: Visited) -> None:
    mean = asked(binned, "shares")["mean"]
    text = card(binned, "shares")
    assert f"{mean['estimate']:.2f} photos per device, on average" in text
    assert 0.7 < mean["estimate"] < 1.3
    assert "median" not in text
    assert "%" not in text.partition("ε")[0]


@pytest.mark.parametrize(("name", "called"), [("response_ms", "median"), ("shares", "per device, on average")])
def test_the_page_of_the_metric_leads_with_the_same(binned: Visited, name: str, called: str) -> None:
    page = binned.page(f"/metric/{name}?from={LAST}&to={END}")
    big = next(" ".join(one.text.split()) for one in page.all("p") if one.attributes.get("class") == "big")
    assert big.endswith(called)
    assert big in card(binned, name)


def test_its_page_has_no_interval_of_bins_beside_the_median(binned: Visited) -> None:
    page = binned.page(f"/metric/response_ms?from={LAST}&to={END}")
    sure = next(" ".join(one.text.split()) for one in page.all("p") if one.attributes.get("class") == "sure")
    median = next(one for one in asked(binned, "response_ms")["quantiles"] if one["q"] == 0.5)
    assert sure == f"H{median['words'][1:]}, with 95% confidence"
