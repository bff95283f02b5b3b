"""The overview with one metric and with two hundred: pages of sixty cards, and a search over all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub_aggregator.app import create_app
from hubbub_aggregator.dashboard.routes import Dashboard
from tests.aggregator.dashboard.conftest import Visited
from tests.browser.sites import many


@pytest.mark.parametrize("metrics", [1, pytest.param(200, marks=pytest.mark.full)])
def test_the_overview_is_sensible_with_any_number_of_metrics(tmp_path: Path, metrics: int) -> None:
    service = many(tmp_path, metrics, 2)
    site = Visited(create_app(service), service)
    site.app.state.dashboard = Dashboard(site.app, is_patient=True)
    first = site.page("/")
    assert len(first.all("article")) == min(metrics, 60)
    numbers = [one.text for one in first.all("p", class_="headline")]
    assert len(numbers) == min(metrics, 60)
    assert all(any(digit in text for digit in "0123456789") for text in numbers)
    assert bool(first.all("form", class_="finder")) == (metrics > 6)
    if metrics > 60:
        pages = next(one for one in first.all("nav") if one.attributes["aria-label"] == "Pages of metrics")
        assert pages.text.split() == ["1", "2", "3", "4"]
        seen = [
            one.attributes["data-metric"] for page in range(1, 5) for one in site.page(f"/?page={page}").all("article")
        ]
        assert len(seen) == len(set(seen)) == metrics
        assert [one.attributes["data-metric"] for one in site.page("/?q=metric_199").all("article")] == ["metric_199"]
    service.close()
