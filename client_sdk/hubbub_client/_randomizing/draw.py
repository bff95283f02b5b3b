"""The draw: the one place where a value is randomized, from a metric and a reduced value to payload and nonce."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hubbub.randomness import WORD
from hubbub.wire import NONCE_BYTES

if TYPE_CHECKING:
    from hubbub.codebook import Metric
    from hubbub.randomness import Randomness

__all__ = ["Draw", "draw", "in_share"]


class Draw(NamedTuple):
    """A randomized value as it will be sent, and the nonce by which it is counted only once."""

    payload: bytes
    nonce: bytes


def draw(metric: Metric, value: object, rng: Randomness, nonces: Randomness | None = None) -> Draw:
    """Randomize a recorded, reduced or declared value. Every call spends the metric's epsilon once more.

    Reports are sent in the order of their nonces, so a device draws nonces from a stream of their own.
    """
    report = metric.mechanism.randomize(metric.input_of(value), rng)
    return Draw(metric.mechanism.encode(report), (nonces or rng).bits(8 * NONCE_BYTES).to_bytes(NONCE_BYTES))


def in_share(metric: Metric, rng: Randomness) -> bool:
    """The private coin that decides whether this device takes part in a period."""
    return rng.coin(metric.share_threshold, WORD)
