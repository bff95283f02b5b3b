"""Dashboard pages: bytes over the network and CPU time of the server, against their limits.

The overview is measured over fifty metrics and a year of daily releases. Other pages are measured over four metrics,
one of them with a list of a thousand values; over nothing; and over the longest list. The weight of a page is what a
browser with an empty cache fetches for it, compressed: the document, the style sheet and the script. Cold is the first
request after a start, including the work behind it, which makes guarantees and charts. Warm: no release since then.
The service draws the cards of the overview ahead, after its start and after each release; the first look is measured
after that, and what was done ahead is shown beside it.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import numpy as np

from benchmarks.table import Goal, Row, at_most, show
from hubbub_aggregator.app import create_app
from tests.browser.crowd import Crowd
from tests.browser.sites import TODAY, YEAR, empty, many, populated, start

if TYPE_CHECKING:
    from hubbub_aggregator.service import Aggregator

METRICS = 50
WEIGHT, CPU, COLD = 100_000, 0.1, 3.0
"""Limits: compressed bytes of a page; CPU seconds of the overview, warm, and of the first look after a start that has
drawn its cards ahead, as the service does after each release."""
LONG = 65_536
_LOADED = re.compile(r"<(?:link|script|img|source)\b[^>]*>")
_LINK = re.compile(r'(?:href|src)="(/[^"]+)"')


@dataclass
class Client:
    """A headless browser on one event loop: the app's own work behind a page goes on between requests."""

    app: Any
    runner: asyncio.Runner

    def ask(self, path: str, *, settle: bool = False) -> tuple[float, int, str]:
        """CPU seconds of one answer, its bytes as sent, and its text. `settle` includes the work that it started."""

        async def go() -> httpx2.Response:
            transport = httpx2.ASGITransport(self.app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://aggregator") as http:
                answer = await http.get(path, headers={"Accept-Encoding": "gzip"})
            while settle and (others := asyncio.all_tasks() - {asyncio.current_task()}):
                await asyncio.wait(others)
            return answer

        begin = time.process_time()
        answer = self.runner.run(go())
        seconds = time.process_time() - begin
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text[:200]}"
        return seconds, answer.num_bytes_downloaded, answer.text

    def draw_ahead(self) -> float:
        """CPU seconds of what the service does after its start and after a release, before anyone looks."""

        async def go() -> None:
            await self.app.state.dashboard.draw_ahead()
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)

        begin = time.process_time()
        self.runner.run(go())
        return time.process_time() - begin

    def weight(self, path: str) -> int:
        """Bytes of a page with everything that it loads."""
        _, own, text = self.ask(path)
        loaded = {linked for tag in _LOADED.findall(text) for linked in _LINK.findall(tag)}
        assert len(loaded) >= 2, "a page has a style sheet and a script"
        return own + sum(self.ask(linked)[1] for linked in loaded)


def measured(service: Aggregator, title: str, paths: list[str], goals: dict[str, Goal]) -> list[Row]:
    """For each page its weight, and its warm CPU time (the median of five) compared with cold. `goals` are for CPU."""
    rows = []
    with asyncio.Runner() as runner:
        client = Client(create_app(service), runner)
        ahead = client.draw_ahead()
        for path in paths:
            cold, _, _ = client.ask(path, settle=True)
            client.ask(path, settle=True)
            warm = statistics.median(client.ask(path)[0] for _ in range(5))
            heavy = client.weight(path)
            name = f"{title}: {path}"
            if path == "/":
                goal = at_most(1e3 * COLD, "figure") if goals.get(path) else None
                rows.append(Row(f"{name}, first look", 1e3 * cold, "ms of CPU", "drawn ahead", 1e3 * ahead, goal))
            rows.append(Row(f"{name}, compressed", heavy / 1e3, "kB", "limit", WEIGHT / 1e3, at_most(1)))
            rows.append(Row(f"{name}, warm", 1e3 * warm, "ms of CPU", "cold", 1e3 * cold, goals.get(path)))
    service.close()
    return rows


def long_list(root: Path, days: int = 30) -> Aggregator:
    """The longest list that a codebook may hold."""
    text = f"""
[collection]
name = "bench"
period = "1d"
device_epsilon = 6.0
release = {{ epsilon = 0.5, delta = 1e-6 }}

[metrics.long]
type = "category"
values = {json.dumps([f"value {index}" for index in range(LONG)])}
epsilon = 6.0
"""
    start(root, text, (TODAY - days) * 86_400 + 60.0).close()
    service = start(root, text)
    crowd = Crowd(service.storage, service.codebooks)
    for period in range(TODAY - days, TODAY):
        crowd.shares("long", period, 1 / np.arange(1, LONG + 1), 100_000)
    return service


def rows(*, long: bool = False) -> list[Row]:
    """Every page of several sites. The short form leaves out the site that is neither heavy nor empty."""
    parts: dict[str, tuple[Callable[[Path], Aggregator], list[str]]] = {
        f"{METRICS} metrics, {YEAR} periods": (lambda root: many(root, METRICS), ["/", "/metric/metric_03"]),
        f"4 metrics, 1,000 values, {YEAR} periods": (
            populated,
            [
                "/",
                "/metric/dark_mode",
                "/metric/theme",
                "/metric/camera",
                "/privacy",
                "/operations",
                "/what-is-collected",
            ],
        ),
        "nothing yet": (empty, ["/", "/privacy", "/operations"]),
        f"{LONG:,} values, 30 periods": (long_list, ["/", "/metric/long", "/what-is-collected"]),
    }
    found = []
    for number, (title, (make, paths)) in enumerate(parts.items()):
        if number == 1 and not long:
            continue
        goals = {"/": at_most(1e3 * CPU, "figure")} if number == 0 else {}
        with tempfile.TemporaryDirectory() as folder:
            found += measured(make(Path(folder) / "site"), title, paths, goals)
    return found


def main() -> None:
    print(show(rows(long=True)))


if __name__ == "__main__":
    main()
