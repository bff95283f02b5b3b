"""What the traces share: metrics, codebooks, keys and signed bundles."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import BundledCodebook, SealingKey, sign
from hubbub.codebook import Codebook
from hubbub.sealing import public_key_of
from hubbub.trust_anchor import anchor_of
from scripts.vectors.keys import IDENTITY, METRIC

_AGGREGATOR = Ed25519PrivateKey.from_private_bytes(IDENTITY)
STRANGER = Ed25519PrivateKey.from_private_bytes(METRIC * 2)
PRIVATE_KEYS = {1: bytes([1] * 32), 2: bytes([2] * 32)}
SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000
TODAY = 20_800
"""The day on which traces begin, counted in days since 1970: a Sunday."""
NOON = TODAY * DAY + 12 * HOUR
EVER = (0, 2**31)

ONE_FLAG = """
[metrics.flag]
type = "boolean"
epsilon = 1
min_batch = 100
"""
ONE_WORD = """
[metrics.word]
type = "category"
values = ["a", "b", "c"]
epsilon = 20
mechanism = "krr"
min_batch = 100
"""
ONE_STEADY = """
[metrics.steady]
type = "boolean"
missing = false
epsilon = 2
min_batch = 100
"""


def toml_of(*metrics: str, period: str = "1d", device_epsilon: float = 30, **more: str) -> str:
    """A codebook of these metrics; `more` are further keys of its collection."""
    extra = "".join(f'{name} = "{value}"\n' for name, value in more.items())
    head = f'name = "traces"\nperiod = "{period}"\ndevice_epsilon = {device_epsilon}\n{extra}'
    return f"[collection]\n{head}release = {{ epsilon = 0.5, delta = 1e-8 }}\n" + "".join(metrics)


def reduced(
    reduce: str, kind: str = 'type = "mean"\nbounds = [0, 16]\nmechanism = { name = "laplace", steps = 16 }'
) -> str:
    """A metric whose report shows nearly what was reduced."""
    return f'\n[metrics.value]\n{kind}\nreduce = "{reduce}"\nepsilon = 30\nmin_batch = 100\n'


WORDS = 'type = "category"\nvalues = ["a", "b", "c", "d", "e", "f", "g", "h"]\nmechanism = "krr"'


def key_of(id_: int = 1, first: int = EVER[0], last: int = EVER[1], **more: Any) -> SealingKey:
    return SealingKey(id_, public_key_of(PRIVATE_KEYS[id_]), first, last, **more)


class _Bundles:
    """Bundles by name. A trace serves them from `newer` 0 on; within it, the name decides, so that one more bundle
    changes no other."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def add(
        self,
        name: str,
        *tomls: str,
        first_periods: tuple[int, ...] = (0, TODAY + 1),
        keys: tuple[SealingKey, ...] = (key_of(),),
        identity: Ed25519PrivateKey = _AGGREGATOR,
        off: tuple[str, ...] = (),
        lifetime: int = 90 * 86_400,
        newer: int = 1,
        unreadable: tuple[int, ...] = (),
    ) -> str:
        """`unreadable` are the places of codebooks with a member that no device of today knows."""
        books = [Codebook.from_toml(toml) for toml in tomls]
        compiled = [book.compiled() | ({"later": 1} if i in unreadable else {}) for i, book in enumerate(books)]
        bundled = zip(first_periods, compiled, strict=False)
        ids = {metric.name: metric.id for book in books for metric in book.metrics}
        raw = sign(
            identity,
            collection="traces",
            codebooks=[BundledCodebook(first, book) for first, book in bundled],
            keys=keys,
            now=TODAY * 86_400,
            lifetime=lifetime,
            max_age=3_600,
            last=None,
            sequence=TODAY * 86_400 + (newer << 24) + int.from_bytes(sha256(name.encode()).digest()[:3]),
            off=[ids[metric] for metric in off],
        )
        self.made[name] = raw.decode("ascii")
        return name


_BUNDLES = _Bundles()
bundle = _BUNDLES.add
BOTH_TOML = toml_of(ONE_FLAG, ONE_STEADY)

FLAG = bundle("flag", toml_of(ONE_FLAG), newer=0)
BOTH = bundle("flag and steady", BOTH_TOML, newer=0)


def shared() -> dict[str, Any]:
    """What a file of traces begins with."""
    return {
        "trust": anchor_of(_AGGREGATOR),
        "private_keys": {str(key): private.hex() for key, private in PRIVATE_KEYS.items()},
        "bundles": dict(_BUNDLES.made),
    }
