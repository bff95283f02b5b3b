"""Every page that the tests look at, on every site."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.browser.sites import NAME

__all__ = ["EMPTY", "EVERY", "HOSTILE", "POPULATED", "View", "each"]


class View(NamedTuple):
    """A page of a site, and the least number of charts that it must have."""

    site: str
    path: str
    page: str
    charts: int = 0

    def __str__(self) -> str:
        return f"{self.site}{self.path[:24]}"


POPULATED = [
    View("populated", "/", "overview", 4),
    View("populated", "/metric/dark_mode", "metric", 1),
    View("populated", "/metric/theme", "metric", 2),
    View("populated", "/metric/startup_ms", "metric", 1),
    View("populated", "/metric/camera", "metric", 1),
    View("populated", "/privacy", "privacy", 3),
    View("populated", "/operations", "operations"),
    View("populated", "/what-is-collected", "collected"),
]
EMPTY = [
    View("empty", "/", "overview"),
    View("empty", "/metric/camera", "metric"),
    View("empty", "/privacy", "privacy"),
    View("empty", "/operations", "operations"),
    View("empty", "/what-is-collected", "collected"),
]
HOSTILE = [
    View("hostile", "/", "overview", 6),
    View("hostile", "/metric/values", "metric", 1),
    View("hostile", "/metric/html", "metric", 1),
    View("hostile", "/metric/long", "metric", 1),
    View("hostile", f"/metric/{NAME}", "metric", 1),
    View("hostile", "/privacy", "privacy", 3),
    View("hostile", "/operations", "operations"),
    View("hostile", "/what-is-collected", "collected"),
]
EVERY = [*POPULATED, *EMPTY, *HOSTILE]


def each(views: list[View]) -> pytest.MarkDecorator:
    """The test, once for each of these pages."""
    return pytest.mark.parametrize("view", views, ids=str)
