"""Work of the comparison: seeded values of devices, and the randomizers of other libraries that get them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

EPSILONS = (0.5, 1.0, 2.0, 4.0)
SIZES = (2, 16, 128, 1024, 65_536)
REPEATS = {2: 100, 16: 40, 128: 10, 1024: 2, 65_536: 1}
REPORTS = 1000
CROWD, TOP, DRAWS = 20_000, 10, 10
"""Reports over 1024 values in the comparison of costs and of the ten largest; the number of the largest; and how often
the reports are drawn if time allows."""
NUMBERS, SECONDS = 20_000, 3.0
"""Draws of a noisy number; CPU seconds after which a job starts no further repeat."""

PEERS = {
    "pure-ldp": ("DE", "OUE", "OLH", "FastOLH", "HR", "HM"),
    "multi-freq-ldpy": ("GRR", "SS", "OUE", "OLH"),
    "opendp": ("RR", "bitvec"),
}
BINARY = {"pure-ldp": ("DE",), "multi-freq-ldpy": ("GRR",), "opendp": ("RR",), "diffprivlib": ("Binary",)}
FEWER = {"OUE": 200, "OLH": 100, "SS": 100, "bitvec": 20, "RR": 100}
"""Reports over 65,536 values, if one takes milliseconds or more on the device or the server."""
NOISES = {
    "opendp": ("laplace", "canonical"),
    "diffprivlib": ("Laplace", "Staircase", "LaplaceTruncated", "LaplaceFolded", "LaplaceBoundedDomain", "Snapping"),
}


def zipf(size: int, reports: int, seed: int) -> NDArray[np.int64]:
    """Values whose shares fall as 1/rank, also in a prefix of any length."""
    shares = 1 / np.arange(1, size + 1)
    return np.random.default_rng(seed).choice(size, reports, p=shares / shares.sum())


def values() -> dict[str, NDArray[Any]]:
    """All inputs by name."""
    found: dict[str, NDArray[Any]] = {f"values-{size}": zipf(size, REPORTS, size) for size in SIZES}
    for reports in set(FEWER.values()):
        found[f"values-65536-{reports}"] = found["values-65536"][:reports]
    found["crowd"] = zipf(1024, CROWD, 7)
    found["numbers"] = 2 * np.random.default_rng(9).beta(2, 5, NUMBERS) - 1
    found["ends"] = np.ones(NUMBERS // 4)
    return found


def jobs() -> Iterator[dict[str, Any]]:
    """All jobs for the other libraries."""
    for size in SIZES:
        for library, protocols in (BINARY if size == 2 else PEERS).items():
            for protocol in protocols:
                few = FEWER.get(protocol) if size == 65_536 else None
                name = f"values-{size}" + (f"-{few}" if few else "")
                for epsilon in EPSILONS if size < 65_536 else (1.0, 4.0):
                    yield _job("shares", library, protocol, epsilon, name, size, REPEATS[size])
    for library, protocols in PEERS.items():
        for protocol in protocols:
            for epsilon in (1.0, 4.0):
                yield _job("crowd", library, protocol, epsilon, "crowd", 1024, DRAWS)
    for library, protocols in NOISES.items():
        for protocol in protocols:
            for epsilon in EPSILONS:
                yield _job("mean", library, protocol, epsilon, "numbers", 0, 1)
            yield _job("mean", library, protocol, 1.0, "ends", 0, 1)


def _job(
    kind: str, library: str, protocol: str, epsilon: float, values: str, size: int, repeats: int
) -> dict[str, Any]:
    return {
        "name": f"{kind}/{library}/{protocol}/{epsilon:g}/{values}",
        "kind": kind,
        "library": library,
        "protocol": protocol,
        "epsilon": epsilon,
        "values": values,
        "size": size,
        "repeats": repeats,
        "seconds": SECONDS,
        "seed": 11,
    }
