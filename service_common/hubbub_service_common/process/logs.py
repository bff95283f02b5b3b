"""Logs of a service: one line per event, as text or as JSON, and never about a request.

A line has a time, so a line about a request would record when someone reported. Errors are named by their type and
place. Their text is left out, since it may repeat what was sent.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, TextIO, TypeAlias

from hubbub.errors import HubbubError

__all__ = ["LogFormat", "configure", "ends_in_format", "where"]

LogFormat: TypeAlias = Literal["text", "json"]
_ExcInfo: TypeAlias = "tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]"


def configure(kind: LogFormat, service: str, stream: TextIO | None = None) -> None:
    """Send this process's log to one stream, in one format. Called once. `service` is the name of its logger."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if kind == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(service).setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error"):
        server = logging.getLogger(name)
        server.handlers[:], server.propagate = [], True
        server.setLevel(logging.ERROR)  # its warnings are about requests


@contextmanager
def ends_in_format(kind: LogFormat, log: logging.Logger) -> Iterator[None]:
    """Log an error that ends the service, and that the operator can fix, as its last line: in JSON if the log is."""
    try:
        yield
    except HubbubError as error:
        if kind != "json":
            raise  # the command prints it in one line
        log.critical("%s", error)
        raise SystemExit(1) from None


def where(error: BaseException) -> str:
    """An error by its type and place, without its text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        """The line. The id of a batch, given as `extra={"batch": id}`, ends it."""
        return super().formatMessage(record) + (f" (batch {record.batch})" if hasattr(record, "batch") else "")

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802  logging's own name
        return where(ei[1]) if ei[1] is not None else ""


class _Json(_Text):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if hasattr(record, "batch"):
            line["batch"] = record.batch
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)
