"""Rewrites of Redis's files without deleted data: the append-only file and the snapshot of every server.

Deleting a key frees memory, but the files keep the data until they are rewritten. A rewrite counts if it began after
the deletion and has ended, on every primary and on every connected replica that has received the deletion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from hubbub_service_common.process.backoff import backoff
from hubbub_service_common.process.clock_and_entropy import entropy, monotonic
from hubbub_service_common.redis.address import Node
from hubbub_service_common.redis.client import RedisClient
from hubbub_service_common.storage.kinds_and_errors import StorageError

__all__ = ["FileRewrites"]

_LONGEST = 120.0
"""Most seconds until a failed round is begun again. Each round may cost a rewrite of all files."""


class FileRewrites:
    """Has all servers rewrite their files, round after round. `what`: the deleted data, for log lines."""

    def __init__(
        self,
        client: RedisClient,
        log: logging.Logger,
        what: str,
        monotonic: Callable[[], float] = monotonic,
        entropy: Callable[[int], bytes] = entropy,
    ) -> None:
        self._client, self._log, self._what = client, log, what
        self._monotonic, self._entropy = monotonic, entropy
        self._round: list[_Server] | None = None
        self._failures, self._not_before, self._said = 0, float("-inf"), ""

    @property
    def under_way(self) -> bool:
        """Whether a round has begun. It covers what was deleted before it began."""
        return self._round is not None

    def abandon(self) -> None:
        """Drop the current round, if any; the next step begins a new one."""
        self._round = None

    def step(self) -> bool | None:
        """Begin or continue a round. True when it has ended, False if it failed, None while it is going on."""
        if self._round is None and self._monotonic() < self._not_before:
            return False
        try:
            if self._round is None:
                self._round = _servers(self._client)
            ended = [server.step(self._client) for server in self._round]
        except StorageError as error:
            self._fail(str(error))
            return False
        if not all(ended):
            return None
        if self._said:
            self._log.info("Redis rewrote its files: %s can't be in them any more", self._what)
        self._round, self._failures, self._said = None, 0, ""
        return True

    def _fail(self, why: str) -> None:
        if why != self._said:
            self._log.error("%s may still be in a file of Redis; the rewrite is tried again: %s", self._what, why)
        self._round, self._said = None, why
        self._not_before = self._monotonic() + backoff(self._failures, longest=_LONGEST, entropy=self._entropy)
        self._failures += 1


def _servers(client: RedisClient) -> list[_Server]:
    """Every connected replica, with the offset that it must have reached, and every primary.

    All of them are asked something first, so that a round that must fail costs no rewrite. For the same reason replicas
    come first: they may have other credentials.
    """
    found: list[_Server] = []
    for primary in client.primaries():
        replication = client.info(primary, "replication")
        offset = int(replication.get("master_repl_offset", 0))
        replicas = _replicas(replication)
        for node in (primary, *replicas):
            client.info(node, "persistence")
        found = [*(_Server(replica, primary, offset) for replica in replicas), *found, _Server(primary)]
    return found


class _Server:
    """One server. It is asked to rewrite the append-only file, then the snapshot, if it has them."""

    def __init__(self, node: Node, primary: Node | None = None, offset: int = 0) -> None:
        self._node, self._primary, self._offset = node, primary, offset
        self._next: Callable[[RedisClient], bool] = self._catch_up if primary else self._begin_log
        self._life = ""

    def step(self, client: RedisClient) -> bool:
        """Do what can be done now. Returns whether all is done."""
        while self._next(client):
            pass
        return self._next == self._end

    def _catch_up(self, client: RedisClient) -> bool:
        if self._primary is not None:
            known = _replicas(client.info(self._primary, "replication"))
            if self._node not in known:
                raise StorageError(f"replica {self._node[0]}:{self._node[1]} went away before it deleted")
            if known[self._node] < self._offset:
                return False
        self._next = self._begin_log
        return True

    def _begin_log(self, client: RedisClient) -> bool:
        now = client.info(self._node, "persistence")
        if now["aof_enabled"] == "0":
            self._next = self._begin_snapshot
            return True
        return self._begin(client, now, "BGREWRITEAOF", self._await_log)

    def _await_log(self, client: RedisClient) -> bool:
        what = "a rewrite of the append-only file"
        return self._await(client, "aof_last_bgrewrite_status", what, self._begin_snapshot)

    def _begin_snapshot(self, client: RedisClient) -> bool:
        if not _has_snapshots(client, self._node):
            self._next = self._end
            return True
        return self._begin(client, client.info(self._node, "persistence"), "BGSAVE", self._await_snapshot)

    def _await_snapshot(self, client: RedisClient) -> bool:
        return self._await(client, "rdb_last_bgsave_status", "a snapshot", self._end)

    def _begin(
        self, client: RedisClient, now: dict[str, str], command: str, then: Callable[[RedisClient], bool]
    ) -> bool:
        if _busy(now):
            return False  # a running rewrite may have begun before the deletion
        self._life = client.info(self._node, "server")["run_id"]
        try:
            client.ask(self._node, command)
        except StorageError:
            if _busy(client.info(self._node, "persistence")):
                return False  # another caller was faster
            raise
        self._next = then
        return True

    def _await(self, client: RedisClient, status: str, what: str, then: Callable[[RedisClient], bool]) -> bool:
        now = client.info(self._node, "persistence")
        if _busy(now):
            return False
        if client.info(self._node, "server")["run_id"] != self._life:
            # its status is "ok" because it knows nothing of requests from before the restart
            raise StorageError(f"{self._node[0]}:{self._node[1]} was restarted before it had rewritten its files")
        if now[status] != "ok":
            raise StorageError(f"{what} failed on {self._node[0]}:{self._node[1]}: look at its log and its disk")
        self._next = then
        return True

    def _end(self, _client: RedisClient) -> bool:
        return False


def _busy(persistence: dict[str, str]) -> bool:
    flags = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
    return any(persistence.get(flag, "0") != "0" for flag in flags)


def _has_snapshots(client: RedisClient, node: Node) -> bool:
    """Whether there may be a snapshot: from save points, from replication, or on someone's request.

    A snapshot from before the server's last start can't be detected; docs/design/redis-client.md says so.
    """
    try:
        _, points = client.ask(node, "CONFIG", "GET", "save")
    except (StorageError, ValueError):
        return True  # the server does not tell: better one snapshot too many
    replication = client.info(node, "replication")
    if points or replication["role"] != "master" or replication["connected_slaves"] != "0":
        return True
    # a former replica has the snapshot that it got when it joined; after an hour it forgets that it was one
    if client.cluster or client.replicas or replication.get("master_replid2", "").strip("0"):
        return True
    server = client.info(node, "server")
    started = int(server["server_time_usec"]) // 1_000_000 - int(server["uptime_in_seconds"])
    return int(client.info(node, "persistence")["rdb_last_save_time"]) > started + 1  # the start sets it too


def _replicas(replication: dict[str, str]) -> dict[Node, int]:
    """Each connected replica, and its replication offset."""
    found = {}
    for name, value in replication.items():
        if name.startswith("slave") and name[5:].isdigit():
            fields = dict(pair.split("=", 1) for pair in value.split(","))
            found[fields["ip"], int(fields["port"])] = int(fields["offset"])
    return found
