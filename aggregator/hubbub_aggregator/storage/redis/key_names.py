"""Key names of the Redis backend, and the slot of a cluster that each is in.

    hubbub-aggregator:{control}:...               lists, counts, codebooks, keys, bundle: one slot
    hubbub-aggregator:{<batch id>}:place          which pair a batch belongs to, and its digest
    hubbub-aggregator:{<metric>:<period>}:...     a pair: its version, its batches with their verdicts, their blobs
    hubbub-aggregator:{body:<name>}               a spooled body in pieces

The pair decides: a batch has the verdict that is entered there. Lists follow, and each reader corrects them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["Keys", "Member", "Pairs"]

_MEMBER = struct.Struct(">I16s16s")


class Member(NamedTuple):
    """A batch as a member of a list. Encoded members sort by period and id."""

    period: int
    id: bytes
    metric: bytes
    token: bytes = b""
    """Names its blobs, in the list of releases."""

    def encode(self) -> bytes:
        return _MEMBER.pack(self.period, self.id, self.metric) + self.token

    @classmethod
    def decode(cls, raw: bytes) -> Member:
        period, id, metric = _MEMBER.unpack_from(raw)  # noqa: A001  it is an id
        return cls(period, id, metric, raw[_MEMBER.size :])


class Pairs(NamedTuple):
    """The key names of one pair of metric and period."""

    batches: bytes
    version: bytes
    accepted: bytes
    seen: bytes
    tag: bytes

    def counts(self, token: bytes) -> bytes:
        return self.tag + b":counts:" + token.hex().encode()

    def nonces(self, token: bytes) -> bytes:
        return self.tag + b":nonces:" + token.hex().encode()


class Keys:
    """Every name begins with the same prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.pending, self.noted, self.sums = self._control("pending"), self._control("noted"), self._control("counts")
        self.releases, self.codebooks = self._control("releases"), self._control("codebooks")
        self.switched_off = self._control("switched-off")
        self.keys, self.bundle, self.marks = self._control("keys"), self._control("bundle"), self._control("marks")
        self.remembered, self.probe = self._control("remembered"), self._control("probe")
        self.doomed, self.expired = self._control("doomed"), self._control("expired")
        self.opened_and_refused = self._control("opened-and-refused")
        self.coming, self.coming_until = self._control("coming"), self._control("coming-until")
        self.rewriting, self.rewritten = self._control("rewriting"), self._control("rewritten")

    def _control(self, name: str) -> bytes:
        return f"{self._prefix}:{{control}}:{name}".encode()

    def releases_of(self, metric: bytes) -> bytes:
        return self._control(f"releases:{metric.hex()}")

    def discards_of(self, metric: bytes) -> bytes:
        return self._control(f"discards:{metric.hex()}")

    def discard_reasons_of(self, metric: bytes) -> bytes:
        return self._control(f"discard-reasons:{metric.hex()}")

    def place(self, batch: bytes) -> bytes:
        return f"{self._prefix}:{{{batch.hex()}}}:place".encode()

    def lease(self, batch: bytes) -> bytes:
        return f"{self._prefix}:{{{batch.hex()}}}:lease".encode()

    def pair(self, metric: bytes, period: int) -> Pairs:
        tag = f"{self._prefix}:{{{metric.hex()}:{period}}}".encode()
        return Pairs(tag + b":batches", tag + b":version", tag + b":accepted", tag + b":seen", tag)

    def body(self, name: str) -> bytes:
        return f"{self._prefix}:{{body:{name}}}".encode()
