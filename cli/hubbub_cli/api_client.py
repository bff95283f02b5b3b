"""Requests to an aggregator. A refusal becomes one line that says why."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import click

from hubbub.loopback_host import is_loopback_host

PATIENCE = 120.0
"""Seconds to wait for an answer: for the first one after a release, guarantees may have to be composed."""


class Refusal(click.ClickException):
    """A refusal in the aggregator's own words; `name` is the problem's name."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def ask(address: str, path: str, query: Mapping[str, str | None] | None = None, token: str | None = None) -> Any:
    """The JSON at a path, or a ClickException with the problem's own words."""
    try:
        return json.loads(fetch(address, path, query, token))
    except ValueError as error:
        raise click.ClickException(f"the server at {address} is not an aggregator; is the address right?") from error


def fetch(
    address: str,
    path: str,
    query: Mapping[str, str | None] | None = None,
    token: str | None = None,
    accept: str = "application/json",
) -> bytes:
    """The body of the answer, unparsed, or a ClickException as from `ask`."""
    asked = urllib.parse.urlencode({key: value for key, value in (query or {}).items() if value is not None})
    headers = {"Accept": accept} | ({"Authorization": f"Bearer {token}"} if token else {})
    status, _, body = exchange(address, path + (f"?{asked}" if asked else ""), headers)
    if status >= 300:
        raise _refusal(status, body, token)
    return body


def exchange(
    address: str, target: str, headers: Mapping[str, str], patience: float = PATIENCE
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers by lower-case name, and body of any HTTP answer; a ClickException if none comes."""
    if not address.startswith(("http://", "https://")):
        raise click.ClickException(f"{address!r} is not an address: write it like http://127.0.0.1:8702")
    try:
        request = urllib.request.Request(f"{address.rstrip('/')}{target}", headers=dict(headers))  # noqa: S310  http or https, as checked above
        with opener(address).open(request, timeout=patience) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {name.lower(): value for name, value in error.headers.items()}, error.read()
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise click.ClickException(
            f"no aggregator answers at {address} ({reason}); start one with `hubbub up`, or give --address"
        ) from error


def opener(address: str) -> urllib.request.OpenerDirector:
    """An opener that asks loopback addresses without a proxy: a proxy would see the token, and cannot reach them."""
    local = is_loopback_host(urllib.parse.urlsplit(address).hostname or "")
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))


def _refusal(status: int, body: bytes, token: str | None) -> Refusal:
    try:
        problem = json.loads(body)
        name = str(problem["type"]).rpartition(":")[2]
        return refusal(problem["title"], problem["detail"], name, token)
    except (ValueError, KeyError, TypeError):
        return Refusal(f"the aggregator answered {status} without saying why; is the address right?", "")


def refusal(title: str, detail: str, name: str, token: str | None) -> Refusal:
    """A problem of the API in one line; if the token is at fault, with what to do.

    The detail alone says it. The title is for a problem whose detail only adds a number or a name.
    """
    text = detail or title
    if name == "unauthorized":
        text += "; the one in HUBBUB_TOKEN is not valid" if token else "; set HUBBUB_TOKEN"
    return Refusal(text, name)
