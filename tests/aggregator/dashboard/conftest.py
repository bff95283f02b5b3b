"""Aggregators behind the dashboard: one with some days of releases and hostile words, and one that has just started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import numpy as np
import pytest
from fastapi import FastAPI

from hubbub_aggregator.app import create_app
from hubbub_aggregator.dashboard.routes import Dashboard
from hubbub_aggregator.service import Aggregator
from tests.aggregator.dashboard.markup import Page
from tests.browser.crowd import Crowd
from tests.browser.sites import DAY, TODAY, start
from tests.support import http
from tests.support.codebooks import dark_mode, metric, photo_app, startup_ms

TOKEN = "a-token-of-an-analyst"  # noqa: S105  it guards nothing
NASTY = ['<script>alert("1")</script>', "it's \"quoted\" & 'so'", "שלום", "👍🏽", "x" * 200, "version 3.14159265"]
CODEBOOK = photo_app(
    dark_mode(1.0, missing=False, description=NASTY[0] + " </script> {{ 7 * 7 }}", owner=NASTY[1]),
    metric("nasty", type="category", values=NASTY, epsilon=3.0),
    startup_ms(1.0, mechanism="laplace", description="Milliseconds to the first picture"),
    grace="1d",
    device_epsilon=8.0,
    delta=1e-6,
    honest_fraction=0.9,
)


@dataclass
class Visited:
    """An app, asked as a browser would."""

    app: FastAPI
    service: Aggregator

    def head(self, path: str) -> httpx2.Response:
        return self.get(path, "HEAD")

    def get(self, path: str, method: str = "GET", **request: Any) -> httpx2.Response:
        return http.ask(self.app, method, path, **request)

    def page(self, path: str, status: int = 200) -> Page:
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return Page(answer.text)


@pytest.fixture(scope="session")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:
    """Four days, the first of `nasty` discarded, and an edit of `startup_ms` before the last."""
    root = tmp_path_factory.mktemp("dashboard")
    start(root, CODEBOOK, (TODAY - 4) * DAY + 60.0).close()
    edited = CODEBOOK.replace("bounds = [0, 5000]", "bounds = [0, 6000]")
    start(root, edited, (TODAY - 2) * DAY + 60.0).close()
    service = start(root, edited, single_operator=True)
    crowd = Crowd(service.storage, service.codebooks)
    for period in range(TODAY - 4, TODAY):
        crowd.shares("dark_mode", period, np.array([0.6, 0.4]), 2000, invalid={"duplicate": 3})
        if period == TODAY - 4:
            crowd.discard("nasty", period)
        else:
            crowd.shares("nasty", period, np.arange(1.0, len(NASTY) + 1), 3000)
        crowd.numbers("startup_ms", period, 1200, 300, 2000)
    app = create_app(service)
    app.state.dashboard = Dashboard(app, is_patient=True)  # whatever else this machine does
    yield Visited(app, service)
    service.close()


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visited]:
    """Behind a token, an hour after its first start."""
    service = start(
        tmp_path_factory.mktemp("empty"), CODEBOOK, analyst_token=TOKEN, shuffler_address="https://reports.example.com"
    )
    yield Visited(create_app(service), service)
    service.close()
