"""Asking an aggregator, and turning what it refuses into one line that says why."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import click

PATIENCE = 120.0
"""Seconds for an answer: the first one after a release may have guarantees to compose."""


class Refusal(click.ClickException):
    """What the aggregator refused, in its own words; `name` is that of the problem."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def ask(address: str, path: str, query: Mapping[str, str | None] | None = None, token: str | None = None) -> Any:
    """The JSON at a path, or a ClickException with the problem's own words."""
    try:
        return json.loads(fetch(address, path, query, token))
    except ValueError as error:
        raise click.ClickException(f"what answers at {address} is no aggregator; is the address right?") from error


def fetch(
    address: str,
    path: str,
    query: Mapping[str, str | None] | None = None,
    token: str | None = None,
    accept: str = "application/json",
) -> bytes:
    """The answer as it came, or a ClickException as above."""
    if not address.startswith(("http://", "https://")):
        raise click.ClickException(f"{address!r} is not an address: write it like http://127.0.0.1:8702")
    asked = urllib.parse.urlencode({key: value for key, value in (query or {}).items() if value is not None})
    request = urllib.request.Request(f"{address.rstrip('/')}{path}" + (f"?{asked}" if asked else ""))  # noqa: S310  http or https, as checked above
    request.add_header("Accept", accept)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with opener(address).open(request, timeout=PATIENCE) as answer:
            body: bytes = answer.read()
            return body
    except urllib.error.HTTPError as error:
        raise _refusal(error, token) from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise click.ClickException(
            f"no aggregator answers at {address} ({reason}); start one with `hubbub up`, or give --address"
        ) from error


def opener(address: str) -> urllib.request.OpenerDirector:
    """No proxy for this machine: one that the environment names would see the token, and cannot reach us anyway."""
    local = urllib.parse.urlsplit(address).hostname in ("127.0.0.1", "localhost", "::1")
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))


def _refusal(error: urllib.error.HTTPError, token: str | None) -> Refusal:
    try:
        problem = json.load(error)
        name = str(problem["type"]).rpartition(":")[2]
        text = f"{problem['title']} {problem['detail']}"
    except (ValueError, KeyError, TypeError):
        return Refusal(f"the aggregator answered {error.code} without saying why; is the address right?", "")
    if name == "unauthorized":
        text += "; the one in HUBBUB_TOKEN is not" if token else "; set HUBBUB_TOKEN"
    return Refusal(text, name)
