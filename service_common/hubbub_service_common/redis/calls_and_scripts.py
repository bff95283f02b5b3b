"""Redis commands and Lua scripts as values: what is sent, and to which server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha1
from importlib.resources import files
from typing import TypeAlias

__all__ = ["Call", "Part", "Script", "command", "script_text"]

Part: TypeAlias = bytes | str | int | float


@dataclass(frozen=True, slots=True)
class Call:
    """One command, for the server that has `key`."""

    key: bytes
    parts: tuple[Part, ...]
    in_full: tuple[Part, ...] = ()
    """The same call with the script's text, for a server that does not know the script yet."""


@dataclass(frozen=True)
class Script:
    """A Lua script, called by its digest. All its keys must be in one slot."""

    text: bytes

    @cached_property
    def digest(self) -> str:
        return sha1(self.text, usedforsecurity=False).hexdigest()

    def __call__(self, keys: Sequence[bytes], *arguments: Part) -> Call:
        rest: tuple[Part, ...] = (len(keys), *keys, *arguments)
        return Call(keys[0], ("EVALSHA", self.digest, *rest), ("EVAL", self.text, *rest))


def command(name: str, key: bytes, *rest: Part) -> Call:
    """A plain command about one key."""
    return Call(key, (name, key, *rest))


def script_text(package: str, name: str) -> bytes:
    """The text of a script in a package's folder `lua`."""
    return (files(package) / "lua" / f"{name}.lua").read_bytes()
