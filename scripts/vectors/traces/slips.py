"""Traces for mistakes of the reference device that no other trace showed: see tests/vectors/faults.py."""

from __future__ import annotations

from scripts.vectors.traces.script import Script, problem
from scripts.vectors.traces.world import (
    BOTH,
    DAY,
    FLAG,
    HOUR,
    NOON,
    ONE_FLAG,
    ONE_STEADY,
    SECOND,
    TODAY,
    bundle,
    reduced,
    toml_of,
)

__all__ = ["slips"]

_LETTERS = 'type = "category"\nvalues = ["a", "\u00e9", "other"]\nother = "other"\nmechanism = "krr"'


def slips() -> list[Script]:
    toml = toml_of(ONE_FLAG, ONE_STEADY)
    ended = bundle("an unreadable codebook from tomorrow on", toml, toml, unreadable=(1,))
    letters = bundle("letters", toml_of(reduced("last", _LETTERS)))
    numbers = bundle("numbers by their sum", toml_of(reduced("sum")))
    largest = bundle("numbers by the largest", toml_of(reduced("max")), newer=2)
    short = bundle("for a day and an hour", toml, lifetime=90_000)
    newest = bundle("after the one for a day and an hour", toml, newer=2)
    tenths = reduced("sum").replace("reduce", "missing = 7.3\nreduce")
    exact = Script("what is missing is an exact decimal", bundle("73 tenths are missing", toml_of(tenths)))
    for _ in range(6):
        exact.flush(now=True).next_day()
    share = Script("a share, every noon for two weeks", bundle("half", toml_of(ONE_FLAG + "share = 0.5\n")))
    for _ in range(14):
        share.flush().wait(DAY)
    return [
        share,
        Script("a codebook that cannot be read ends the one before", ended)
        .flush()
        .record("flag", True)
        .next_day()
        .flush(now=True)
        .record("flag", True)
        .next_day()
        .flush(now=True),
        *(
            Script(f"a letter: {what}", letters).flush().record("value", letter).next_day().flush(now=True)
            for what, letter in {
                "composed": "\u00e9",
                "not composed": "e\u0301",
                "not in the list": "z",
            }.items()
        ),
        Script("what is no number", numbers).flush().record("value", True, "3", None, 2).next_day().flush(now=True),
        *(
            Script(f"another reducer before the period is pinned, and {what}", numbers)
            .flush()
            .next_day()
            .record("value", 3, 9)
            .serve(largest)
            .flush()
            .record("value", *further)
            .next_day()
            .flush(now=True)
            for what, further in {"no further value": (), "a further value": (5,)}.items()
        ),
        Script("a bundle expires while a report waits", short)
        .flush()
        .record("flag", True)
        .flush()
        .record("steady", True)
        .do("cut the network")
        .wait_until((TODAY + 1) * DAY + HOUR)
        .flush(now=True)
        .do("mend the network")
        .serve(newest)
        .flush(now=True),
        Script("a pause for what is not always reported is for that alone", BOTH, starts_at=NOON + 12 * HOUR - SECOND)
        .flush()
        .record("flag", True)
        .answers(problem("rate-limited", retry_after="60"))
        .flush(now=True)
        .wait(2 * SECOND)
        .flush(now=True)
        .wait(60 * SECOND)
        .flush(now=True),
        Script("a pause outlasts a restart", FLAG)
        .flush()
        .record("flag", True)
        .answers(problem("rate-limited", retry_after="3600"))
        .flush(now=True)
        .do("restart")
        .wait(HOUR - 1)
        .flush(now=True)
        .wait(2)
        .flush(now=True),
        Script("no network until the grace is over", FLAG)
        .flush()
        .record("flag", True)
        .flush()
        .do("cut the network")
        .wait_until((TODAY + 2) * DAY - 1)
        .flush(now=True)
        .do("mend the network")
        .wait(1)
        .flush(now=True),
        exact,
        Script("a pause that is further ahead than any: the clock was set back", FLAG)
        .flush()
        .record("flag", True)
        .wait(2 * HOUR)
        .answers(problem("rate-limited", retry_after="3600"))
        .flush(now=True)
        .do("set the clock", to=NOON + HOUR // 2)
        .do("restart")
        .flush(now=True),
    ]
