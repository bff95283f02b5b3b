"""tests/vectors/v1/randomizer.json: what each mechanism decides from given bits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from hubbub.mechanisms import Bins, Bounds, Categories, Mechanism, mechanism
from scripts.vectors.streams import Edges, Recorded, Tail, stream

__all__ = ["randomizer"]

_WIDE, _ODD = ["0", "5000"], ["-40.5", "85.25"]
_ODD_NUMBERS = ["-40.5", "0", "21.5", "85.25"]
_EDGES = 6
"""Decisions from crafted draws for each value."""


class Made(NamedTuple):
    """A mechanism with its domain as JSON."""

    mechanism: Mechanism[Any]
    domain: dict[str, Any]


def randomizer() -> list[dict[str, Any]]:
    return [_plain(*given) for given in _first()] + [_with_edges(*given) for given in _more()]


def _made(name: str, epsilon: str, domain: int | list[str], **options: Any) -> Made:
    if isinstance(domain, int):
        return Made(mechanism(name).calibrate(Fraction(epsilon), of_size(name, domain), **options), {"size": domain})
    bounds = Bounds(*map(Fraction, domain))
    return Made(mechanism(name).calibrate(Fraction(epsilon), bounds, **options), {"bounds": domain})


def of_size(name: str, size: int) -> Categories:
    """A list of this many values, or bins for a mechanism that takes no list."""
    values = Categories(size)
    return values if mechanism(name).fits(values) or size == 2 else Bins(size)


def _first() -> Iterator[tuple[Made, list[Any]]]:
    """Mechanisms and inputs of the first vectors, which stay as they are."""
    yield _made("rr", "1", 2), [0, 1]
    yield _made("krr", "2", 5), [0, 3, 4]
    yield _made("matrix", "1", 2, matrix=[["0.7", "0.4"], ["0.3", "0.6"]]), [0, 1]
    yield _made("laplace", "1", _WIDE, steps=16), ["0", "812", "2500.5", "5000"]
    yield _made("duchi", "1.5", _ODD), _ODD_NUMBERS
    for name, epsilon, size in (
        ("hadamard", "0.5", 1000),
        ("linear-hash", "2", 1000),
        ("olh", "2", 1000),
        ("oue", "1", 20),
        ("subset", "1", 20),
        ("subset", "4", 300),  # a list of places instead of a bit for each value
        ("sue", "1", 20),
    ):
        yield _made(name, epsilon, size), [0, 7, size - 1]
    for name, epsilon in (("hybrid", "2"), ("piecewise", "1"), ("table", "1"), ("table", "3")):
        yield _made(name, epsilon, _ODD), _ODD_NUMBERS


def _more() -> Iterator[tuple[Made, list[Any], list[int]]]:
    """Mechanisms and inputs with draws on the edges of decisions; and for noise without bounds, how far the tails
    reach, in scales."""
    yield _made("rr", "1", 2), [0, 1], []
    yield _made("rr", "0.0001", 2), [0, 1], []
    for epsilon, size in (("2", 3), ("1", 6), ("3", 300)):
        yield _made("krr", epsilon, size), sorted({0, size // 2, size - 1}), []
    silent = [["0.6", "0.3", "0.3"], ["0.2", "0.5", "0.2"], ["0.1", "0.1", "0.4"], ["0.1", "0.1", "0.1"]]
    yield _made("matrix", "1.5", 3, matrix=silent), [0, 1, 2], []
    for name, epsilon, size in (
        ("hadamard", "1", 6),
        ("linear-hash", "1", 6),
        ("linear-hash", "3", 300),
        ("olh", "1", 6),
        ("olh", "3", 300),
        ("oue", "2", 9),
        ("sue", "2", 9),
        ("subset", "1", 8),
        ("subset", "2", 14),
        ("subset", "1", 100),
        ("subset", "1.4", 20),  # as many bits either way: a bit for each value
        ("subset", "0.5", 256),
        ("subset", "2.5", 256),
        ("subset", "4", 256),
    ):
        yield _made(name, epsilon, size), sorted({0, size // 2, size - 1}), []
    for epsilon, steps, bounds in (("1", 16, _WIDE), ("0.7", 10, _ODD), ("8/3", 64, _WIDE)):
        built = _made("laplace", epsilon, bounds, steps=steps)
        scale, rate, reach = (int(str(built.mechanism.parameters()[name])) for name in ("scale", "rate", "reach"))
        yield built, _numbers(bounds, steps), [reach * rate // scale - 1, (reach + 2 * steps) * rate // scale + 1]
    yield _made("duchi", "1", _WIDE), _numbers(_WIDE, 4), []
    for name, epsilon in (("hybrid", "0.5"), ("hybrid", "1"), ("hybrid", "4"), ("piecewise", "3")):
        yield _made(name, epsilon, _ODD), _numbers(_ODD, 15), []
    for epsilon in ("0.25", "1", "2", "4", "8"):
        built = _made("table", epsilon, _WIDE)
        yield built, _numbers(_WIDE, int(str(built.mechanism.parameters()["steps"]))), []
    yield from _mixtures()


def _mixtures() -> Iterator[tuple[Made, list[Any], list[int]]]:
    """Components are given, so that better weights change no vector."""
    for epsilon, size, sets, windows in (
        ("1", 3, [[1, 1, 40_000]], [[2, 25_536]]),
        ("2", 5, [[1, 2, 30_000], [2, 1, 20_000]], [[2, 15_536]]),
        ("1", 64, [[1, 17, 27_816]], [[8, 8_518], [16, 15_249], [32, 13_953]]),
        ("4", 100, [[1, 2, 20_000], [4, 1, 5_536]], [[2, 10_000], [5, 30_000]]),
        ("0.5", 256, [[1, 90, 40_000], [2, 45, 10_000], [4, 22, 5_536]], [[100, 10_000]]),
        ("1", 6, [], [[3, 65_536]]),
    ):
        yield _made("ladder", epsilon, size, sets=sets, windows=windows), [0, size // 2, size - 1], []
    for epsilon, size, sets in (
        ("1", 5, [[1, 2, 45_000], [4, 1, 20_536]]),
        ("2", 64, [[1, 8, 30_000], [4, 2, 20_000], [16, 1, 15_536]]),
        ("3", 9, [[1, 1, 65_536]]),
    ):
        yield _made("tree", epsilon, size, sets=sets), [0, size // 2, size - 1], []


def _numbers(domain: list[str], steps: int) -> list[str]:
    """Bounds, points of the grid (where the coin is drawn all the same), numbers beyond, and ones that no short
    fraction writes."""
    bounds = Bounds(*map(Fraction, domain))
    inner = [bounds.lower + bounds.width * place / steps for place in (1, steps - 1)]
    beyond = [bounds.lower - 1, bounds.upper + Fraction(1, 3)]
    long = [Fraction(0.1), bounds.lower + bounds.width * Fraction(123_456_789, 999_999_937)]
    return [str(number) for number in (bounds.lower, bounds.upper, *inner, *beyond, *long)]


def _plain(built: Made, inputs: list[Any]) -> dict[str, Any]:
    decisions = [
        _decision(built, value, stream(f"{built.mechanism.name} {value} {run}", 4_096))
        for value in inputs
        for run in range(12)
    ]
    return _described(built) | {"decisions": decisions}


def _with_edges(built: Made, inputs: list[Any], tails: list[int]) -> dict[str, Any]:
    about = f"{built.mechanism.name} {built.mechanism.epsilon} {json.dumps(built.domain)}"
    decisions = []
    for value in inputs:
        decisions += [_decision(built, value, stream(f"{about} {value} {run}", 4_096)) for run in range(2)]
        crafted = [Edges(f"{about} {value} {run}") for run in range(_EDGES)]
        crafted += [Tail(f"{about} {value}", whole, negative=sign) for whole in tails for sign in (False, True)]
        for rng in crafted:
            built.mechanism.randomize(_input(value), rng)
            decisions.append(_decision(built, value, bytes(rng.taken)))
    return _described(built) | {"decisions": decisions}


def _decision(built: Made, value: Any, drawn: bytes) -> dict[str, Any]:
    rng = Recorded(drawn)
    payload = built.mechanism.encode(built.mechanism.randomize(_input(value), rng)).hex()
    return {"value": value, "stream": drawn[: rng.used].hex(), "payload": payload}


def _input(value: Any) -> Any:
    return Fraction(value) if isinstance(value, str) else value


def _described(built: Made) -> dict[str, Any]:
    return {
        "mechanism": built.mechanism.name,
        "epsilon": str(built.mechanism.epsilon),
        "domain": built.domain,
        "parameters": json.loads(json.dumps(built.mechanism.parameters())),
    }
