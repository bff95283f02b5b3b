"""Slot map of a Redis cluster: which node has which slots, as last heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from redis.crc import key_slot

from hubbub_service_common.redis.address import Node
from hubbub_service_common.storage.kinds_and_errors import StorageAway, StorageError

__all__ = ["SlotMap", "host_of"]

_Slots: TypeAlias = list[tuple[int, int, Node]]
"""First slot, last slot, primary."""


class SlotMap:
    """A slot map that is learned when it is needed. `first`: the node in the address. `ask`: sends one command to one
    node."""

    def __init__(self, first: Node, ask: Callable[..., Any]) -> None:
        self._first, self._ask = first, ask
        self._slots: _Slots = []
        self._known: list[Node] = []
        """Every known node, including replicas, in the order in which they are asked."""

    @property
    def nodes(self) -> set[Node]:
        """The nodes of the cluster, and the one in the address."""
        return {*self._known, self._first}

    def owner(self, key: bytes) -> Node | None:
        """The node that has the slot of this key; None if no node has it."""
        slots, slot = self._slots or self.learn(), key_slot(key)
        return next((node for low, high, node in slots if low <= slot <= high), None)

    def primaries(self) -> list[Node]:
        """Every node that has slots, by a fresh map."""
        return sorted({node for _, _, node in self.learn()})

    def learn(self) -> _Slots:
        """Ask for the map again, from the first node that answers. StorageError if none does."""
        failure: StorageError = StorageAway("no node of the Redis cluster answers")
        for node in dict.fromkeys([*self._known, self._first]):
            try:
                answer = self._ask(node, "CLUSTER", "SLOTS")
            except StorageError as error:
                failure = error
                continue
            parts = [
                (low, high, [(host_of((member[0] or b"").decode(), node), int(member[1])) for member in members])
                for low, high, *members in answer
            ]
            slots = [(low, high, nodes[0]) for low, high, nodes in parts]
            known = list(dict.fromkeys(each for _, _, nodes in parts for each in nodes)) or self._known
            self._slots, self._known = slots, known
            return slots
        raise failure

    def forget(self) -> None:
        """Drop the map: it is out of date."""
        self._slots = []

    def distrust(self, node: Node, better: Node | None = None) -> None:
        """Drop the map. Next time, ask the node that we were redirected to first, and the distrusted node last."""
        others = [each for each in self._known if each not in (node, better)]
        self._slots, self._known = [], [*([better] if better else []), *others, node]


def host_of(said: str, node: Node) -> str:
    """A node's host as another node names it. An empty name means the host of the node that was asked."""
    return node[0] if said in ("", "?") else said
