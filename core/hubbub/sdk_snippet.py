"""The SDK snippet for a codebook: the lines of Python or JavaScript that `hubbub up` and the dashboard tell a newcomer.

They work with the codebook that they are printed for, also where an unchanged `Client` would refuse it.
"""

from __future__ import annotations

import json
from math import ceil
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hubbub.number_format import plain
from hubbub.period import DAY, duration_seconds
from hubbub.usual_device_limits import USUAL_MAX_EPSILON, USUAL_MIN_PERIOD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hubbub.codebook import Codebook, Metric

__all__ = ["Language", "sdk_snippet"]

Language: TypeAlias = Literal["Python", "JavaScript"]
_Limit: TypeAlias = tuple[str, int | None, str]
"""Name and value of an argument, and why it is there."""
_WIDTH = 76
"""Columns of a line. `hubbub up` indents by four, and a terminal has 80."""


def sdk_snippet(codebook: Codebook, address: str, trust: str, language: Language = "Python") -> str:
    """An app that records an example of each metric that is enabled, and prints what will be sent."""
    records = [metric for metric in codebook.in_file_order if metric.enabled]
    lines = _python if language == "Python" else _javascript
    return "\n".join(lines(_text(address), _text(trust), list(_limits(codebook)), records))


def _python(address: str, trust: str, limits: Iterable[_Limit], metrics: Iterable[Metric]) -> list[str]:
    return [
        "from hubbub_client import Client",
        "",
        "with Client(",
        f"    {address},",
        f"    trust={trust},",
        "    consent=True,  # only here, where you are the person; an app asks",
        '    state_dir="my-app-state",',
        *(f"    {name}={value},  # {why}" for name, value, why in limits),
        ") as client:",
        "    client.flush(timeout=5)  # fetches the codebook; an app need not wait",
        *(f"    {line}" for metric in metrics for line in _record(metric, repr, 4)),
        "    print(client.preview())  # what is kept here, and when it is sent",
    ]


def _javascript(address: str, trust: str, limits: Iterable[_Limit], metrics: Iterable[Metric]) -> list[str]:
    camel = {"min_period": "minPeriod", "max_epsilon": "maxEpsilon"}
    return [
        'import { Client } from "hubbub-client"; // Node: "hubbub-client/node"',
        'import { previewInWords } from "hubbub-client/words";',
        "",
        f"const client = new Client({address}, {{",
        f"  trust: {trust},",
        "  consent: true, // only here, where you are the person; a site asks",
        '  freshStorage: "report", // only for a trial; Node: stateDir: "state"',
        *(f"  {camel[name]}: {'null' if value is None else value}, // {why}" for name, value, why in limits),
        "});",
        "await client.flush({ timeout: 5 }); // fetches the codebook; no need to wait",
        *(line for metric in metrics for line in _record(metric, _json, 0, ";")),
        "// what is kept here, and when it is sent:",
        "console.log(previewInWords(await client.preview()));",
    ]


def _limits(codebook: Codebook) -> Iterator[_Limit]:
    """The arguments without which a device would not collect by this codebook."""
    seconds = codebook.collection.calendar.seconds
    if seconds < duration_seconds(USUAL_MIN_PERIOD):
        yield "min_period", None, f"only for a trial: usual devices want {USUAL_MIN_PERIOD} or more"
        if codebook.spent * max(1, DAY // seconds) > USUAL_MAX_EPSILON:
            usual = plain(USUAL_MAX_EPSILON)
            yield "max_epsilon", None, f"only for a trial: usual devices spend {usual} a day"
    elif codebook.spent > USUAL_MAX_EPSILON:
        usual = plain(USUAL_MAX_EPSILON)
        yield "max_epsilon", ceil(codebook.spent), f"what one period spends; usual devices spend {usual} a day"


def _record(metric: Metric, write: Any, indent: int, end: str = "") -> list[str]:
    value = metric.values.example()
    shown = plain(value) if isinstance(value, float) else _text(value) if isinstance(value, str) else write(value)
    line = f"client.record({_text(metric.name)}, {shown}){end}"
    if len(line) + indent <= _WIDTH:
        return [line]
    return ["client.record(", f"    {_text(metric.name)},", f"    {shown},", f"){end}"]


def _json(value: object) -> str:
    return json.dumps(value)


def _text(text: str) -> str:
    """A string in double quotes as a formatter would write it. JSON's escapes mean the same in both languages."""
    return json.dumps(text, ensure_ascii=not text.isprintable())
