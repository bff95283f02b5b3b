"""tests/vectors/v1/draws.json: each draw of hubbub.randomness alone, so that a failure says where it lies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hubbub.randomness import Randomness, discrete_laplace, subset, subset_bits
from scripts.vectors.streams import Edges, Recorded, Tail, stream

__all__ = ["DRAWS", "draws"]

_RUNS = 3
_W = 2**64

DRAWS: dict[str, Callable[[Randomness, list[Any]], Any]] = {
    "bits": lambda rng, args: rng.bits(args[0]),
    "below": lambda rng, args: rng.below(args[0]),
    "coin": lambda rng, args: rng.coin(*args),
    "coins": lambda rng, args: rng.coins(*args),
    "pick": lambda rng, args: rng.pick(args[0]),
    "coin_exp": lambda rng, args: rng.coin_exp(*args),
    "discrete_laplace": lambda rng, args: discrete_laplace(rng, *args),
    "subset": lambda rng, args: subset(rng, *args),
    "subset_bits": lambda rng, args: subset_bits(rng, *args),
}
"""Of a draw and its arguments, the result."""


def draws() -> list[dict[str, Any]]:
    return list(_cases())


def _cases() -> Iterator[dict[str, Any]]:
    for name, arguments in _arguments():
        texts = _as_text(arguments)
        for run in range(_RUNS):
            yield _case(name, arguments, stream(f"{name} {texts} {run}", 4_096))
        for run in range(_RUNS):
            crafted = Edges(f"{name} {texts} {run}")
            DRAWS[name](crafted, arguments)
            yield _case(name, arguments, bytes(crafted.taken))
    for scale, rate in ((16, 1), (100, 7)):
        for whole in (0, 1, 30):
            for negative in (False, True):
                tail = Tail(f"{scale} {rate}", whole, negative=negative)
                discrete_laplace(tail, scale, rate)
                yield _case("discrete_laplace", [scale, rate], bytes(tail.taken))


def _case(name: str, arguments: list[Any], drawn: bytes) -> dict[str, Any]:
    rng = Recorded(drawn)
    result = DRAWS[name](rng, arguments)
    return {
        "draw": name,
        "arguments": _as_text(arguments),
        "stream": drawn[: rng.used].hex(),
        "result": _as_text(result),
    }


def _as_text(value: Any) -> Any:
    """The value with integers as text: some are beyond 2^53."""
    if isinstance(value, list):
        return [_as_text(one) for one in value]
    return value if isinstance(value, bool) else str(value)


def _arguments() -> Iterator[tuple[str, list[Any]]]:
    for count in (0, 1, 7, 8, 9, 64, 65):
        yield "bits", [count]
    for bound in (1, 2, 3, 255, 256, 257, 1_000, 65_536, 65_537, _W - 1, _W, _W + 1, 3 * 10**30):
        yield "below", [bound]
    for numerator, denominator in ((0, 1), (1, 1), (0, 3), (3, 3), (1, 2), (2, 4), (1, 3), (250, 1_000)):
        yield "coin", [numerator, denominator]
    for keep in (1, 13_485_650_502_877_570_762, _W - 1, _W):
        yield "coin", [keep, _W]
    for count, numerator, places in (
        (1, 1, 1),
        (1, 0, 3),
        (9, 8, 3),
        (5, 3, 3),
        (5, 6, 4),  # as 3 of 8
        (20, 4_961_093_771_304_370_176, 64),
        (3, 13_485_650_502_877_570_762, 64),
        (0, 1, 2),
    ):
        yield "coins", [count, numerator, places]
    for weights in ([1], [1, 2], [1, 1, 4], [0, 3, 3, 10], [2**63, _W], [10, 20, 2**60 + 7]):
        yield "pick", [weights]
    for numerator, denominator in ((0, 5), (1, 1), (1, 2), (7, 2), (3, 1), (15, 16), (10**20, 10**20 + 1)):
        yield "coin_exp", [numerator, denominator]
    for scale, rate in ((1, 1), (16, 1), (100, 7), (3, 10), (10**6, 1)):
        yield "discrete_laplace", [scale, rate]
    for size, count in ((0, 0), (5, 0), (5, 5), (5, 2), (40, 3), (300, 4)):
        yield "subset", [size, count]
    for size, count in ((5, 0), (1, 1), (5, 5), (7, 2), (15, 1), (16, 1), (17, 1), (31, 2), (32, 2), (33, 2), (99, 26)):
        yield "subset_bits", [size, count]
