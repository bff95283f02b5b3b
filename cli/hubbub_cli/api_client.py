"""Requests of the command to an aggregator: errors of the client become one line that says what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from hubbub_cli.services.own_command import own_command
from hubbub_query import NoAnswer, QueryError, Refused
from hubbub_query.transport import PATIENCE, Connection, opener
from hubbub_query.transport import exchange as _exchange

__all__ = ["PATIENCE", "Refusal", "ask", "exchange", "explained", "fetch", "opener", "refusal"]


class Refusal(click.ClickException):
    """A refusal in the aggregator's own words; `name` is the problem's name."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


def ask(address: str, path: str, query: Mapping[str, str | None] | None = None, token: str | None = None) -> Any:
    """The JSON at a path, or a ClickException with the problem's own words."""
    with explained(token):
        return Connection(address, token).json(path, query)


def fetch(
    address: str,
    path: str,
    query: Mapping[str, str | None] | None = None,
    token: str | None = None,
    accept: str = "application/json",
) -> bytes:
    """The body of the answer, unparsed, or a ClickException as from `ask`."""
    with explained(token):
        return Connection(address, token).get(path, query, accept)


def exchange(
    address: str, target: str, headers: Mapping[str, str], patience: float = PATIENCE
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers by lower-case name, and body of any HTTP answer; a ClickException if none comes."""
    with explained(None):
        return _exchange(address, target, headers, patience)


@contextmanager
def explained(token: str | None) -> Iterator[None]:
    """Turn errors of a query into those of a command."""
    try:
        yield
    except NoAnswer as error:
        more = f"; start one with `{own_command()} up`, or give --address" if error.__cause__ else ""
        raise click.ClickException(f"{error}{more}") from error
    except Refused as error:
        raise refusal(error.title, error.detail, error.name, token) from error
    except QueryError as error:
        raise click.ClickException(str(error)) from error


def refusal(title: str, detail: str, name: str, token: str | None) -> Refusal:
    """A problem of the API in one line; if the token is at fault, with what to do.

    The detail alone says it. The title is for a problem whose detail only adds a number or a name.
    """
    text = detail or title
    if name == "unauthorized":
        text += "; the one in HUBBUB_TOKEN is not valid" if token else "; set HUBBUB_TOKEN"
    return Refusal(text, name)
