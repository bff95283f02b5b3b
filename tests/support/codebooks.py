"""Codebooks of one app, photo-app, as TOML, and bundles of codebooks signed by an identity that tests know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hubbub.bundle import BundledCodebook, SealingKey, sign
from hubbub.codebook import Codebook

__all__ = ["IDENTITY", "STRANGER", "dark_mode", "metric", "photo_app", "signed", "startup_ms", "theme"]

IDENTITY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(32))
DAY = 86_400


def photo_app(
    *metrics: str,
    period: str = "1d",
    grace: str | None = None,
    device_epsilon: float = 4,
    epsilon: float = 0.5,
    delta: float = 1e-8,
    **more: Any,
) -> str:
    """The codebook of photo-app with these metrics. `epsilon` and `delta`: what a release may cost."""
    keys = {"name": "photo-app", "period": period, "grace": grace, "device_epsilon": device_epsilon}
    keys |= {"release": {"epsilon": epsilon, "delta": delta}} | more
    return "\n" + "\n".join([_table("collection", keys), *metrics])


def metric(name: str, **keys: Any) -> str:
    """The table of one metric, its keys in the order in which they are given."""
    return _table(f"metrics.{name}", keys)


def dark_mode(epsilon: float = 1, **more: Any) -> str:
    return metric("dark_mode", type="boolean", epsilon=epsilon, **more)


def theme(
    epsilon: float = 2, *, values: Sequence[str] = ("light", "dark", "sepia", "other"), other: str = "", **more: Any
) -> str:
    keys = {"values": values} | ({"other": other} if other else {})
    return metric("theme", type="category", **keys, epsilon=epsilon, **more)


def startup_ms(epsilon: float = 1, **more: Any) -> str:
    return metric("startup_ms", type="mean", bounds=[0, 5000], epsilon=epsilon, **more)


def signed(
    codebooks: Mapping[int, Codebook | Mapping[str, Any]],
    keys: Sequence[SealingKey],
    *,
    now: float,
    lifetime: int = 30 * DAY,
    max_age: int = 3_600,
    identity: Ed25519PrivateKey = IDENTITY,
    collection: str = "photo-app",
    off: Sequence[bytes] = (),
) -> bytes:
    """A bundle as an aggregator would sign it. `codebooks`: by the period in which each starts."""
    compiled = {first: each.compiled() if isinstance(each, Codebook) else each for first, each in codebooks.items()}
    return sign(
        identity,
        collection=collection,
        codebooks=[BundledCodebook(first, dict(each)) for first, each in compiled.items()],
        keys=keys,
        now=int(now),
        lifetime=lifetime,
        max_age=max_age,
        last=None,
        off=off,
    )


def _table(heading: str, keys: Mapping[str, Any]) -> str:
    """Keys that are None are left out."""
    return f"[{heading}]\n" + "".join(
        f"{key} = {_written(value)}\n" for key, value in keys.items() if value is not None
    )


def _written(value: Any) -> str:
    """As a person writes it in TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_written(one)}' for key, one in value.items())} }}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value).replace("e-0", "e-")
    return json.dumps(value, ensure_ascii=False)
