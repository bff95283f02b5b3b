"""The coins that decide whether and when a device sends: one stream for each purpose, metric and period.

What is recorded must not show in who reports, when, or in what order. So none of these coins comes out of a stream that
recording, reducing or randomizing draws from. With the operating system's generator this is so by itself; a test that
gives two devices the same coins needs it to see that nothing else tells them apart.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from hubbub.randomness import Randomness, SystemRandomness

__all__ = ["Coins", "OneStream", "Purpose", "SystemCoins"]

Purpose: TypeAlias = Literal["share", "delay", "nonce", "refresh", "retry"]


class Coins(Protocol):
    """Where these coins come from."""

    def of(self, purpose: Purpose, subject: str, number: int) -> Randomness:
        """The stream of one purpose, for one metric and period; or for one lane and attempt."""
        ...


class SystemCoins:
    """What ships: the operating system's generator, which nothing that is drawn from it can shift."""

    def of(self, purpose: Purpose, subject: str, number: int) -> Randomness:  # noqa: ARG002  all streams are alike
        return SystemRandomness()


class OneStream:
    """Everything out of the one generator that a test passes in."""

    def __init__(self, rng: Randomness) -> None:
        self._rng = rng

    def of(self, purpose: Purpose, subject: str, number: int) -> Randomness:  # noqa: ARG002  there is one
        return self._rng
