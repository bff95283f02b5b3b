"""Log of the services as a person reads it in a terminal: the time of each line, and no line over eighty columns."""

from __future__ import annotations

import json
import re
import threading
from datetime import UTC, datetime
from typing import IO

import click

from hubbub_cli.terminal.period_names import named
from hubbub_cli.terminal.wrapped_text import wrapped

__all__ = ["RelayedLog"]

_LABEL = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""A period or moment as the services write it."""


class RelayedLog:
    """Reads the JSON log of each service and prints it to stderr. What is read before `show` waits for it."""

    def __init__(self) -> None:
        self._waiting: list[str] | None = []
        self._lock = threading.Lock()
        self._readers: list[threading.Thread] = []

    def read(self, stream: IO[str]) -> None:
        """Relay the stream of one service until it ends."""
        reader = threading.Thread(target=self._relay, args=(stream,), daemon=True)
        reader.start()
        self._readers.append(reader)

    def show(self, *, only_trouble: bool = False) -> None:
        """Print what came so far, and from now on each line at once. `only_trouble`: of the former, warnings alone."""
        with self._lock:
            waiting, self._waiting = self._waiting or [], None
            for line in waiting:
                if not only_trouble or _is_trouble(line):
                    _print(line)

    def finish(self) -> None:
        """Wait for the last lines of services that have stopped."""
        for reader in self._readers:
            reader.join(timeout=2)

    def _relay(self, stream: IO[str]) -> None:
        for line in stream:
            with self._lock:
                if self._waiting is None:
                    _print(line)
                else:
                    self._waiting.append(line)


def _is_trouble(line: str) -> bool:
    return _entry(line).get("level") != "info"


def _print(line: str) -> None:
    found = _entry(line)
    if not found:
        click.echo(line.rstrip("\n"), err=True)
        return
    time = datetime.fromisoformat(found["time"]).astimezone(UTC)
    level = "" if found["level"] == "info" else f"{found['level']}: "
    error = f": {found['error']}" if "error" in found else ""
    message = _LABEL.sub(lambda label: _spoken(label[0], time), found["message"])
    text = wrapped(f"{level}{message}{error}", first=f"{time:%H:%M:%S}  ", rest=" " * 10)
    click.echo(click.style(text, bold=True) if level else text, err=True)


def _spoken(label: str, now: datetime) -> str:
    """A period of the day on which the line was written by its time alone, like that of the line."""
    begins = datetime.fromisoformat(label).astimezone(UTC)
    return f"{begins:%H:%M:%S}" if begins.date() == now.date() else named(label)


def _entry(line: str) -> dict[str, str]:
    """The members of a line that a service's log wrote; none of any other line."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) and {"time", "level", "message"} <= found.keys() else {}
