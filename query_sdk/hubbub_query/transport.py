"""HTTP to an aggregator, by the standard library. A refusal becomes an error in the aggregator's own words."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hubbub.loopback_host import is_loopback_host
from hubbub_query.errors import NoAnswer, UnreadableAnswer, refused

__all__ = ["PATIENCE", "Answer", "Connection", "exchange", "opener"]

PATIENCE = 120.0
"""Seconds to wait for an answer: for the first one after a release, guarantees may have to be composed."""


class Answer(NamedTuple):
    """Any HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An aggregator never redirects, and another host must not get the token."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Connection:
    """The address of an aggregator, and what every request to it carries."""

    address: str
    token: str | None = field(default=None, repr=False)
    patience: float = PATIENCE

    def get(self, path: str, asked: Mapping[str, str | None] | None = None, accept: str = "application/json") -> bytes:
        """The body of the answer. `asked` are query parameters; those that are None are left out."""
        text = urllib.parse.urlencode({name: value for name, value in (asked or {}).items() if value is not None})
        headers = {"Accept": accept} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        answer = exchange(self.address, path + (f"?{text}" if text else ""), headers, self.patience)
        if answer.status >= 300:
            raise _problem(self.address, answer)
        return answer.body

    def json(self, path: str, asked: Mapping[str, str | None] | None = None) -> Any:
        """The JSON at a path."""
        try:
            return json.loads(self.get(path, asked))
        except ValueError as error:
            raise UnreadableAnswer(
                f"the server at {self.address} is not an aggregator; is the address right?"
            ) from error


def exchange(address: str, target: str, headers: Mapping[str, str], patience: float = PATIENCE) -> Answer:
    """Any HTTP answer; NoAnswer if none comes."""
    if not address.startswith(("http://", "https://")):
        raise NoAnswer(f"{address!r} is not an address: write it like http://127.0.0.1:8702")
    try:
        request = urllib.request.Request(f"{address.rstrip('/')}{target}", headers=dict(headers))  # noqa: S310  http or https, as checked above
        with opener(address).open(request, timeout=patience) as answer:
            return Answer(answer.status, _lower(answer.headers), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, _lower(error.headers), error.read())
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NoAnswer(f"no aggregator answers at {address} ({reason})") from error


def opener(address: str) -> urllib.request.OpenerDirector:
    """An opener that asks loopback addresses without a proxy: a proxy would see the token, and cannot reach them."""
    local = is_loopback_host(urllib.parse.urlsplit(address).hostname or "")
    return urllib.request.build_opener(_NoRedirects, *([urllib.request.ProxyHandler({})] if local else []))


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _problem(address: str, answer: Answer) -> Exception:
    if answer.status < 400:
        where = answer.headers.get("location", "another address")
        return UnreadableAnswer(
            f"the server at {address} sends readers on to {where}; is that the aggregator's address?"
        )
    try:
        problem = json.loads(answer.body)
        name = str(problem["type"]).rpartition(":")[2]
        return refused(problem["detail"], name=name, title=problem["title"], status=answer.status)
    except (ValueError, KeyError, TypeError):
        return UnreadableAnswer(
            f"the server at {address} answered {answer.status} without saying why; is the address right?"
        )
