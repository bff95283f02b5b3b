"""Backoff: pauses double up to a limit, and a part of them is random."""

from __future__ import annotations

import pytest

from hubbub_service_common.process.backoff import backoff


def least(count: int) -> bytes:
    return bytes(count)


def most(count: int) -> bytes:
    return b"\xff" * count


@pytest.mark.parametrize("first", [0.2, 1.0])
def test_it_doubles_up_to_the_limit_and_half_of_it_is_random(first: float) -> None:
    for attempts in range(2_000):  # also where a power of two is no number of the machine any more
        ceiling = min(60.0, first * 2.0 ** min(attempts, 30))
        assert backoff(attempts, first=first, longest=60.0, entropy=least) == ceiling / 2
        assert ceiling * 0.999 < backoff(attempts, first=first, longest=60.0, entropy=most) <= ceiling
