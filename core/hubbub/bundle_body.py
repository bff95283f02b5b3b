"""The body of a bundle: from when each codebook is in force, and which key seals which period.

This module reads only those facts of a compiled codebook by which a shuffler batches reports. The rest passes
through unread, because the module must not know a mechanism. It ignores members that it does not know, so that a
newer aggregator can add some without silencing older devices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NoReturn, TypeAlias, get_args

from hubbub.canonical import LARGEST_INTEGER, Json
from hubbub.errors import InvalidParameter, MalformedBundle
from hubbub.low_order import has_low_order
from hubbub.period import LARGEST_INDEX, LONGEST_DURATION, Calendar
from hubbub.trust_anchor import base64_text, read_base64

__all__ = ["SUITE", "Body", "BundledCodebook", "KeyState", "MetricHeader", "SealingKey", "read_body"]

FORMAT = "hubbub-bundle 1"
SUITE = "x25519-hkdf-sha256-aes-128-gcm"
"""HPKE with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM, the only suite of this version."""

KeyState: TypeAlias = Literal["pending", "active", "revoked"]


@dataclass(frozen=True, slots=True)
class MetricHeader:
    """What the shuffler needs to know about a metric, and nothing more."""

    id: bytes
    name: str
    report_bytes: int
    """Length of the payload inside a sealed report."""
    calendar: Calendar
    grace: int
    min_batch: int
    enabled: bool


@dataclass(frozen=True, slots=True)
class BundledCodebook:
    """A compiled codebook and the first period, in its own calendar, in which it is in force."""

    first_period: int
    document: dict[str, Json]
    off: frozenset[bytes] = frozenset()
    """Ids of the metrics that the bundle switches off."""
    collection: str = field(init=False)
    calendar: Calendar = field(init=False)
    grace: int = field(init=False)
    forward_horizon: int = field(init=False)
    """Seconds after a period's close until which its batches are taken."""
    metrics: tuple[MetricHeader, ...] = field(init=False)

    def __post_init__(self) -> None:
        codebook = _Members(self.document, "codebook")
        collection = codebook.member("collection")
        calendar = collection.calendar("period")
        grace = collection.whole("grace", 1, LONGEST_DURATION)
        metrics = tuple(
            MetricHeader(
                id=(id_ := metric.hexadecimal("id", 16)),
                name=metric.text("name"),
                report_bytes=metric.whole("report_bytes", 1),
                calendar=calendar,
                grace=grace,
                min_batch=metric.whole("min_batch", 2),
                enabled=metric.flag("enabled") and id_ not in self.off,
            )
            for metric in codebook.members("metrics")
        )
        for what, found in (("id", {m.id for m in metrics}), ("name", {m.name for m in metrics})):
            if len(found) != len(metrics):
                raise MalformedBundle(f"codebook.metrics: two metrics have the same {what}")
        object.__setattr__(self, "collection", collection.text("name"))
        object.__setattr__(self, "calendar", calendar)
        object.__setattr__(self, "grace", grace)
        object.__setattr__(self, "forward_horizon", collection.whole("forward_horizon", 1, LONGEST_DURATION))
        object.__setattr__(self, "metrics", metrics)


@dataclass(frozen=True, slots=True)
class SealingKey:
    """A public key for the periods from `first_period` to `last_period`, both included.

    A `pending` key is published before its first period. A `revoked` key no longer seals anything. A key with a suite
    that this software does not know seals nothing here, and no other key covers its periods.
    """

    id: int
    public_key: bytes
    first_period: int
    last_period: int
    state: KeyState = "active"
    suite: str = SUITE

    @property
    def usable(self) -> bool:
        """Whether this software can and may seal with this key."""
        return self.state != "revoked" and self.suite == SUITE

    def covers(self, period: int) -> bool:
        return self.first_period <= period <= self.last_period

    def document(self) -> dict[str, Json]:
        return {
            "id": self.id,
            "suite": self.suite,
            "public_key": base64_text(self.public_key),
            "first_period": self.first_period,
            "last_period": self.last_period,
            "state": self.state,
        }


@dataclass(frozen=True, slots=True)
class Body:
    """The signed content of a bundle. `read_body` returns a checked one."""

    collection: str
    sequence: int
    issued: int
    expires: int
    max_age: int
    """Seconds during which a relay or a device need not ask again."""
    codebooks: tuple[BundledCodebook, ...]
    keys: tuple[SealingKey, ...]
    off: frozenset[bytes] = frozenset()
    """Ids of metrics that are switched off at once, in every period, whatever their codebook says."""

    def in_force(self, period: int) -> BundledCodebook | None:
        """The only codebook of this period. With two, a name could have two ids, and its crowd would be split."""
        return next((codebook for codebook in reversed(self.codebooks) if codebook.first_period <= period), None)

    def metric(self, id: bytes, period: int) -> MetricHeader | None:  # noqa: A002  it is an id
        """The metric with this id, if this period's codebook has it."""
        codebook = self.in_force(period)
        return next((metric for metric in codebook.metrics if metric.id == id), None) if codebook else None

    def key_for(self, period: int) -> SealingKey | None:
        """The only key that seals this period, if there is one that this software can use."""
        return next((key for key in self.keys if key.usable and key.covers(period)), None)

    def document(self) -> dict[str, Json]:
        return {
            "format": FORMAT,
            "collection": self.collection,
            "sequence": self.sequence,
            "issued": self.issued,
            "expires": self.expires,
            "max_age": self.max_age,
            "codebooks": [
                {"first_period": codebook.first_period, "codebook": codebook.document} for codebook in self.codebooks
            ],
            "keys": [key.document() for key in self.keys],
            **({"off": [id_.hex() for id_ in sorted(self.off)]} if self.off else {}),
        }


def read_body(document: Json) -> Body:
    """The content of a signed document, or a MalformedBundle that names the faulty member."""
    body = _Members(document, "bundle")
    if body.text("format") != FORMAT:
        body.refuse("format", f"this software reads {FORMAT!r}; update it")
    off = frozenset(body.ids("off"))
    read = Body(
        collection=body.text("collection"),
        sequence=body.whole("sequence", 0),
        issued=body.whole("issued", 0),
        expires=body.whole("expires", body.whole("issued", 0) + 1),
        max_age=body.whole("max_age", 0),
        codebooks=tuple(
            BundledCodebook(entry.whole("first_period", 0, LARGEST_INDEX), entry.member("codebook").document, off)
            for entry in body.members("codebooks")
        ),
        keys=tuple(_read_key(key) for key in body.members("keys")),
        off=off,
    )
    _refuse_contradictions(read)
    return read


def _read_key(key: _Members) -> SealingKey:
    first, suite = key.whole("first_period", 0, LARGEST_INDEX), key.text("suite")
    public_key = key.base64("public_key", 32 if suite == SUITE else None)
    if suite == SUITE and has_low_order(public_key):
        key.refuse("public_key", "it has low order, so that nothing can be sealed to it")
    return SealingKey(
        id=key.whole("id", 0, 255),
        suite=suite,
        public_key=public_key,
        first_period=first,
        last_period=key.whole("last_period", first, LARGEST_INDEX),
        state=_state(key.one_of("state", get_args(KeyState))),
    )


def _state(text: str) -> KeyState:
    return "pending" if text == "pending" else "active" if text == "active" else "revoked"


def _refuse_contradictions(body: Body) -> None:
    """Check the rules that involve more than one member."""
    if not body.codebooks:
        raise MalformedBundle("bundle.codebooks: at least one codebook must be in force")
    if any(codebook.collection != body.collection for codebook in body.codebooks):
        raise MalformedBundle(f"bundle.codebooks: every codebook must be of the collection {body.collection!r}")
    starts = [codebook.first_period for codebook in body.codebooks]
    if sorted(set(starts)) != starts:
        raise MalformedBundle("bundle.codebooks: each must start in a later period than the one before it")
    if len({codebook.calendar for codebook in body.codebooks}) > 1:
        raise MalformedBundle(
            "bundle.codebooks: all must have the same period length, since keys are counted in periods; "
            "let the old codebook reach its horizon before you publish one with another length"
        )
    ids = [key.id for key in body.keys]
    if len(set(ids)) != len(ids):
        raise MalformedBundle("bundle.keys: two keys have the same id")
    standing = sorted((k for k in body.keys if k.state != "revoked"), key=lambda k: k.first_period)
    for key, after in pairwise(standing):
        if after.first_period <= key.last_period:
            raise MalformedBundle(f"bundle.keys: keys {key.id} and {after.id} both seal period {after.first_period}")


class _Members:
    """The members of one JSON object, each read as the type it must have."""

    def __init__(self, document: Json, path: str) -> None:
        if not isinstance(document, dict):
            raise MalformedBundle(f"{path}: expected an object, got {type(document).__name__}")
        self.document, self.path = document, path

    def refuse(self, name: str, why: str) -> NoReturn:
        raise MalformedBundle(f"{self.path}.{name}: {why}")

    def _get(self, name: str) -> Json:
        if name not in self.document:
            self.refuse(name, "missing")
        return self.document[name]

    def text(self, name: str) -> str:
        value = self._get(name)
        return value if isinstance(value, str) and value else self.refuse(name, f"expected text, got {value!r}")

    def flag(self, name: str) -> bool:
        value = self._get(name)
        return value if isinstance(value, bool) else self.refuse(name, f"expected true or false, got {value!r}")

    def whole(self, name: str, least: int, most: int = LARGEST_INTEGER) -> int:
        value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.refuse(name, f"expected a whole number from {least} to {most}, got {value!r}")
        return value

    def one_of(self, name: str, options: tuple[str, ...]) -> str:
        value = self.text(name)
        return value if value in options else self.refuse(name, f"expected {' or '.join(options)}, got {value!r}")

    def hexadecimal(self, name: str, size: int) -> bytes:
        value = self.text(name)
        try:
            data = bytes.fromhex(value)
        except ValueError:
            data = b""
        return data if len(data) == size and data.hex() == value else self.refuse(name, f"expected {size} bytes in hex")

    def ids(self, name: str) -> list[bytes]:
        """Metric ids in ascending order, without duplicates. Empty if the member is left out."""
        if name not in self.document:
            return []
        listed = self.document[name]
        found = listed if isinstance(listed, list) and listed else self.refuse(name, "expected a list of metric ids")
        ids = [_Members({name: one}, self.path).hexadecimal(name, 16) for one in found]
        return ids if ids == sorted(set(ids)) else self.refuse(name, "ids must ascend, each once")

    def base64(self, name: str, size: int | None) -> bytes:
        try:
            return read_base64(self.text(name), size)
        except ValueError as error:
            self.refuse(name, str(error))

    def calendar(self, name: str) -> Calendar:
        try:
            return Calendar(self.whole(name, 1))
        except InvalidParameter as error:
            self.refuse(name, str(error))

    def member(self, name: str) -> _Members:
        return _Members(self._get(name), f"{self.path}.{name}")

    def members(self, name: str) -> list[_Members]:
        value = self._get(name)
        if not isinstance(value, list):
            self.refuse(name, f"expected a list, got {type(value).__name__}")
        return [_Members(item, f"{self.path}.{name}[{position}]") for position, item in enumerate(value)]
