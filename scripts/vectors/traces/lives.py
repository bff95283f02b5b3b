"""Traces about consent, restarts and clocks."""

from __future__ import annotations

from scripts.vectors.traces.script import Script, problem
from scripts.vectors.traces.world import BOTH, DAY, NOON, ONE_FLAG, ONE_STEADY, SECOND, bundle, toml_of

__all__ = ["lives"]


def lives() -> list[Script]:
    return [
        Script("consent is withdrawn and given again", BOTH)
        .flush()
        .record("flag", True)
        .do("withdraw consent")
        .record("flag", True)
        .flush(now=True)
        .do("give consent")
        .flush(now=True)
        .record("flag", True)
        .flush(now=True)
        .next_day()
        .flush(now=True),
        Script("consent is withdrawn while a report waits", BOTH)
        .flush()
        .record("flag", True)
        .flush()
        .do("withdraw consent")
        .flush(now=True)
        .do("give consent")
        .flush(now=True)
        .record("flag", True)
        .flush(now=True),
        Script("no consent at all", BOTH)
        .do("withdraw consent")
        .flush()
        .record("flag", True)
        .next_day()
        .flush(now=True),
        Script("consent that comes later reports no day before it", BOTH)
        .do("withdraw consent")
        .flush()
        .next_day(2)
        .do("give consent")
        .flush(now=True)
        .next_day()
        .flush(now=True),
        Script("disabled and enabled", BOTH)
        .flush()
        .record("flag", True)
        .flush()
        .do("disable")
        .record("flag", True)
        .flush(now=True)
        .do("restart")
        .record("flag", True)
        .flush(now=True)
        .do("enable")
        .flush(now=True)
        .record("flag", True)
        .next_day()
        .record("flag", True)
        .flush(now=True),
        Script("a restart between record and flush", BOTH)
        .flush()
        .record("flag", True)
        .record("steady", True)
        .do("restart")
        .flush(now=True)
        .next_day()
        .do("restart")
        .flush(now=True),
        Script("a restart between the draw and the upload", BOTH)
        .flush()
        .record("flag", True)
        .answers(None)
        .flush(now=True)
        .do("restart")
        .answers(problem("overloaded"))
        .flush(now=True)
        .do("restart")
        .flush(now=True),
        Script("the state is cleared: the device forgets", BOTH)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .do("clear the state")
        .flush()
        .record("flag", False)
        .flush(now=True),
        *_clocks(),
    ]


def _clocks() -> list[Script]:
    week = bundle("a week of grace, again", toml_of(ONE_FLAG, ONE_STEADY, grace="7d"))
    return [
        Script("the clock is set back a day", week, starts_at=NOON + 2 * DAY)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .do("set the clock", to=NOON + DAY)
        .flush()
        .record("flag", True)
        .flush(now=True)
        .do("set the clock", to=NOON + 2 * DAY)
        .flush()
        .record("flag", True)
        .flush(now=True),
        Script("the clock is set ahead and back", BOTH)
        .flush()
        .record("flag", True)
        .do("set the clock", to=NOON + 10 * DAY)
        .flush(now=True)
        .record("flag", True)
        .flush(now=True)
        .do("set the clock", to=NOON + 60 * SECOND)
        .flush(now=True)
        .record("flag", False)
        .do("set the clock", to=NOON + DAY)
        .flush(now=True)
        .record("flag", True)
        .flush(now=True)
        .do("set the clock", to=NOON + 10 * DAY)
        .record("flag", True)
        .flush(now=True),
        Script("the clock goes back under a day's limit", week, max_epsilon="3")
        .flush()
        .record("flag", True)
        .flush(now=True)
        .do("set the clock", to=NOON - DAY)
        .flush()
        .record("flag", True)
        .flush(now=True),
    ]
