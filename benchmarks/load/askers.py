"""Locust users that ask: analysts who use the API, and people who read the dashboard, while devices report."""

from __future__ import annotations

import random
import time
from typing import Any

from locust import FastHttpUser, between, task

from benchmarks.load.devices import problem_name
from benchmarks.load.stock import plan_period
from benchmarks.load.world import RUN
from hubbub.period import Calendar

__all__ = ["Analyst", "Reader"]


class _Asker(FastHttpUser):
    abstract = True
    network_timeout = connection_timeout = 60.0

    def ask(self, path: str, name: str) -> None:
        """Get a page. Errors of the service are faults, and so are refusals, except that nothing is released yet."""
        with self.client.get(path, name=name, catch_response=True) as answer:
            status = answer.status_code
            if status == 0:
                RUN.tally.unreachable += 1
                return
            problem = problem_name(answer.headers, answer.content or b"")
            RUN.tally.judge("aggregator", status, problem)
            if status < 300 or problem == "nothing-released":
                answer.success()
            elif status < 500:
                RUN.tally.faults[f"aggregator: {status} {problem} for {name}"] += 1


class Analyst(_Asker):
    """Asks for estimates, series, comparisons and lists."""

    wait_time = between(0.5, 1.5)

    @property
    def metric(self) -> str:
        return random.choice(RUN.plan.metrics)

    @task(4)
    def estimate(self) -> None:
        self.ask(f"/v1/metrics/{self.metric}/estimate?top=10", "estimate")

    @task(2)
    def series(self) -> None:
        self.ask(f"/v1/metrics/{self.metric}/series?top=5&composed=false", "series")

    @task(2)
    def compare(self) -> None:
        span = self._spans()
        self.ask(f"/v1/metrics/{self.metric}/compare?top=10&{span}", "compare")

    @task(1)
    def table(self) -> None:
        self.ask(f"/v1/metrics/{self.metric}/estimate?format=csv", "estimate as CSV")

    @task(1)
    def listing(self) -> None:
        self.ask("/v1/metrics", "metrics")

    @task(1)
    def releases(self) -> None:
        self.ask("/v1/releases?limit=50", "releases")

    @task(1)
    def operation(self) -> None:
        self.ask("/v1/status", "status")

    def _spans(self) -> str:
        """Two adjacent periods that should be released by now."""
        plan = RUN.plan
        last = plan_period(plan, time.time()) - 2 - plan.grace // plan.period
        labels: list[Any] = [Calendar(plan.period).period(last + shift).label for shift in (-1, 0, 1)]
        return f"a_from={labels[0]}&a_to={labels[1]}&b_from={labels[1]}&b_to={labels[2]}"


class Reader(_Asker):
    """Reads the dashboard's pages."""

    wait_time = between(1, 3)

    @task(3)
    def overview(self) -> None:
        self.ask("/", "page: overview")

    @task(2)
    def metric(self) -> None:
        self.ask(f"/metric/{random.choice(RUN.plan.metrics)}", "page: metric")

    @task(1)
    def privacy(self) -> None:
        self.ask("/privacy", "page: privacy")

    @task(1)
    def operations(self) -> None:
        self.ask("/operations", "page: operations")

    @task(1)
    def collected(self) -> None:
        self.ask("/what-is-collected", "page: what is collected")
