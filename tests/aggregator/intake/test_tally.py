"""Tallies of opened reports: computed in parts that are large enough to pay and small enough to share."""

from __future__ import annotations

import numpy as np
import pytest

from hubbub.mechanisms import Categories, KaryRandomizedResponse, LinearHash
from hubbub.simulation import InsecureBulkRandomness
from hubbub_aggregator.intake.open_reports import SLICE, TALLIED, tally_parts, tally_payloads


@pytest.mark.parametrize("size", [3, 65_536])
def test_tallies_that_travel_are_no_larger_than_the_reports_they_count(size: int) -> None:
    mechanism = LinearHash.calibrate(1, Categories(size))
    held = np.arange(150_000) % size
    payloads = mechanism.randomize_many(held, InsecureBulkRandomness(1)).tobytes()
    step = SLICE * mechanism.report_bytes
    opened = [payloads[at : at + step] for at in range(0, len(payloads), step)]

    parts = tally_parts(mechanism, [b"", *opened, b""])

    assert b"".join(data for _, data in parts) == payloads
    least = max(TALLIED, mechanism.cells) * mechanism.report_bytes
    assert all(least <= len(data) < least + step for _, data in parts[:-1])
    total = mechanism.tally([])
    for part in parts:
        total += mechanism.tally_from_bytes(tally_payloads(part))
    assert total.reports == 150_000
    assert total == mechanism.tally(np.frombuffer(payloads, f"V{mechanism.report_bytes}"))


def test_nothing_opened_is_nothing_to_count() -> None:
    assert tally_parts(KaryRandomizedResponse.calibrate(1, Categories(3)), [b"", b""]) == []
