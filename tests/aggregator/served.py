"""An aggregator in this process behind real HTTP, for pages and dashboards that ask one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from hubbub_aggregator.app import create_app
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from hubbub_aggregator.service import Aggregator

__all__ = ["served_by_http"]


@contextmanager
def served_by_http(service: Aggregator) -> Iterator[str]:
    """Its address, for as long as the block lasts. Its worker does not run: what it has released is there already."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until = time.monotonic() + PATIENCE
        while not server.started:
            assert time.monotonic() < until, "the aggregator is not served"
            time.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
