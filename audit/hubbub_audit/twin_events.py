"""Histories of twin devices, as data: the events that both twins live through, and those that only one records.

A history is a list of events. Time passes, the app ends and starts, the person changes their mind, the network fails,
the aggregator publishes edits, honest or not. Each `Record` belongs to one of the twins; all other events are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, TypeVar

from hubbub.codebook import Codebook
from hubbub.randomness import Randomness

__all__ = ["EDITS", "STORIES", "Event", "History", "codebook_of", "random_history"]

T = TypeVar("T")
Weather: TypeAlias = Literal["fine", "offline", "busy", "lost answers", "portal", "unknown key", "no bundle"]
_WEATHERS: tuple[Weather, ...] = ("fine", "offline", "busy", "lost answers", "portal", "unknown key", "no bundle")


@dataclass(frozen=True, slots=True)
class Pass:
    """Time passes; the background thread does its work."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SetClock:
    """The clock of the device is set, forward or back."""

    by: float


@dataclass(frozen=True, slots=True)
class Restart:
    """The app ends, normally or by a kill, and starts again after `away` seconds."""

    kill: bool
    away: float


@dataclass(frozen=True, slots=True)
class Flush:
    now: bool


@dataclass(frozen=True, slots=True)
class Consent:
    given: bool


@dataclass(frozen=True, slots=True)
class Switch:
    """The person's own switch: `enable` or `disable`."""

    on: bool


@dataclass(frozen=True, slots=True)
class Network:
    weather: Weather


@dataclass(frozen=True, slots=True)
class Publish:
    """The aggregator publishes another codebook, `lead` periods ahead. A lead of 0 or less changes a period that has
    begun: no honest aggregator does that, and no honest shuffler passes it on."""

    edit: str
    lead: int


@dataclass(frozen=True, slots=True)
class Keys:
    """A change of the key of the running period and of later ones."""

    change: Literal["revoke", "swap", "none", "next"]


@dataclass(frozen=True, slots=True)
class SwitchOff:
    """The bundle switches these metrics off, and all others on."""

    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """The state file is deleted while the app runs."""


@dataclass(frozen=True, slots=True)
class Record:
    """One of the twins (0 or 1) records a value."""

    twin: int
    metric: str
    value: bool | str | float


Event: TypeAlias = (
    Pass | SetClock | Restart | Flush | Consent | Switch | Network | Publish | Keys | SwitchOff | Delete | Record
)

MINUTE, HOUR = 60.0, 3_600.0
_HEAD = """
[collection]
name = "twins"
period = "1h"
grace = "{grace}"
device_epsilon = 8
release = {{ epsilon = 1, delta = 1e-6 }}
{more}
"""
_METRICS = {
    "crashed": 'type = "boolean"\nmissing = false\nepsilon = 1\n',
    "theme": 'type = "category"\nvalues = ["light", "dark", "other"]\nother = "other"\nmissing = "light"\nepsilon = 1\n'
    "share = 0.5\n",
    "errors": 'type = "mean"\nbounds = [0, 10]\nreduce = "sum"\nmissing = 0\nepsilon = 0.5\nmechanism = "laplace"\n',
    "clicked": 'type = "boolean"\nepsilon = 1\n',
    "startup_ms": 'type = "mean"\nbounds = [0, 5000]\nepsilon = 1\nmechanism = "laplace"\n',
}
"""The first three report whether anything was recorded or not; the last two only if something was."""
VALUES: dict[str, tuple[bool | str | float, ...]] = {
    "crashed": (True, False),
    "theme": ("dark", "light", "mauve"),
    "errors": (1, 7, 1e9),
    "clicked": (True, False),
    "startup_ms": (0, 812.5, -3),
}


def _written(metrics: dict[str, str], grace: str = "1h", more: str = "") -> str:
    tables = [f"[metrics.{name}]\n{body}min_batch = 100\n" for name, body in metrics.items()]
    return _HEAD.format(grace=grace, more=more) + "\n".join(tables)


def _with(name: str, old: str, new: str) -> dict[str, str]:
    return _METRICS | {name: _METRICS[name].replace(old, new)}


EDITS: dict[str, str] = {
    "first": _written(_METRICS),
    "other epsilon": _written(_with("crashed", "epsilon = 1", "epsilon = 1.5")),
    "other values": _written(_with("theme", '"dark", ', '"dark", "sepia", ')),
    "one less": _written({name: body for name, body in _METRICS.items() if name != "crashed"}),
    "one more": _written(_METRICS | {"added": _METRICS["crashed"]}),
    "now with missing": _written(_with("clicked", "epsilon = 1", "missing = false\nepsilon = 1")),
    "no longer missing": _written(_with("crashed", "missing = false\n", "")),
    "switched off": _written(_with("crashed", "epsilon = 1", "enabled = false\nepsilon = 1")),
    "other grace": _written(_METRICS, grace="3h"),
    "short delay": _written(_METRICS, more='delay = "1m"'),
    "other reducers": _written(
        _with("errors", '"sum"', '"count"')
        | {"theme": _METRICS["theme"] + 'reduce = "most_common"\n'}
        | {"startup_ms": _METRICS["startup_ms"] + 'reduce = "median"\n'}
    ),
    "dearer": _written(_with("startup_ms", "epsilon = 1", "epsilon = 4")),
}


@cache
def codebook_of(edit: str) -> Codebook:
    """The codebook of a named edit."""
    return Codebook.from_toml(EDITS[edit])


@dataclass(frozen=True, slots=True)
class History:
    """A history that two twins live through."""

    events: tuple[Event, ...]
    max_epsilon: float | None = None
    lifetime_epsilon: float | None = None
    max_age: int = 1_200
    """Seconds for which a device may keep the bundle before it asks again."""
    packaged: str | None = None
    """Name of the edit that is packaged with the app, if any."""
    late: float = 0.0
    """Seconds by which the background thread runs late."""
    name: str = "random"

    @property
    def recorded(self) -> frozenset[str]:
        """Names of the metrics that one of the twins recorded."""
        return frozenset(event.metric for event in self.events if isinstance(event, Record))


def random_history(rng: Randomness, length: int = 16) -> History:
    """Any possible history. A test that controls the generator can choose which."""
    events = tuple(_event(rng) for _ in range(1 + rng.below(length)))
    return History(
        (*events, Pass(3 * HOUR)),
        max_epsilon=_one_of(rng, (None, None, 8.0, 9.0, 4.5)),
        lifetime_epsilon=_one_of(rng, (None, None, 5.0, 10.0)),
        max_age=_one_of(rng, (1_200, 1_200, 7_200, 0)),
        packaged=_one_of(rng, (None, None, "first", "other epsilon")),
        late=_one_of(rng, (0.0, 0.05)),
    )


def _event(rng: Randomness) -> Event:
    return _one_of(rng, _MAKERS)(rng)


def _record(rng: Randomness) -> Event:
    metric = _one_of(rng, tuple(VALUES))
    return Record(rng.below(2), metric, _one_of(rng, VALUES[metric]))


_MAKERS: tuple[Callable[[Randomness], Event], ...] = (
    *([_record] * 5),
    *([lambda rng: Pass(_one_of(rng, (20.0, 10 * MINUTE, 25 * MINUTE, HOUR, 2 * HOUR)))] * 4),
    lambda rng: Restart(rng.coin(1, 2), _one_of(rng, (1.0, 10 * MINUTE, HOUR, 3 * HOUR))),
    lambda rng: Flush(rng.coin(1, 2)),
    lambda rng: Network(_one_of(rng, _WEATHERS)),
    *([lambda rng: Publish(_one_of(rng, tuple(EDITS)), _one_of(rng, (1, 1, 2, 0, -1)))] * 2),
    lambda rng: Keys(_one_of(rng, ("revoke", "swap", "none", "next"))),
    lambda rng: SwitchOff(_one_of(rng, ((), ("crashed",), ("clicked", "theme"), tuple(_METRICS)))),
    lambda rng: Consent(rng.coin(1, 2)),
    lambda rng: Switch(rng.coin(2, 3)),
    lambda _: Delete(),
    lambda rng: SetClock(_one_of(rng, (-HOUR, 2 * HOUR, -20.0, 40.0))),
)
"""Kinds of events, some more often than others."""


def _one_of(rng: Randomness, options: Sequence[T]) -> T:
    return options[rng.below(len(options))]


_CRASH = Record(1, "crashed", True)
_TO_THE_HOUR = HOUR - 100 - 0.02
"""From the start to just before the first period ends: histories start 100 seconds into a period."""

STORIES: tuple[History, ...] = (
    History((Pass(10 * MINUTE), _CRASH, Pass(4 * HOUR)), name="one crashes, the other does nothing"),
    History((Pass(10 * MINUTE), Pass(4 * HOUR), _CRASH, Pass(2 * HOUR)), name="a crash after hours of silence"),
    History(
        (
            *(Pass(2 * HOUR), Network("offline"), Publish("other epsilon", 1), Pass(HOUR), _CRASH, Pass(HOUR)),
            *(Network("fine"), Pass(3 * HOUR)),
        ),
        name="an edit while the device is offline",
    ),
    History(
        (Pass(HOUR + 55 * MINUTE), Publish("other epsilon", 1), Pass(8 * MINUTE), _CRASH, Pass(4 * HOUR)),
        max_age=3_600,
        name="an edit just before the period ends",
    ),
    History(
        (Pass(HOUR), Publish("other epsilon", -1), Pass(10 * MINUTE), _CRASH, Pass(3 * HOUR)),
        name="an edit of a period that has begun",
    ),
    History(
        (Pass(10 * MINUTE), Keys("swap"), _CRASH, Pass(30 * MINUTE), Keys("revoke"), Pass(3 * HOUR)),
        name="keys that change under way",
    ),
    History(
        (
            *(Pass(HOUR), Record(1, "clicked", True), _CRASH, SwitchOff(("crashed", "clicked")), Pass(40 * MINUTE)),
            *(_CRASH, Record(1, "clicked", True), SwitchOff(()), Publish("short delay", 1), _CRASH, Pass(4 * HOUR)),
        ),
        name="metrics that are switched off and on again",
    ),
    History(
        (Pass(5 * MINUTE), Record(1, "startup_ms", 812.5), Record(1, "clicked", True), Pass(8 * HOUR)),
        lifetime_epsilon=10.0,
        name="a budget that is nearly spent",
    ),
    History(
        (Pass(5 * MINUTE), Record(1, "startup_ms", 812.5), Pass(HOUR), Record(1, "startup_ms", 3), Pass(4 * HOUR)),
        max_epsilon=5.0,
        name="a day's budget that is nearly spent",
    ),
    History(
        (Pass(59 * MINUTE), Consent(False), _CRASH, Consent(True), Pass(3 * HOUR)),
        name="consent that is withdrawn for a moment",
    ),
    History(
        (Consent(False), Restart(False, 1.0), Consent(True), Pass(10.0), _CRASH, Pass(3 * HOUR)),
        name="consent that comes while the app runs",
    ),
    History(
        (Pass(HOUR), Pass(_TO_THE_HOUR), Delete(), _CRASH, Pass(4 * HOUR)),
        late=0.05,
        name="a file that is deleted just before the period ends",
    ),
    History(
        (
            *(Pass(5 * MINUTE), Network("busy"), Record(1, "clicked", True), Pass(50 * MINUTE)),
            *(Network("fine"), Flush(now=True), Pass(3 * HOUR)),
        ),
        name="a service that refuses what was recorded",
    ),
    History(
        (
            *(Pass(5 * MINUTE), Record(1, "errors", 1), Record(1, "errors", 7), Record(1, "clicked", True)),
            *(Restart(False, 1.0), Restart(True, 90 * MINUTE), Pass(3 * HOUR)),
        ),
        packaged="other epsilon",
        name="restarts, and a packaged codebook that is not in force",
    ),
    History(
        (
            *(Publish("other reducers", 1), Pass(70 * MINUTE)),
            *(Record(1, "theme", value) for value in ("dark", "mauve", "dark", "light", "dark")),
            *(Record(1, "errors", value) for value in (7, 1, 1e9)),
            *(Record(1, "startup_ms", value) for value in (812.5, -3, 0, 812.5)),
            *(Restart(True, 1.0), Record(1, "theme", "light"), Record(1, "errors", 1), Record(1, "startup_ms", 0)),
            *(Network("offline"), Pass(HOUR), Network("fine"), Pass(3 * HOUR)),
        ),
        name="values that are counted, tallied and sorted",
    ),
)
"""Histories that once told twins apart, or nearly did."""
