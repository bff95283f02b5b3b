"""The SDK snippet for a codebook: the lines of Python that `hubbub up` and the dashboard tell a newcomer to run.

They work with the codebook that they are printed for, also where an unchanged `Client` would refuse it.
"""

from __future__ import annotations

import json
from math import ceil
from typing import TYPE_CHECKING

from hubbub.number_format import plain
from hubbub.period import DAY, duration_seconds
from hubbub.usual_device_limits import USUAL_MAX_EPSILON, USUAL_MIN_PERIOD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hubbub.codebook import Codebook, Metric

__all__ = ["sdk_snippet"]

_WIDTH = 76
"""Columns of a line. `hubbub up` indents by four, and a terminal has 80."""


def sdk_snippet(codebook: Codebook, address: str, trust: str) -> str:
    """An app that records an example of each metric that is enabled, and prints what will be sent."""
    records = [line for metric in codebook.in_file_order if metric.enabled for line in _record(metric)]
    lines = [
        "from hubbub_client import Client",
        "",
        "with Client(",
        f"    {_text(address)},",
        f"    trust={_text(trust)},",
        "    consent=True,  # only here, where you are the person; an app asks",
        '    state_dir="my-app-state",',
        *(f"    {line}" for line in _limits(codebook)),
        ") as client:",
        "    client.flush(timeout=5)  # fetches the codebook; an app need not wait",
        *(f"    {line}" for line in records),
        "    print(client.preview())  # what is kept here, and when it is sent",
    ]
    return "\n".join(lines)


def _limits(codebook: Codebook) -> Iterator[str]:
    """The arguments without which a device would not collect by this codebook."""
    seconds = codebook.collection.calendar.seconds
    if seconds < duration_seconds(USUAL_MIN_PERIOD):
        yield f"min_period=None,  # only for a trial: usual devices want {USUAL_MIN_PERIOD} or more"
        if codebook.spent * max(1, DAY // seconds) > USUAL_MAX_EPSILON:
            yield f"max_epsilon=None,  # only for a trial: usual devices spend {plain(USUAL_MAX_EPSILON)} a day"
    elif codebook.spent > USUAL_MAX_EPSILON:
        usual = plain(USUAL_MAX_EPSILON)
        yield f"max_epsilon={ceil(codebook.spent)},  # what one period spends; usual devices spend {usual} a day"


def _record(metric: Metric) -> list[str]:
    value = metric.values.example()
    shown = plain(value) if isinstance(value, float) else _text(value) if isinstance(value, str) else repr(value)
    line = f"client.record({_text(metric.name)}, {shown})"
    if len(line) + 4 <= _WIDTH:
        return [line]
    return ["client.record(", f"    {_text(metric.name)},", f"    {shown},", ")"]


def _text(text: str) -> str:
    """A string in Python, in double quotes as a formatter would write it. JSON's escapes mean the same in Python."""
    return json.dumps(text, ensure_ascii=not text.isprintable())
