"""The coins that decide whether and when a device sends: one stream for each purpose, metric and period.

What is recorded must not show in which devices report, when, or in what order. So none of these coins comes from a
stream that recording, reducing or randomizing draws from. The operating system's generator ensures that by itself. A
test that gives two devices the same coins needs separate streams, to show that nothing else tells the devices apart.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from hubbub.randomness import Randomness, SystemRandomness

__all__ = ["Coins", "OneStream", "Purpose", "SystemCoins"]

Purpose: TypeAlias = Literal["share", "delay", "nonce", "refresh", "retry"]


class Coins(Protocol):
    """The source of these coins."""

    def of(self, purpose: Purpose, subject: str, number: int) -> Randomness:
        """The stream of one purpose, for one metric and period; or for one lane and attempt."""
        ...


class SystemCoins:
    """The operating system's generator, which every shipped client uses. No draw from it shifts another."""

    def of(self, purpose: Purpose, subject: str, number: int) -> Randomness:  # noqa: ARG002  all streams are alike
        return SystemRandomness()


class OneStream:
    """All coins from the one generator that a test passes in."""

    def __init__(self, rng: Randomness) -> None:
        self._rng = rng

    def of(self, purpose: Purpose, subject: str, number: int) -> Randomness:  # noqa: ARG002  there is one
        return self._rng
