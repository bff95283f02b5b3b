"""One server's files, written anew without what was deleted: a rewrite counts if it began after the deletion."""

from __future__ import annotations

from collections.abc import Callable

from hubbub_shuffler.storage._redis_link import Link, Node
from hubbub_shuffler.storage.protocol import StorageError

__all__ = ["Rewrite", "info", "rewrites"]


def rewrites(link: Link) -> list[Rewrite]:
    """What has to happen from now on: on every primary, and on every replica once it has the deletion too."""
    found = []
    for primary in link.primaries():
        replication = info(link, primary, "replication")
        found.append(Rewrite(primary))
        offset = int(replication.get("master_repl_offset", 0))
        found += [Rewrite(replica, primary, offset) for replica in _replicas(replication)]
    return found


class Rewrite:
    """Asks for one rewrite of the append-only file, then of the snapshot, as far as the server has them."""

    def __init__(self, node: Node, primary: Node | None = None, offset: int = 0) -> None:
        self._node, self._primary, self._offset = node, primary, offset
        self._next: Callable[[Link], bool] = self._catch_up if primary else self._begin_log
        self._life = ""

    def step(self, link: Link) -> bool:
        """Do what can be done now; whether all is done."""
        while self._next(link):
            pass
        return self._next == self._end

    def _catch_up(self, link: Link) -> bool:
        if self._primary is not None:
            known = _replicas(info(link, self._primary, "replication"))
            if self._node not in known:
                raise StorageError(f"replica {self._node[0]}:{self._node[1]} went away before it deleted")
            if known[self._node] < self._offset:
                return False
        self._next = self._begin_log
        return True

    def _begin_log(self, link: Link) -> bool:
        now = info(link, self._node, "persistence")
        if now["aof_enabled"] == "0":
            self._next = self._begin_snapshot
            return True
        if _busy(now):
            return False  # it may have begun before the deletion
        self._life = info(link, self._node, "server")["run_id"]
        link.ask(self._node, "BGREWRITEAOF")
        self._next = self._await_log
        return True

    def _await_log(self, link: Link) -> bool:
        now = info(link, self._node, "persistence")
        if _busy(now):
            return False
        self._still_alive(link)
        if now["aof_last_bgrewrite_status"] != "ok":
            raise StorageError("a rewrite of the append-only file failed")
        self._next = self._begin_snapshot
        return True

    def _begin_snapshot(self, link: Link) -> bool:
        if not _has_snapshots(link, self._node):
            self._next = self._end
            return True
        if _busy(info(link, self._node, "persistence")):
            return False
        self._life = info(link, self._node, "server")["run_id"]
        link.ask(self._node, "BGSAVE")
        self._next = self._await_snapshot
        return True

    def _await_snapshot(self, link: Link) -> bool:
        now = info(link, self._node, "persistence")
        if _busy(now):
            return False
        self._still_alive(link)
        if now["rdb_last_bgsave_status"] != "ok":
            raise StorageError("a snapshot failed")
        self._next = self._end
        return True

    def _still_alive(self, link: Link) -> None:
        """One that was started anew says that all is well, but never finished what it was asked for."""
        if info(link, self._node, "server")["run_id"] != self._life:
            raise StorageError(f"{self._node[0]}:{self._node[1]} was started anew before it had written its files")

    def _end(self, _link: Link) -> bool:
        return False


def info(link: Link, node: Node, section: str) -> dict[str, str]:
    """What a server says of itself."""
    lines = link.ask(node, "INFO", section).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _busy(persistence: dict[str, str]) -> bool:
    flags = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
    return any(persistence.get(flag, "0") != "0" for flag in flags)


def _has_snapshots(link: Link, node: Node) -> bool:
    """Whether there may be a snapshot: from save points, from replication, or because someone asked for one.

    One that is older than the server's last start can't be seen; docs/design/shuffler-storage.md says so.
    """
    try:
        _, points = link.ask(node, "CONFIG", "GET", "save")
    except (StorageError, ValueError):
        return True  # not ours to know: then better one too many
    replication = info(link, node, "replication")
    if points or replication["role"] != "master" or replication["connected_slaves"] != "0":
        return True
    server = info(link, node, "server")
    started = int(server["server_time_usec"]) // 1_000_000 - int(server["uptime_in_seconds"])
    return int(info(link, node, "persistence")["rdb_last_save_time"]) > started + 1  # at the start it is set, too


def _replicas(replication: dict[str, str]) -> dict[Node, int]:
    """Each connected replica, and how far it has come."""
    found = {}
    for name, value in replication.items():
        if name.startswith("slave") and name[5:].isdigit():
            fields = dict(pair.split("=", 1) for pair in value.split(","))
            found[fields["ip"], int(fields["port"])] = int(fields["offset"])
    return found
