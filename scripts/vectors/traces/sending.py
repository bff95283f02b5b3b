"""Traces about what is reported, and when."""

from __future__ import annotations

from scripts.vectors.traces.script import Script
from scripts.vectors.traces.world import (
    BOTH,
    DAY,
    FLAG,
    HOUR,
    NOON,
    ONE_FLAG,
    ONE_STEADY,
    ONE_WORD,
    TODAY,
    WORDS,
    bundle,
    reduced,
    toml_of,
)

__all__ = ["reducers", "times"]


def reducers() -> list[Script]:
    bundles = {
        reduce: bundle(f"reduced by {reduce}", toml_of(reduced(reduce)))
        for reduce in ("last", "sum", "mean", "max", "min", "median")
    }
    scripts = [
        Script(f"{reduce}, reported when the day is over", bundle)
        .flush()
        .record("value", 3, 9, 4)
        .flush(now=True)
        .next_day()
        .record("value", 1)
        .flush(now=True)
        .next_day()
        .flush(now=True)
        for reduce, bundle in bundles.items()
    ]
    words = {
        reduce: bundle(f"words reduced by {reduce}", toml_of(reduced(reduce, WORDS)))
        for reduce in ("reservoir", "most_common")
    }
    scripts += [
        Script(f"{reduce} of words", bundle).flush().record("value", *"abccdefgh").next_day().flush(now=True)
        for reduce, bundle in words.items()
    ]
    count = bundle("counted", toml_of(reduced("count").replace("reduce", "missing = 0\nreduce")))
    scripts.append(
        Script("count, and a day without any", count)
        .flush()
        .record("value", 5, 5, 5)
        .next_day()
        .flush(now=True)
        .next_day()
        .flush(now=True)
    )
    return scripts


def times() -> list[Script]:
    word = bundle("word", toml_of(ONE_WORD))
    quick = bundle("word with a delay of ten minutes", toml_of(ONE_WORD, delay="10m", grace="2d"))
    steady = bundle("steady", toml_of(ONE_STEADY))
    midnight = (TODAY + 1) * DAY
    return [
        Script("the first value, after its random delay", word)
        .flush()
        .wait(HOUR)
        .record("word", "b", "a")
        .flush()
        .until_sent("word", TODAY, NOON + HOUR, 43_200_000)
        .record("word", "c")
        .flush(now=True),
        Script("a random delay that the codebook states", quick)
        .flush()
        .record("word", "b")
        .until_sent("word", TODAY, NOON, 600_000),
        Script("a value that is missing, after its random delay", steady)
        .flush()
        .next_day()
        .flush()
        .until_sent("steady", TODAY, midnight, 43_200_000),
        Script("a first value where one may be missing is due when the day is over", steady)
        .flush()
        .record("steady", True)
        .flush(now=True)
        .wait_until(midnight - 1)
        .flush(now=True)
        .wait(1)
        .flush(now=True),
        Script("two lanes: what is always reported goes first", BOTH)
        .flush()
        .record("flag", True)
        .record("steady", True)
        .flush(now=True)
        .next_day()
        .record("flag", False)
        .flush(now=True),
        Script("nothing is recorded", FLAG).flush().next_day().flush(now=True).next_day().flush(now=True),
        Script("too late: the grace is over", FLAG)
        .flush()
        .record("flag", True)
        .wait_until(midnight + DAY)
        .flush(now=True)
        .wait(2 * HOUR)
        .flush(now=True),
        Script("a millisecond before the grace is over", FLAG)
        .flush()
        .record("flag", True)
        .wait_until(midnight + DAY - 1)
        .flush(now=True),
        *_ended_periods(),
        _delays(word),
    ]


def _delays(word: str) -> Script:
    """On many days, so that some draws are near the longest delay, and some are rejected."""
    script = Script("a random delay on each of eight days", word)
    for _ in range(8):
        script.next_day().flush().record("word", "c")
        script.until_sent("word", script.now // DAY, script.now, 43_200_000)
    return script


def _ended_periods() -> list[Script]:
    week = bundle("a week of grace", toml_of(ONE_STEADY, ONE_FLAG, grace="7d"))
    hourly = bundle("hours with a week of grace", toml_of(ONE_FLAG, period="1h", grace="7d"))
    return [
        Script("back after five days of hours: only the last 64 are looked at", hourly).flush().next_day(5).flush(),
        Script("back after three days: ended periods are reported", week)
        .flush()
        .record("flag", True)
        .next_day(3)
        .record("flag", False)
        .flush(now=True)
        .next_day()
        .flush(now=True),
        Script("a first start reports no period before it", week).flush().flush(now=True),
        Script("back after ten days: what is still open", week).flush().next_day(10).flush(now=True),
    ]
