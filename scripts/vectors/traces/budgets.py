"""Traces about limits of what a device spends."""

from __future__ import annotations

from scripts.vectors.traces.script import Script
from scripts.vectors.traces.world import BOTH, DAY, FLAG, HOUR, NOON, ONE_FLAG, ONE_STEADY, TODAY, bundle, toml_of

__all__ = ["budgets"]


def budgets() -> list[Script]:
    hourly = bundle("hourly", toml_of(ONE_FLAG, period="1h"))
    quick = bundle("every minute", toml_of(ONE_FLAG, period="1m"))
    shared = bundle("half of the devices", toml_of(ONE_FLAG + "share = 0.5\n"))
    weekly = bundle("weekly", toml_of(ONE_FLAG, ONE_STEADY, period="1w", device_epsilon=3))

    def hours(script: Script, count: int) -> Script:
        for _ in range(count):
            script.flush().record("flag", True).flush(now=True).wait(HOUR)
        return script

    share = Script("a share: a coin for each day", shared)
    for _ in range(8):
        share.flush().record("flag", True).flush(now=True).next_day()
    lifetime = Script("a limit for ever", FLAG, lifetime_epsilon="2.5")
    for _ in range(4):
        lifetime.flush().record("flag", True).flush(now=True).next_day()
    return [
        share,
        lifetime.do("restart").flush().record("flag", True),
        hours(Script("a limit for each day", hourly, max_epsilon="3"), 5).next_day().flush().record("flag", True),
        Script("a codebook that asks for more than a day's limit", BOTH, max_epsilon="2.9")
        .flush()
        .record("flag", True)
        .next_day()
        .flush(now=True),
        Script("a limit that is just enough", BOTH, max_epsilon="3").flush().record("flag", True).flush(now=True),
        Script("periods that are too short", quick, min_period="1h").flush().record("flag", True).flush(now=True),
        Script("longer periods over days that are spent", FLAG, starts_at=NOON - 2 * DAY)
        .flush()
        .next_day()
        .flush()
        .record("flag", True)
        .flush(now=True)
        .serve(weekly)
        .wait(2 * HOUR)
        .flush()
        .record("flag", False)
        .record("steady", True)
        .wait_until((TODAY + 1) * DAY)
        .flush(now=True)
        .record("flag", False)
        .record("steady", True)
        .next_day(7)
        .flush(now=True),
        Script("one report a day, whatever is recorded", FLAG)
        .flush()
        .record("flag", True, False, True)
        .flush(now=True)
        .record("flag", False)
        .flush(now=True)
        .do("restart")
        .record("flag", False)
        .flush(now=True),
    ]
