"""Asking an aggregator, and turning what it refuses into one line that says why."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

import click


def ask(address: str, path: str, query: Mapping[str, str | None] | None = None, token: str | None = None) -> Any:
    """The JSON at a path, or a ClickException with the problem's own words."""
    if not address.startswith(("http://", "https://")):
        raise click.ClickException(f"{address!r} is not an address: write it like http://127.0.0.1:8702")
    asked = urllib.parse.urlencode({key: value for key, value in (query or {}).items() if value is not None})
    request = urllib.request.Request(f"{address.rstrip('/')}{path}" + (f"?{asked}" if asked else ""))  # noqa: S310  http or https, as checked above
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with opener(address).open(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise click.ClickException(_detail(error)) from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise click.ClickException(
            f"no aggregator answers at {address} ({reason}); start one with `hubbub up`"
        ) from error


def opener(address: str) -> urllib.request.OpenerDirector:
    """No proxy for this machine: one that the environment names would see the token, and cannot reach us anyway."""
    local = urllib.parse.urlsplit(address).hostname in ("127.0.0.1", "localhost", "::1")
    return urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))


def _detail(error: urllib.error.HTTPError) -> str:
    try:
        problem = json.load(error)
        return f"{problem['title']} {problem['detail']}"
    except (ValueError, KeyError, TypeError):
        return f"the aggregator answered {error.code} without saying why; is the address right?"
