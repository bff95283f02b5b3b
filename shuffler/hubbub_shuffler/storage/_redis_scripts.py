"""The Lua scripts of the Redis backend, one file each in `lua/`: every step that must be one step is one of them.

None works through more than a few thousand items, and each touches only the keys that it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha1
from importlib.resources import files
from typing import TypeAlias

__all__ = ["Call", "Part", "Script", "Scripts", "command"]

Part: TypeAlias = bytes | str | int | float


@dataclass(frozen=True, slots=True)
class Call:
    """One command for the server that has `key`."""

    key: bytes
    parts: tuple[Part, ...]
    in_full: tuple[Part, ...] = ()
    """The same with the script's text, for a server that does not know it yet."""


@dataclass(frozen=True)
class Script:
    """A Lua script, called by its digest."""

    text: bytes

    @cached_property
    def digest(self) -> str:
        return sha1(self.text, usedforsecurity=False).hexdigest()

    def __call__(self, keys: Sequence[bytes], *arguments: Part) -> Call:
        rest: tuple[Part, ...] = (len(keys), *keys, *arguments)
        return Call(keys[0], ("EVALSHA", self.digest, *rest), ("EVAL", self.text, *rest))


class Scripts:
    """All of them, read once."""

    def __init__(self) -> None:
        folder = files("hubbub_shuffler.storage") / "lua"
        before = (folder / "_clock.lua").read_bytes()

        def read(name: str) -> Script:
            return Script(before + (folder / f"{name}.lua").read_bytes())

        self.add, self.register = read("add"), read("register")
        self.begin_close, self.close_shard, self.move = read("begin_close"), read("close_shard"), read("move")
        self.page, self.plan, self.due = read("page"), read("plan"), read("due")
        self.claim, self.hold, self.settle = read("claim"), read("hold"), read("settle")
        self.erase_shard, self.forget, self.tidy = read("erase_shard"), read("forget"), read("tidy")
        self.layout, self.halved, self.hold_periods = read("layout"), read("halved"), read("hold_periods")


def command(key: bytes, *parts: Part) -> Call:
    """A command that is no script."""
    return Call(key, parts)
