"""The list of pages that the tests open, on every site."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.browser.sites import NAME

__all__ = ["EMPTY", "EVERY", "FEW", "HOSTILE", "POPULATED", "SOME", "View", "each"]


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
    View("hostile", "/public/values", "public", 2),
    View("hostile", "/privacy", "privacy", 3),
    View("hostile", "/operations", "operations"),
    View("hostile", "/what-is-collected", "collected"),
]
EVERY = [*POPULATED, *EMPTY, *HOSTILE]
QUICK = [POPULATED[0], POPULATED[2], *POPULATED[5:], EMPTY[0], HOSTILE[1], HOSTILE[5]]
"""What the everyday run looks at: a page for each template, one that is empty, and one that bites."""
SOME = [POPULATED[0], POPULATED[2], *POPULATED[5:], EMPTY[0]]
"""For what takes a while: a page for each template."""
FEW = [POPULATED[0], POPULATED[2], EMPTY[0]]
"""For what takes long on each page."""


def each(views: list[View], everyday: list[View] | None = None) -> pytest.MarkDecorator:
    """The test, once for each of these pages; those beyond the everyday ones in the full run."""
    chosen = QUICK if everyday is None else everyday
    marked = [pytest.param(view, id=str(view), marks=[] if view in chosen else [pytest.mark.full]) for view in views]
    return pytest.mark.parametrize("view", marked)
