"""Erasure of data past its horizon, from Redis and from its files.

Keys go first, in one script that also notes up to which period; then the nonces of those periods, wherever their pairs
are. If the process dies in between, the note says what is left to do, and the next `scrub` of any process does it.
Spooled bodies are removed when their batch has its verdict. `clean` and `cleared` count the erasures of which no file
holds a trace any more.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from hubbub_aggregator.storage.redis.batches import lua
from hubbub_aggregator.storage.redis.key_names import Keys
from hubbub_aggregator.storage.redis.releases import RedisReleases
from hubbub_service_common.process.clock_and_entropy import entropy
from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.redis.erase_from_disk import FileRewrites

__all__ = ["Eraser"]

_LOG = logging.getLogger("hubbub_aggregator")
_BODIES = 60_000
"""Milliseconds between two rewrites that only spooled bodies need. They are sealed, and every batch has one."""
_TURN = 10_000
"""Milliseconds after which another process may take over rewriting from one that died."""


class _Marks(NamedTuple):
    """How far erasure has come. All processes share these numbers."""

    forgotten: int
    """The last period whose keys were erased, and the last one whose nonces were."""
    wiped: int
    erased: int
    """How often keys, nonces or releases were erased, and how many of these erasures no file shows any more."""
    clean: int
    removed: int
    """The same for spooled bodies."""
    cleared: int


_UNMARKED = (-1, -1, 0, 0, 0, 0)


class Eraser:
    """What `forget` and `scrub` of the storage do."""

    def __init__(self, client: RedisClient, keys: Keys, releases: RedisReleases) -> None:
        self._client, self._keys, self._releases = client, keys, releases
        self._erase_keys, self._lease, self._put, self._set = (
            lua(name) for name in ("erase_keys", "lease", "put", "set")
        )
        self._holder = entropy(16).hex()
        self._rewrites = FileRewrites(client, _LOG, "erased keys, nonces or reports")
        self._covered = _Marks(*_UNMARKED)
        """The marks that the current rewrites cover."""

    def forget(self, through: int) -> bool:
        # past the horizon nothing is admitted: a batch that is listed as pending and not entered yet never will be
        for member, batch in self._releases._listed():
            if batch is None and member.period <= through:
                self._client.one(command("ZREM", self._keys.pending, member.encode()))
        keys = (self._keys.keys, self._keys.marks, self._keys.pending)
        last = self._client.one(self._erase_keys(keys, through))
        self.scrub()
        return bool(last >= 0)

    def scrub(self) -> bool:
        marks = self._marks()
        if marks.wiped < marks.forgotten:
            for member in self._releases._members(None, marks.wiped + 1, marks.forgotten):
                names = self._keys.pair(member.metric, member.period)
                self._client.one(command("UNLINK", names.nonces(member.token)))
            self._client.one(self._put((self._keys.marks,), "wiped", marks.forgotten))
        if marks.erased != marks.clean:
            self._releases._delete_doomed()
        return self._rewrite(marks)

    def _marks(self) -> _Marks:
        found = self._client.one(command("HMGET", self._keys.marks, *_Marks._fields), write=False)
        return _Marks(*(default if raw is None else int(raw) for raw, default in zip(found, _UNMARKED, strict=True)))

    def _rewrite(self, marks: _Marks) -> bool:
        """Have every server rewrite its files, so that none still holds what was erased before."""
        if not self._rewrites.under_way:
            if (marks.erased, marks.removed) == (marks.clean, marks.cleared):
                return True
            # a mark that lasts longer than it ever should was set under another clock of the server
            left = self._client.one(command("PTTL", self._keys.rewritten), write=False)
            if marks.erased == marks.clean and 0 < left <= _BODIES:
                return False
            self._covered = marks
        # one process at a time: a lease that ends early only costs another rewrite
        if not self._client.one(self._lease((self._keys.rewriting,), self._holder, _TURN), write=False):
            self._rewrites.abandon()
            return False
        if not self._rewrites.step():
            return False
        said = [self._set((self._keys.rewritten,), "", _BODIES), command("UNLINK", self._keys.rewriting)]
        self._client.run(said, write=False)
        done = ("clean", self._covered.erased, "cleared", self._covered.removed)
        self._client.one(self._put((self._keys.marks,), *done))
        return (marks.erased, marks.removed) == (self._covered.erased, self._covered.removed)
