"""Byte streams for vectors: given ones, and streams made to hit thresholds and tails."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from hubbub.randomness import Randomness

__all__ = ["Edges", "Recorded", "Tail", "stream"]


class Recorded(Randomness):
    """Bits from a given byte string: each draw of n bits takes the next ceil(n / 8) bytes, big-endian, and keeps
    the upper n of them."""

    def __init__(self, stream: bytes) -> None:
        self._stream, self.used = stream, 0

    def bits(self, count: int) -> int:
        size = (count + 7) // 8
        taken = self._stream[self.used : self.used + size]
        if len(taken) < size:
            raise EOFError(f"the byte stream ends after {len(self._stream)} bytes")
        self.used += size
        return int.from_bytes(taken) >> (8 * size - count)


def stream(label: str, size: int) -> bytes:
    """Bytes without a pattern that anyone can compute: SHA-256 of label:0, label:1, ... end to end."""
    blocks = (hashlib.sha256(f"{label}:{block}".encode()).digest() for block in range(size // 32 + 1))
    return b"".join(blocks)[:size]


class Edges(Randomness):
    """Draws that lie on the edge of a decision wherever there is one: a threshold, one below it, zero, the largest
    number, one that must be rejected. Which edge, the label decides. `taken` is the stream that gives these draws."""

    def __init__(self, label: str) -> None:
        self._choices = Recorded(stream(f"edges {label}", 65_536))
        self.taken = bytearray()

    def bits(self, count: int) -> int:
        return self._emit(count, self._choices.bits(count))

    def below(self, bound: int) -> int:
        width = (bound - 1).bit_length()
        anything = self._choices.below(bound)
        drawn = self._one_of([0, bound - 1, anything, anything])
        if bound < 1 << width and self._choices.coin(1, 4):
            self._emit(width, self._one_of([bound, (1 << width) - 1]))  # the device must draw again
        return self._emit(width, drawn)

    def coin(self, numerator: int, denominator: int) -> bool:
        drawn = self._one_of([edge for edge in (numerator - 1, numerator) if 0 <= edge < denominator])
        return self._emit((denominator - 1).bit_length(), drawn) < numerator

    def coins(self, count: int, numerator: int, places: int) -> int:
        while places and not numerator & 1:
            numerator, places = numerator >> 1, places - 1
        width = count * places
        drawn = self._emit(width, self._one_of([0, (1 << width) - 1, self._choices.bits(width)]))
        return Recorded((drawn << -width % 8).to_bytes((width + 7) // 8)).coins(count, numerator, places)

    def pick(self, cumulative: Sequence[int]) -> int:
        at = self._choices.below(len(cumulative))
        edges = [edge for edge in (0, cumulative[at] - 1, cumulative[at]) if 0 <= edge < cumulative[-1]]
        drawn = self._emit((cumulative[-1] - 1).bit_length(), self._one_of(edges))
        return next(index for index, weight in enumerate(cumulative) if drawn < weight)

    def _one_of(self, options: Sequence[int]) -> int:
        return options[self._choices.below(len(options))]

    def _emit(self, width: int, drawn: int) -> int:
        size = (width + 7) // 8
        spare = 8 * size - width
        self.taken += (drawn << spare | self._choices.bits(spare)).to_bytes(size)
        return drawn


class Tail(Edges):
    """Draws by which a discrete Laplace draw ends `whole` scales away from zero."""

    def __init__(self, label: str, whole: int, *, negative: bool) -> None:
        super().__init__(label)
        self._left, self._negative = whole, negative

    def below(self, bound: int) -> int:
        return self._emit((bound - 1).bit_length(), bound - 1)

    def coin(self, numerator: int, denominator: int) -> bool:
        if (numerator, denominator) == (1, 2):
            return self._emit(1, 1 - self._negative) < 1
        return super().coin(numerator, denominator)

    def coin_exp(self, numerator: int, denominator: int) -> bool:
        if (numerator, denominator) != (1, 1):
            self._emit((denominator - 1).bit_length(), numerator)
            return True
        self._left -= 1
        self._emit(1, 1 if self._left < 0 else 0)
        if self._left >= 0:
            self._emit(2, 1)
        return self._left >= 0
