"""Aggregators to look at: one with a year of releases, one that has just started, one whose codebook is hostile.

Each has a stopped clock, so that a page looks the same on every day.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from hubbub_aggregator.main import build
from hubbub_aggregator.service import Aggregator
from hubbub_aggregator.settings import Settings
from hubbub_service_common.clock.trusted_clock import TrustedClock
from tests.browser.crowd import Crowd
from tests.browser.serve import TOKEN
from tests.support.codebooks import dark_mode, metric, photo_app, startup_ms, theme
from tests.support.compiled import write_compiled

__all__ = ["DAY", "NOW", "SITES", "TODAY", "empty", "hostile", "many", "populated"]

DAY = 86_400
TODAY = 1_800_000_000 // DAY
"""The period that is open: 15 January 2027."""
NOW = TODAY * DAY + 10 * 3600.0
YEAR = 365

_REVIEWED = date(2027, 6, 30)

_THEMES = ["light", "dark", "other"]
_CAMERAS = [
    f"{maker} {series}{number}"
    for maker in ("Aster", "Borealis", "Corvid", "Dune", "Ember", "Fjord", "Glade", "Heron", "Isle", "Juniper")
    for series in ("A", "E", "M", "S", "X")
    for number in range(100, 2100, 100)
]
EDIT = TODAY - 100
"""The period from which on a fourth theme is offered: another question, so another id."""
SILENT = range(TODAY - 203, TODAY - 197)
"""Periods of which nothing came."""
DISCARDED = (TODAY - 160, TODAY - 33, TODAY - 12)


def _codebook(*metrics: str, budget: float) -> str:
    return photo_app(*metrics, grace="1d", device_epsilon=budget, honest_fraction=0.9)


def _photo_app(themes: list[str]) -> str:
    ui: dict[str, Any] = {"owner": "ui-team@example.com", "expires": _REVIEWED}
    return _codebook(
        dark_mode(1.0, description="Whether the dark theme is on", **ui),
        theme(2.0, values=themes, description="The theme chosen in the settings", **ui),
        startup_ms(
            1.0,
            description="Milliseconds from launch to the first picture",
            owner="performance@example.com",
            expires=_REVIEWED,
        ),
        metric(
            "camera",
            type="category",
            values=_CAMERAS,
            epsilon=4.0,
            mechanism="oue",
            description="The camera that took the newest picture",
            owner="import-team@example.com",
            expires=_REVIEWED,
        ),
        budget=8.0,
    )


def start(root: Path, text: str, now: float = NOW, **settings: Any) -> Aggregator:
    """The service over this codebook at this moment; the first call makes its state."""
    codebook = root / "codebook.json"
    root.mkdir(parents=True, exist_ok=True)
    write_compiled(codebook, text)
    chosen = Settings(codebook=codebook, state_dir=root / "state", processes=1, **settings)
    return build(chosen, TrustedClock.set_by(lambda: now))


def _leave(service: Aggregator) -> None:
    service.close()


def empty(root: Path, **settings: Any) -> Aggregator:
    """An hour after its first start: a codebook, and not one report."""
    return start(root, _photo_app(_THEMES), **settings)


def populated(root: Path, days: int = YEAR, **settings: Any) -> Aggregator:
    """A year of a photo app: a trend and a week's rhythm, a long list, an edit, gaps, refusals and discards."""
    _leave(start(root, _photo_app(_THEMES), (TODAY - days) * DAY + 60.0, **settings))
    _leave(start(root, text := _photo_app([*_THEMES, "sepia"]), (EDIT - 1) * DAY + 60.0, **settings))
    service = start(root, text, **settings)
    crowd = Crowd(service.storage, service.codebooks)
    ranks = 1 / (np.arange(1, len(_CAMERAS) + 1) + 3)
    crowd.rng.shuffle(ranks)
    for period in range(TODAY - days, TODAY):
        if period in SILENT:
            continue
        done = (period - TODAY + days) / days
        reports = 6000  # few sizes: each costs the accountant a law
        wave = 0.02 * math.sin(2 * math.pi * period / 7)
        invalid = {"cannot-open": 2, "duplicate": 7} if period % 30 == 4 else {}
        dark = 0.31 + 0.27 * done + wave
        if period in DISCARDED:
            crowd.discard("dark_mode", period)
        else:
            size = reports if done > 0.4 else 4000
            crowd.shares("dark_mode", period, np.array([1 - dark, dark]), size, invalid=invalid)
        themes = [0.9 - dark, dark, 0.1] if period < EDIT else [0.82 - dark, dark, 0.1, 0.08]
        crowd.shares("theme", period, np.array(themes), reports)
        crowd.numbers("startup_ms", period, 1900 - 800 * done + 900 * wave, 600, reports)
        crowd.shares("camera", period, ranks, 4 * reports)
    crowd.refusal("camera", TODAY - 5, "batch-too-small", 40)
    crowd.refusal("camera", TODAY - 4, "batch-too-small", 2000, malformed=1900)
    crowd.refusal("theme", TODAY - 90, "batch-too-late", 4000)
    return service


LONG = "A very long description that goes on and on, as people write them when nobody counts: " + "word " * 23
HTML = """<script>alert("1")</script><img src=x onerror='alert(2)'><b>bold</b> & "quoted" it's {{ 7 * 7 }} --> </svg>"""
RTL = "שלום עולם مرحبا بالعالم \u2066left\u2069"
EMOJI = "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇨🇭 \u200bé"
UNBROKEN = "x" * 200
NAME = "n" * 64


def hostile_values() -> list[str]:
    """What a list of values may hold, and no page may be broken by."""
    return [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(2)>",
        "</title></svg><script>alert(3)</script>",
        "' onmouseover='alert(4)",
        '" onfocus="alert(5)" autofocus="',
        "&lt;already escaped&gt; &amp;",
        "javascript:alert(6)",
        "{{ 7 * 7 }} {% raw %} ${7*7}",
        '=HYPERLINK("http://example.com")',
        "👩‍👩‍👧‍👦🏳️‍🌈",
        "שלום עולם",
        "مرحبا بالعالم",
        "../../etc/passwd",
        "null",
        " ",
        UNBROKEN,
        "long words " * 18,
        "字" * 200,
    ]


def _hostile() -> str:
    return _codebook(
        metric("html", description=HTML, type="boolean", epsilon=1.0, owner=HTML),
        metric("right_to_left", description=RTL, type="boolean", epsilon=1.0, owner=RTL),
        metric("emoji", description=EMOJI, type="mean", bounds=[-1, 1], epsilon=1.0, owner=EMOJI),
        metric("long", description=LONG, type="mean", bounds=[0, 10**15], epsilon=1.0, owner=UNBROKEN),
        metric(NAME, description=UNBROKEN, type="boolean", epsilon=1.0),
        metric(
            "values",
            description="A list of values that bite",
            type="category",
            values=hostile_values(),
            epsilon=3.0,
            public=True,
        ),
        budget=10.0,
    )


def hostile(root: Path, days: int = 4, **settings: Any) -> Aggregator:
    """Names, descriptions, owners and values that break pages which are not careful."""
    _leave(start(root, _hostile(), (TODAY - days) * DAY + 60.0, **settings))
    service = start(root, _hostile(), **settings)
    crowd = Crowd(service.storage, service.codebooks)
    values = len(hostile_values())
    for period in range(TODAY - days, TODAY):
        for name in ("html", "right_to_left", NAME):
            crowd.shares(name, period, np.array([0.4, 0.6]), 2000)
        crowd.numbers("emoji", period, 0.2, 0.3, 2000)
        crowd.numbers("long", period, 4e14, 1e14, 2000)
        crowd.shares("values", period, 1 + np.arange(values), 5000)
    return service


def many(root: Path, metrics: int = 50, days: int = YEAR, **settings: Any) -> Aggregator:
    """So many metrics of the four kinds over so many days: what the overview is measured on."""
    kinds: list[tuple[dict[str, Any], Callable[[Crowd, str, int], bytes]]] = [
        ({"type": "boolean", "epsilon": 1.0}, lambda c, n, p: c.shares(n, p, np.array([0.6, 0.4]), 1000)),
        (
            {"type": "category", "values": ["light", "dark", "sepia", "other"], "epsilon": 2.0},
            lambda c, n, p: c.shares(n, p, np.array([0.4, 0.3, 0.2, 0.1]), 2000),
        ),
        ({"type": "mean", "bounds": [0, 5000], "epsilon": 1.0}, lambda c, n, p: c.numbers(n, p, 1200, 300, 1000)),
        (
            {"type": "category", "values": [f"value {i}" for i in range(50)], "epsilon": 3.0},
            lambda c, n, p: c.shares(n, p, 1 / np.arange(1, 51), 3000),
        ),
    ]
    named = {f"metric_{index:02d}": kinds[index % len(kinds)] for index in range(metrics)}
    tables = [metric(name, **keys, description=f"What {name} counts") for name, (keys, _) in named.items()]
    text = _codebook(*tables, budget=500.0)
    _leave(start(root, text, (TODAY - days) * DAY + 60.0, **settings))
    service = start(root, text, **settings)
    crowd = Crowd(service.storage, service.codebooks)
    for period in range(TODAY - days, TODAY):
        for name, (_, draw) in named.items():
            draw(crowd, name, period)
    return service


def living(root: Path) -> Aggregator:
    """Young and small: a test lets it grow."""
    return many(root, metrics=4, days=5)


def guarded(root: Path) -> Aggregator:
    """One that asks for a token."""
    return many(root, metrics=2, days=3, analyst_token=TOKEN)


SITES: dict[str, Callable[[Path], Aggregator]] = {
    "populated": populated,
    "empty": empty,
    "hostile": hostile,
    "living": living,
    "guarded": guarded,
}
