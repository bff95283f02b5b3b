"""Server for two twins: a shuffler that writes down what it sees, and an aggregator that may be dishonest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import BundledCodebook, SealingKey, entity_tag, sign
from hubbub.sealing import public_key_of
from hubbub.trust_anchor import anchor_of
from hubbub.wire import decode_report, decode_upload
from hubbub_audit.twin_events import Keys, Network, Publish, SwitchOff, codebook_of
from hubbub_client._http.transport import Answer, CannotReach

__all__ = ["START", "Seen", "TwinServer"]

START = 20_800 * 86_400.0 + 100
"""Shortly after the start of an hour."""
_IDENTITY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
_ANY = 2**31


class Seen(NamedTuple):
    """One request, as an observer of the device sees it."""

    at: float
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    reports: tuple[tuple[bytes, int, int, int], ...]
    """For each report: metric, period, key, length."""


class TwinServer:
    """A shuffler that writes down what it sees, and the aggregator behind it. The weather decides what it answers."""

    trust = anchor_of(_IDENTITY)

    def __init__(self, passed: Callable[[], float], max_age: int) -> None:
        self._passed, self._max_age = passed, max_age
        self.seen: list[Seen] = []
        self.weather = "fine"
        self._books: dict[int, str] = {0: "first"}
        self._keys: list[SealingKey] = [_key(1, 0, _ANY)]
        self._sequence, self._last_key = 0, 1
        self._off: tuple[str, ...] = ()
        self._renew()

    def live(self, event: Network | Publish | SwitchOff | Keys) -> None:
        match event:
            case Network(weather):
                self.weather = weather
            case Publish(edit, lead):
                self.publish(edit, lead)
            case SwitchOff(metrics):
                self.switch_off(metrics)
            case Keys(change):
                self.change_keys(change)

    def publish(self, edit: str, lead: int) -> None:
        first = self._period() + lead
        self._books = {start: book for start, book in self._books.items() if start < first} | {first: edit}
        self._renew()

    def switch_off(self, metrics: tuple[str, ...]) -> None:
        self._off = metrics
        self._renew()

    def change_keys(self, change: str) -> None:
        self._last_key += 1
        period, number = self._period(), self._last_key
        usable = [key for key in self._keys if key.state != "revoked"]
        revoked = [key for key in self._keys if key.state == "revoked"]
        match change:
            case "revoke":  # not replaced in the running period
                gone = [_key(key.id, key.first_period, key.last_period, revoked=True) for key in usable]
                self._keys = [*revoked, *gone, _key(number, period + 1, _ANY)]
            case "swap":
                self._keys = [*revoked, _key(number, 0, _ANY)]
            case "none":
                self._keys = revoked
            case "next":
                before = [_key(key.id, key.first_period, min(key.last_period, period)) for key in usable]
                kept = [key for key in before if key.first_period <= key.last_period]
                self._keys = [*revoked, *kept, _key(number, period + 1, _ANY)]
        self._renew()

    def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        reports = decode_upload(body) if method == "POST" else []
        decoded = [(decode_report(report)[0], len(report)) for report in reports]
        shown = tuple((header.metric, header.period, header.key, length) for header, length in decoded)
        self.seen.append(Seen(round(self._passed(), 4), method, path, tuple(sorted(headers.items())), shown))
        match self.weather:
            case "offline":
                raise CannotReach("no route to host")
            case "lost answers" if reports:
                raise CannotReach("connection reset")
            case "busy":
                return 503, {"retry-after": "600"}, b""
            case "portal":
                return 200, {"content-type": "text/html"}, b"<html>Please log in</html>"
            case "no bundle" if not reports:
                return 503, {}, b""
            case "unknown key" if reports:
                listed = [{"index": index, "reason": "unknown-key"} for index in range(len(reports))]
                return 200, {"content-type": "application/json"}, json.dumps({"failures": listed}).encode()
        if reports:
            return 202, {}, b""
        tag = entity_tag(self._bundle)
        return (304, {}, b"") if headers.get("if-none-match") == tag else (200, {}, self._bundle)

    def _period(self) -> int:
        return self._now() // 3_600

    def _now(self) -> int:
        return int(START + self._passed())  # the server's own clock is right

    def _renew(self) -> None:
        now = self._now()
        self._sequence = max(now, self._sequence + 1)
        self._bundle = sign(
            _IDENTITY,
            collection="twins",
            codebooks=[
                BundledCodebook(max(start, 0), codebook_of(edit).compiled()) for start, edit in self._in_order()
            ],
            keys=self._keys,
            now=now,
            lifetime=30 * 86_400,
            max_age=self._max_age,
            last=None,
            sequence=self._sequence,
            off=[
                metric.id
                for edit in self._books.values()
                for metric in codebook_of(edit).metrics
                if metric.name in self._off
            ],
        )

    def _in_order(self) -> Iterable[tuple[int, str]]:
        return sorted(self._books.items())


def _key(number: int, first: int, last: int, *, revoked: bool = False) -> SealingKey:
    public = public_key_of(hashlib.sha256(f"key {number}".encode()).digest())
    return SealingKey(number, public, first, last, "revoked" if revoked else "active")
