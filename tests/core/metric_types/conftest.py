"""The toy types and mechanism, registered; and two periods of them through both services."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from hubbub.simulation import InsecureRandomness
from hubbub_aggregator.app import create_app
from hubbub_aggregator.dashboard.routes import Dashboard
from hubbub_cli.simulator.in_process_services import Pipeline
from tests.aggregator.dashboard.conftest import Visited
from tests.core.metric_types.toys import CODEBOOK, registered_toys
from tests.support.patience import wait_for

DEVICES = 1_000


@dataclass
class Ran:
    """Both services after two periods: what the devices held, and what was found in each."""

    held: list[dict[str, list[Any]]]
    found: list[dict[str, Any]]
    visited: Visited

    def get(self, path: str, **request: Any) -> Any:
        return self.visited.get(path, **request)

    def ranges(self, metric: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """From and to of both periods."""
        first, second = (one[metric]["periods"] for one in self.found)
        return (first["from"], first["to"]), (second["from"], second["to"])


@pytest.fixture(scope="package")
def toys() -> Iterator[None]:
    with registered_toys():
        yield


@pytest.fixture(scope="package")
def ran(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:  # noqa: ARG001  they must be known
    """In the second period devices hold only what comes in the upper half of each list of inputs."""
    home = tmp_path_factory.mktemp("toys")
    (home / "metrics.toml").write_text(CODEBOOK)
    generator = random.Random(3)
    with Pipeline(home, home / "metrics.toml") as pipeline:
        known = {metric.name: metric.values for metric in pipeline.codebook.metrics}
        held = [
            {name: [one.made_up(generator.uniform(least, 1), 0) for _ in range(DEVICES)] for name, one in known.items()}
            for least in (0.0, 0.5)
        ]
        rng = InsecureRandomness(7)
        found = [{name: one for name, (one, _) in pipeline.period(each, rng, 0.95).items()} for each in held]
        app = create_app(pipeline._service)
        app.state.dashboard = Dashboard(app, is_patient=True)
        yield Ran(held, found, Visited(app, pipeline._service))


@pytest.fixture(scope="package")
def address(ran: Ran) -> Iterator[str]:
    """Where the aggregator listens."""
    with listening(ran.visited.app) as address:
        yield address


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """An app on a port, and its address."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        wait_for(lambda: server.started)
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)
