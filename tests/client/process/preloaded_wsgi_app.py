"""A WSGI app whose client is made before gunicorn forks its workers (`--preload`), as one in `AppConfig.ready` is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from hubbub_client import Client
from tests.client.process.forking_app import make

client: Client = make(os.environ["TEST_ADDRESS"], os.environ["TEST_STATE"])
client.flush(60)
client.record("own0", True)  # in the master


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Records the metric that the path names, and says in which process."""
    outcome = client.record(environ["PATH_INFO"].strip("/"), True)
    start_response("200 OK", [("content-type", "text/plain")])
    return [f"{os.getpid()} {outcome.value}".encode()]
