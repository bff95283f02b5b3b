"""Redis of a world: a real server, whose scripts go by the world's clock.

Scripts read the server's clock and let keys expire by it. A history must depend on its seed alone: so TIME and expiries
are rewritten in the text of each script. The time is read from a list that the world keeps, and keys expire when the
world says so. Nothing else differs from what the product sends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha1
from typing import Any

from hubbub_service_common.redis.calls_and_scripts import Call
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage.kinds_and_errors import StorageAway
from tests.world.event_loop import PROCESS

__all__ = ["WorldRedis", "replaced_ask", "replaced_run"]

_REAL_RUN, _REAL_ASK = RedisClient.run, RedisClient.ask
_TIME, _EXPIRY = "world:time", "world:expiry"
_SET = re.compile(rb"redis\.call\('SET', (KEYS\[\d\]), (ARGV\[\d\]), '(PX|EX)', (ARGV\[\d\])\)")
_BEFORE = b"""
local function world_now() local t = redis.call('LRANGE', 'world:time', 0, 1) return t[1] * 1000 + t[2] / 1000 end
local function world_set(k, v, ms)
  redis.call('ZADD', 'world:expiry', world_now() + ms, k)
  return redis.call('SET', k, v)
end
local function world_ttl(k)
  local at = redis.call('ZSCORE', 'world:expiry', k)
  if not at then return -1 end
  return at - world_now()
end
"""


class WorldRedis:
    """One server and its clock. `client`: for the world's own use."""

    def __init__(self, url: str, client: Any) -> None:
        self.url, self.client = url, client
        self.now: Callable[[], float] = lambda: 0.0
        self._shown = -1.0
        self._texts: dict[bytes, tuple[str, bytes]] = {}

    def reset(self, now: Callable[[], float]) -> None:
        """An empty server, which goes by this clock."""
        self.client.flushall()
        self.client.config_set("maxmemory", 0)
        self.now, self._shown = now, -1.0

    def set_full(self, full: bool) -> None:
        self.client.config_set("maxmemory", 1 if full else 0)

    def show_time(self) -> None:
        """Let scripts see what time it is, and let keys expire."""
        now = self.now()
        if now == self._shown:
            return
        self._shown = now
        maxmemory = self.client.config_get("maxmemory")["maxmemory"]
        if maxmemory != "0":
            self.client.config_set("maxmemory", 0)
        seconds = int(now)
        self.client.delete(_TIME)
        self.client.rpush(_TIME, seconds, int((now - seconds) * 1e6))
        for key in self.client.zrangebyscore(_EXPIRY, "-inf", now * 1_000):
            self.client.delete(key)
            self.client.zrem(_EXPIRY, key)
        if maxmemory != "0":
            self.client.config_set("maxmemory", maxmemory)

    def translated(self, call: Call) -> Call:
        """The same call, by the world's clock."""
        if not call.in_full or call.in_full[0] != "EVAL":
            return call
        text = call.in_full[1]
        assert isinstance(text, bytes)
        if text not in self._texts:
            self._texts[text] = _rewritten(text)
        digest, new = self._texts[text]
        return Call(call.key, ("EVALSHA", digest, *call.parts[2:]), ("EVAL", new, *call.in_full[2:]))


def _rewritten(text: bytes) -> tuple[str, bytes]:
    new = text.replace(b"redis.call('TIME')", b"redis.call('LRANGE', 'world:time', 0, 1)")
    new = _SET.sub(lambda m: b"world_set(%s, %s, %s%s)" % (m[1], m[2], m[4], b" * 1000" if m[3] == b"EX" else b""), new)
    new = re.sub(rb"redis\.call\('PERSIST', (KEYS\[\d\])\)", rb"redis.call('ZREM', 'world:expiry', \1)", new)
    new = re.sub(rb"redis\.call\('PTTL', (KEYS\[\d\])\)", rb"world_ttl(\1)", new)
    if b"world_" in new:
        header, rest = new.split(b"\n", 1) if new.startswith(b"#!") else (b"", new)
        new = header + (b"\n" if header else b"") + _BEFORE + rest
    assert b"'PX'" not in new
    assert b"'EX'" not in new
    return sha1(new, usedforsecurity=False).hexdigest(), new


def replaced_run(redis: WorldRedis) -> Any:
    """`RedisClient.run`, one command after another: a process can die between any two that it sends together."""

    def run(self: RedisClient, calls: Sequence[Call], *, write: bool = True, again: bool = True) -> list[Any]:
        return [_one(self, call, write=write, again=again) for call in calls]

    def _one(self: RedisClient, call: Call, *, write: bool, again: bool) -> Any:
        process = PROCESS.get()
        if call.parts == ("TIME",):
            now = redis.now()
            return [int(now), int(now % 1 * 1e6)]
        redis.show_time()
        call = redis.translated(call)
        if process is not None:
            process.step()
            if process.fails_now():
                if process.fails_done:
                    with suppress(Exception):
                        _REAL_RUN(self, [call], write=write, again=again)
                raise StorageAway("the connection to Redis broke")
        return _REAL_RUN(self, [call], write=write, again=again)[0]

    return run


def replaced_ask(redis: WorldRedis) -> Any:  # noqa: ARG001  the same signature as above
    def ask(self: RedisClient, *given: Any) -> Any:
        process = PROCESS.get()
        if process is not None:
            process.step()
            if process.fails_now():
                raise StorageAway("the connection to Redis broke")
        return _REAL_ASK(self, *given)

    return ask
