"""Erasing in Redis what is past its horizon, and having the files written anew without it.

Keys go first, in one script that also notes up to which period; then the nonces of those periods, wherever their pairs
are. If we die in between, the note says what is left to do, and the next `scrub` of any process does it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from hubbub_aggregator.storage._redis_batches import lua
from hubbub_aggregator.storage._redis_keys import Keys
from hubbub_aggregator.storage._redis_link import Link, Node, command, script
from hubbub_aggregator.storage._redis_releases import RedisReleases
from hubbub_aggregator.storage.protocol import StorageError

__all__ = ["Eraser"]

_LOG = logging.getLogger("hubbub.aggregator")
_PRIMARY = -1


@dataclass(slots=True)
class _Round:
    """One rewrite of all files."""

    erased: int
    """How many erasures it covers."""
    waiting: dict[Node, int]
    """Servers that have not rewritten, with the offset that a replica must have reached; no more for a primary."""
    asked: dict[Node, str] = field(default_factory=dict)
    """Servers that were asked, and in which of their lives."""


class Eraser:
    """What `forget` and `scrub` of the storage do."""

    def __init__(self, link: Link, keys: Keys, releases: RedisReleases) -> None:
        self._link, self._keys, self._releases = link, keys, releases
        self._erase_keys = lua("erase_keys")
        self._round: _Round | None = None

    def forget(self, through: int) -> bool:
        # past the horizon nothing is admitted any more: what is listed as pending and is nowhere never will be
        for member, batch in self._releases._listed():
            if batch is None and member.period <= through:
                self._link.one(command("ZREM", self._keys.pending, member.encode()))
        keys = (self._keys.keys, self._keys.marks, self._keys.pending)
        last = self._link.one(script(self._erase_keys, keys, through))
        self.scrub()
        return bool(last >= 0)

    def scrub(self) -> bool:
        forgotten, wiped, erased, rewritten = self._marks()
        if wiped < forgotten:
            for member in self._releases._members(None, wiped + 1, forgotten):
                names = self._keys.pair(member.metric, member.period)
                self._link.one(command("UNLINK", names.nonces(member.token)))
            self._link.one(command("HSET", self._keys.marks, "wiped", forgotten))
        if erased != rewritten:
            self._releases._delete_doomed()
        return erased == rewritten or self._rewrite(erased)

    def _marks(self) -> tuple[int, int, int, int]:
        fields = ("forgotten", "wiped", "erased", "rewritten")
        found = self._link.one(command("HMGET", self._keys.marks, *fields), write=False)
        forgotten, wiped, erased, rewritten = (
            default if raw is None else int(raw) for raw, default in zip(found, (-1, -1, 0, 0), strict=True)
        )
        return forgotten, wiped, erased, rewritten

    def _rewrite(self, erased: int) -> bool:
        """Have every server write its file anew, once; when all have, nothing older is left."""
        if self._round is None:
            self._round = _Round(erased, self._servers())
        waiting = self._round.waiting
        for node in list(waiting):
            if self._is_rewritten(node, self._round):
                del waiting[node]
        if waiting:
            return False
        reached, self._round = self._round.erased, None
        self._link.one(command("HSET", self._keys.marks, "rewritten", reached))
        return reached == erased

    def _is_rewritten(self, node: Node, doing: _Round) -> bool:
        """Ask a server for it when it is time; whether it is done."""
        try:
            state = self._info(node)
            if _busy(state) or int(state["master_repl_offset"]) < doing.waiting[node]:
                return False  # a rewrite may have begun before the deletion; a replica may not have it yet
            if state["aof_enabled"] != "1":
                return True
            if doing.asked.get(node) == state["run_id"] and state["aof_last_bgrewrite_status"] == "ok":
                return True
            self._link.ask(node, "BGREWRITEAOF")
            doing.asked[node] = state["run_id"]  # one that is started anew in between never finishes it
        except StorageError as error:
            if doing.waiting[node] == _PRIMARY:
                raise
            _LOG.warning("Redis replica %s:%d keeps what was erased until it rewrites its file: %s", *node, error)
            return True
        return False

    def _servers(self) -> dict[Node, int]:
        """Every primary and replica, each with how far it must have come to have what was deleted."""
        found = dict.fromkeys(self._link.primaries(), _PRIMARY)
        for primary in list(found):
            state = self._info(primary)
            for name, text in state.items():
                if name.startswith("slave") and "state=online" in text:
                    replica = dict(part.split("=", 1) for part in text.split(","))
                    found[replica["ip"], int(replica["port"])] = int(state["master_repl_offset"])
        return found

    def _info(self, node: Node) -> dict[str, str]:
        lines = self._link.ask(node, "INFO").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def _busy(state: dict[str, str]) -> bool:
    flags = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
    return any(state.get(flag, "0") != "0" for flag in flags)
