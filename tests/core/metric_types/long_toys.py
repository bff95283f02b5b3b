"""Toy metrics with many values: more than a list shows, a screen has rows, or a line holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from hubbub_aggregator.service import Aggregator
from tests.browser.crowd import Crowd
from tests.browser.sites import DAY, TODAY, start

SYSTEMS = ["Windows 11 Professional", "macOS", "Linux", "Android"]
PLANS = ["Free of charge", "Personal", "Professional", "Enterprise", "Education", "Government", "Trial", "Internal"]
GROUPS = [f"group {place}" for place in range(6)]
COUNTRIES = [f"Country number {place}" for place in range(40)]
EDGES = list(range(10, 810, 10))
DEPARTMENTS = [f"Department of all the things {place}" for place in range(30)]

CODEBOOK = f"""
[collection]
name = "long-toys"
period = "1d"
device_epsilon = 24
release = {{ epsilon = 4, delta = 1e-3 }}
honest_fraction = 1

[metrics.system]
type = "pair"
attributes = [["operating system", {json.dumps(SYSTEMS)}], ["application plan", {json.dumps(PLANS)}]]
epsilon = 4
mechanism = "shrug"
description = "Operating system and plan, together"

[metrics.country]
type = "pair"
attributes = [["age group", {json.dumps(GROUPS)}], ["country", {json.dumps(COUNTRIES)}]]
epsilon = 4
mechanism = "shrug"
description = "Age and country, together"

[metrics.wait]
type = "ladder"
edges = {EDGES}
epsilon = 4
mechanism = "krr"
description = "How long a start takes"

[metrics.steps]
type = "ladder"
edges = [10, 20]
epsilon = 4
mechanism = "krr"
description = "A curve of two places"

[metrics.minutes]
type = "by_group"
groups = ["department", {json.dumps(DEPARTMENTS)}]
amounts = [0, 30, 90]
unit = "min"
epsilon = 4
mechanism = "krr"
description = "How long the app is open"
"""
"""The types must be registered."""

PERIODS = 3
REPORTS = 20_000


def long_toys(root: Path, periods: int = PERIODS, **settings: Any) -> Aggregator:
    """Some days, each with other numbers. In each list of inputs the next is more frequent, the last by far."""
    start(root, CODEBOOK, (TODAY - periods) * DAY + 60.0, **settings).close()
    service = start(root, CODEBOOK, **settings)
    crowd = Crowd(service.storage, service.codebooks)
    for period in range(TODAY - periods, TODAY):
        for metric in service.codebooks.newest.metrics:
            shares = np.arange(1.0, 1 + metric.mechanism.domain.estimates) ** (1 + (TODAY - period) / 2)
            shares[-1] = shares.sum() / 2
            crowd.shares(metric.name, period, shares, REPORTS)
    return service
