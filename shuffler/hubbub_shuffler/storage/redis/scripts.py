"""Lua scripts of the Redis backend, one file each in `lua/`. Every step that must be atomic is one script.

No script works through more than a few thousand items, and each touches only the keys that it is given.
"""

from __future__ import annotations

from hubbub_service_common.redis.calls_and_scripts import Script, script_text

__all__ = ["Scripts"]


class Scripts:
    """All scripts, read once."""

    def __init__(self) -> None:
        before = script_text(__package__, "_clock") + script_text(__package__, "_under_oom")

        def read(name: str) -> Script:
            return Script(before + script_text(__package__, name))

        self.add, self.register = read("add"), read("register")
        self.begin_close, self.close_shard, self.move = read("begin_close"), read("close_shard"), read("move")
        self.page, self.plan, self.due = read("page"), read("plan"), read("due")
        self.claim, self.hold, self.settle = read("claim"), read("hold"), read("settle")
        self.hold_back, self.offer = read("hold_back"), read("offer")
        self.erase_shard, self.forget, self.tidy = read("erase_shard"), read("forget"), read("tidy")
        self.layout, self.upgraded = read("layout"), read("upgraded")
        self.halved, self.hold_periods = read("halved"), read("hold_periods")
        self.take_shard = read("take_shard")
        self.adopt_shard, self.mend, self.give_up = read("adopt_shard"), read("mend"), read("give_up")
