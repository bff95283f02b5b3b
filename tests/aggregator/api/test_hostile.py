"""Hostile batches: each costs its own reports at most, is counted by reason, and uses bounded resources."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hubbub.sealing import new_private_key, public_key_of
from hubbub.wire import BATCH_HEADER_BYTES, BatchHeader, Plaintext
from tests.aggregator.api.test_batches import problem, spooled
from tests.aggregator.world import DAY, Site, whole

HONEST = 250

Attack = Callable[[Site, BatchHeader, list[bytes]], tuple[list[bytes], dict[str, int]]]
"""Reports that are added to the honest ones (whose plaintexts are given), and what they are counted as."""


def wrong_key(site: Site, header: BatchHeader, honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    return site.seal(header, honest[:20], public_key_of(new_private_key())), {"cannot-open": 20}


def another_key_of_ours(site: Site, header: BatchHeader, honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    """Sealed to the key of the next period, which is published already."""
    key = site.bundle().body.key_for(site.period + 1)
    assert key is not None
    return site.seal(header, honest[:20], key.public_key), {"cannot-open": 20}


def garbage(_site: Site, header: BatchHeader, _honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    low_order = [bytes(header.size), b"\x01" + bytes(header.size - 1), b"\xff" * header.size]
    return [os.urandom(header.size) for _ in range(17)] + low_order, {"cannot-open": 20}


def damaged(site: Site, header: BatchHeader, honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    """One bit of each is another, at every place in turn."""
    sealed = site.seal(header, honest[: header.size])
    flipped = [
        one[:at] + bytes([one[at] ^ 1 << at % 7]) + one[at + 1 :] for at, one in enumerate(sealed[: header.size])
    ]
    return flipped, {"cannot-open": len(flipped)}


def wrong_period(site: Site, header: BatchHeader, _honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    periods = [site.period - 1, site.period + 1, 0, 2**32 - 1] * 5
    return site.seal(header, [Plaintext(p, os.urandom(16), b"\x01").encode() for p in periods]), {"wrong-period": 20}


def impossible_values(site: Site, header: BatchHeader, _honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    texts = [Plaintext(site.period, os.urandom(16), bytes([value])).encode() for value in range(2, 22)]
    return site.seal(header, texts), {"malformed": 20}


def replayed_sealed(site: Site, header: BatchHeader, honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    """The very same bytes again, which a shuffler that drops duplicates would not forward."""
    return site.seal(header, honest[:1]) * 20, {"duplicate": 20}


def replayed_afresh(site: Site, header: BatchHeader, honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    """One nonce with both values: whichever comes first counts, and only it."""
    stolen = Plaintext.decode(honest[0])
    texts = [replace(stolen, payload=bytes([n % 2])).encode() for n in range(20)]
    return site.seal(header, texts), {"duplicate": 20}


def other_metric(site: Site, header: BatchHeader, honest: list[bytes]) -> tuple[list[bytes], dict[str, int]]:
    return site.seal(replace(header, metric=site.metric("theme").id), honest[:20]), {"cannot-open": 20}


ATTACKS = [
    wrong_key,
    another_key_of_ours,
    garbage,
    damaged,
    wrong_period,
    impossible_values,
    replayed_sealed,
    replayed_afresh,
    other_metric,
]


def test_hostile_reports_of_every_kind_are_counted_by_reason_and_every_honest_one_still_counts(site: Site) -> None:
    """All kinds in one batch, honest reports in between; then the same in the counters of the service."""
    honest = site.plaintexts("dark_mode", [True, False] * (HONEST // 2))
    header = site.header("dark_mode", 1)
    reports, expected = site.seal(header, honest), dict[str, int]()
    for attack in ATTACKS:
        added, reasons = attack(site, header, honest)
        half = len(added) // 2
        reports = reports[:1] + added[:half] + reports[1:] + added[half:]  # the first of a nonce must be the honest one
        for reason, number in reasons.items():
            expected[reason] = expected.get(reason, 0) + number

    verdict = site.settle(whole(replace(header, count=len(reports)), reports))

    assert (verdict["state"], verdict["valid"]) == ("accepted", HONEST)
    assert verdict["invalid"] == dict(sorted(expected.items()))
    status = site.json("/v1/status")
    assert status["invalid_reports"] == verdict["invalid"]
    (segment,) = site.json("/v1/metrics/dark_mode/estimate")["segments"]
    assert segment["reports"] == HONEST
    assert dict(site.service.accumulator.progress.reports) == {"valid": HONEST, **verdict["invalid"]}


@pytest.mark.full
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_hostile_report_does_what_its_kind_says_and_no_more(site: Site, attack: Attack) -> None:
    honest = site.plaintexts("dark_mode", [True] * HONEST)
    header = site.header("dark_mode", 1)
    added, reasons = attack(site, header, honest)
    reports = site.seal(header, honest) + added
    verdict = site.settle(whole(replace(header, count=len(reports)), reports))
    assert (verdict["state"], verdict["valid"], verdict["invalid"]) == ("accepted", HONEST, reasons)


def test_reports_replayed_from_an_earlier_batch_of_the_period_do_not_count_again(site: Site) -> None:
    honest = site.plaintexts("dark_mode", [True] * HONEST)
    header = site.header("dark_mode", HONEST)
    site.settle(whole(header, site.seal(header, honest)))
    fresh = site.plaintexts("dark_mode", [False] * HONEST, seed=2)
    both = replace(header, count=2 * HONEST)

    verdict = site.settle(whole(both, site.seal(header, honest + fresh)))
    nothing_new = site.settle(whole(both, site.seal(header, honest + fresh)))

    assert (verdict["valid"], verdict["invalid"]) == (HONEST, {"duplicate": HONEST})
    assert (nothing_new["state"], nothing_new["reason"]) == ("refused", "batch-too-small")
    assert (nothing_new["valid"], nothing_new["invalid"]) == (0, {"duplicate": 2 * HONEST})
    assert site.json("/v1/metrics/dark_mode/estimate")["segments"][0]["reports"] == 2 * HONEST


def test_reports_of_an_earlier_period_do_not_count_in_a_later_one(site: Site) -> None:
    honest = site.plaintexts("dark_mode", [True] * HONEST)
    site.clock.now += DAY
    site.service.tick()
    header = site.header("dark_mode", HONEST)
    verdict = site.settle(whole(header, site.seal(header, honest)))
    assert (verdict["state"], verdict["invalid"]) == ("refused", {"wrong-period": HONEST})


def test_a_count_that_lies_is_refused_before_anything_is_kept(site: Site) -> None:
    body = site.batch("dark_mode", [True] * HONEST)
    header, rest = BatchHeader.decode(body), body[BATCH_HEADER_BYTES:]
    for count in (0, 1, HONEST - 1, HONEST + 1, 2 * HONEST):
        problem(site.put(replace(header, count=count).encode() + rest), "malformed-batch")
    assert spooled(site) == []
    refused = site.json("/v1/status")["refused_requests"]
    assert refused["malformed-batch"] == 5


@pytest.mark.parametrize(
    ("count", "size", "name"),
    [
        (2**32 - 1, 2**16 - 1, "too-large"),
        (2**32 - 1, 69, "too-large"),
        (2**32 - 1, 1, "too-large"),
        (1_000, 2**16 - 1, "wrong-length"),
        (1, 1, "wrong-length"),
    ],
)
def test_lengths_that_promise_terabytes_reserve_nothing(site: Site, count: int, size: int, name: str) -> None:
    header = replace(site.header("dark_mode", count), size=size)
    problem(site.put(header.encode() + b"x" * 100), name)
    assert spooled(site) == []


def test_what_no_codebook_knows_is_refused_and_counted(site: Site) -> None:
    header = site.header("dark_mode", 3)
    for metric in (bytes(16), b"\xff" * 16, header.metric[::-1]):
        problem(site.put(replace(header, metric=metric).encode() + bytes(3 * header.size)), "unknown-metric")
    assert site.json("/v1/status")["refused_requests"]["unknown-metric"] == 3


def test_a_batch_of_nothing_but_garbage_leaves_no_release_and_harms_no_other(site: Site) -> None:
    header = site.header("dark_mode", 2_500)
    verdict = site.settle(whole(header, [os.urandom(header.size) for _ in range(2_500)]))
    assert (verdict["state"], verdict["reason"], verdict["valid"]) == ("refused", "batch-too-small", 0)
    assert verdict["invalid"] == {"cannot-open": 2_500}
    assert site.settle(site.batch("dark_mode", [True] * HONEST))["state"] == "accepted"


def test_a_body_compressed_by_its_sender_is_no_batch(site: Site) -> None:
    """Nothing here inflates anything: a bomb stays as small as it came."""
    import gzip

    body = site.batch("dark_mode", [True] * HONEST)
    squeezed = gzip.compress(body[:BATCH_HEADER_BYTES] + bytes(10_000_000))
    problem(site.put(squeezed, headers={"Content-Encoding": "gzip"}), "malformed-batch")


# -- memory ---------------------------------------------------------------------------------------

REPORTS = 1_000_000


@pytest.mark.full
@pytest.mark.timeout(1_500)
def test_a_batch_of_a_million_is_opened_in_bounded_memory(tmp_path: Path) -> None:
    """Peak resident memory of the service and of each worker, beyond what they need for a small batch.

    The service holds nonces and payloads of all reports (17 MB), their sort and a copy in flight: 16 times that is
    the bound. A worker holds a slice at a time.
    """
    small, large = (measured(tmp_path / str(count), count) for count in (2_000, REPORTS))
    assert (large["valid"], small["valid"]) == (REPORTS, 2_000)
    assert large["service"] - small["service"] < 16 * 17
    assert large["worker"] - small["worker"] < 40
    assert large["spool"] == 0


def measured(root: Path, count: int) -> dict[str, Any]:
    """Run the batch in a process of its own: its peak is never lowered again."""
    root.mkdir()
    run = subprocess.run(
        [sys.executable, "-m", "tests.aggregator.large_batch", str(root), str(count)],
        capture_output=True,
        text=True,
        timeout=1_400,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_the_format_of_a_batch_header_is_what_these_attacks_assume() -> None:
    assert struct.calcsize(">BB16sIBIHQ") == BATCH_HEADER_BYTES
