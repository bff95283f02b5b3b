"""Random cases for two implementations: mechanism, integers, value and stream, and what Python makes of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

from hubbub.errors import HubbubError
from hubbub.mechanisms import Bins, Bounds, Categories, Mechanism, mechanism, registered
from scripts.vectors.streams import Recorded
from tests.support.node import run

__all__ = ["cases", "compare"]

_STREAM = 6000
"""Bytes that a case may take."""


def cases(count: int, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Cases as another implementation reads them, each with what it must say. All mechanisms in turn."""
    rng = random.Random(seed)
    names = sorted(registered())
    made = 0
    while made < count:
        name = names[made % len(names)]
        one = _case(name, rng)
        if one is not None:
            made += 1
            yield one


def _case(name: str, rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]] | None:
    # A matrix is given, not made for an epsilon: it has to keep to one.
    epsilon = Fraction("8" if name == "matrix" else rng.choice(["0.05", "0.3", "1", "1.7", "2", "3.3", "5", "8"]))
    domain, built = _built(name, epsilon, rng)
    if built is None:
        return None
    value, shown = _value(domain, rng)
    stream = rng.randbytes(_STREAM)
    recorded = Recorded(stream)
    try:
        payload = built.encode(built.randomize(value, recorded))
    except EOFError:  # a geometric number of draws was too long for the stream
        return None
    given = {
        "mechanism": name,
        "epsilon": str(epsilon),
        "parameters": built.parameters(),
        "domain": domain,
        "value": shown,
        "stream": stream[: recorded.used].hex(),
    }
    return given, {"payload": payload.hex(), "used": recorded.used, "bytes": built.report_bytes, "holds": True}


def _built(name: str, epsilon: Fraction, rng: random.Random) -> tuple[dict[str, Any], Mechanism[Any] | None]:
    cls = mechanism(name)
    try:
        if name in {"laplace", "duchi", "table", "piecewise", "hybrid"}:
            low = Fraction(rng.randrange(-10_000, 10_000), rng.choice([1, 3, 7, 100, 4096]))
            high = low + Fraction(rng.randrange(1, 100_000), rng.choice([1, 3, 7, 100, 4096]))
            options = {"steps": rng.randrange(1, 65)} if name == "laplace" else {}
            bounds = [str(low), str(high)]
            return {"bounds": bounds}, cls.calibrate(epsilon, Bounds(low, high), **options)
        size = 2 if name == "rr" else rng.choice([2, 3, 5, 8, 17, 64, 100, 255, 256, 257, 300])
        if name == "matrix":
            size = rng.choice([2, 3, 4])
            keep = Fraction(rng.randrange(5, 9), 10)
            rows = [[str(keep if i == j else (1 - keep) / (size - 1)) for i in range(size)] for j in range(size)]
            return {"size": size}, cls.calibrate(epsilon, Categories(size), matrix=rows)
        if not cls.fits(Categories(size)) and cls.fits(Bins(2)):
            size = rng.choice([2, 3, 5, 8, 17, 40, 64])  # more bins take seconds to find weights for
            return {"size": size}, _over_bins(name, epsilon, size)
        return {"size": size}, cls.calibrate(epsilon, Categories(size))
    except HubbubError:
        return {}, None


@cache
def _over_bins(name: str, epsilon: Fraction, size: int) -> Mechanism[Any]:
    """Made once for each: to find its weights takes long."""
    return mechanism(name).calibrate(epsilon, Bins(size))


def _value(domain: dict[str, Any], rng: random.Random) -> tuple[Any, Any]:
    """An input, and how JSON shows it: a double as a number, an exact decimal as text."""
    if "size" in domain:
        index = rng.randrange(domain["size"])
        return index, index
    low, high = map(Fraction, domain["bounds"])
    if rng.random() < 0.5:
        double = float(low) + (float(high) - float(low)) * rng.uniform(-0.1, 1.1)
        return Fraction(double), double
    exact = low + (high - low) * Fraction(rng.randrange(-1, 12), 10)
    return exact, str(exact)


def compare(count: int, seed: int) -> list[str]:
    """The cases on which TypeScript and Python differ."""
    drawn = list(cases(count, seed))
    said = run("test/differential.ts", given="\n".join(json.dumps(given) for given, _ in drawn), timeout=600)
    assert said.returncode == 0, said.stderr
    found = [json.loads(line) for line in said.stdout.splitlines()]
    assert len(found) == len(drawn)
    return [
        f"{given['mechanism']} of {given['value']} in {given['domain']}: {other}, not {expected}"
        for (given, expected), other in zip(drawn, found, strict=True)
        if expected != other
    ]
