"""tests/vectors/v1/wire.json: reports, uploads and batches, and bytes that are none."""

from __future__ import annotations

import hashlib
from itertools import groupby
from typing import Any

from hubbub.wire import BatchHeader, Plaintext, ReportHeader, encode_report, encode_upload
from hubbub_client._sending.seal_and_send import MOST_BYTES, MOST_REPORTS
from hubbub_client._sending.upload import chunks
from scripts.vectors.keys import METRIC, NONCE
from scripts.vectors.streams import stream

__all__ = ["wire"]


def wire() -> dict[str, Any]:
    cases = [(0, 0, b"\x01"), (20_800, 1, b"\x00\xff"), (2**32 - 1, 255, bytes(range(9)))]
    reports: list[dict[str, Any]] = []
    for period, key, payload in cases:
        header, sealed = ReportHeader(METRIC, period, key), stream(f"sealed {period}", 48 + 20 + len(payload))
        reports.append(
            {
                "metric": METRIC.hex(),
                "period": period,
                "key": key,
                "nonce": NONCE.hex(),
                "payload": payload.hex(),
                "plaintext": Plaintext(period, NONCE, payload).encode().hex(),
                "sealed": sealed.hex(),
                "report": encode_report(header, sealed).hex(),
            }
        )
    batched = [stream(f"batch {index}", 69) for index in range(3)]
    nothing: list[bytes] = []
    batch = BatchHeader(METRIC, 20_800, 1, count=3, size=69)
    part = BatchHeader(METRIC, 20_800, 1, count=3, size=69, in_other_batches=2**32 + 6)
    discard = BatchHeader(METRIC, 20_801, 2, kind="discard")
    return {
        "reports": reports,
        "uploads": [
            {
                "reports": [report["report"] for report in reports[:count]],
                "upload": encode_upload(bytes.fromhex(report["report"]) for report in reports[:count]).hex(),
            }
            for count in (1, 3)
        ],
        "batches": [
            {
                "kind": header.kind,
                "metric": METRIC.hex(),
                "period": header.period,
                "key": header.key,
                "count": header.count,
                "size": header.size,
                "in_other_batches": header.in_other_batches,
                "sealed": [part.hex() for part in parts],
                "batch": (header.encode() + b"".join(parts)).hex(),
            }
            for header, parts in ((batch, batched), (part, batched), (discard, nothing))
        ],
        "malformed_uploads": ["", "00", "0000", "000501", "000101" + "0000", "000101" + "00", *_with_rests(reports)],
        "malformed_reports": ["", "01", reports[0]["report"][:44], "02" + reports[0]["report"][2:]],
        "malformed_batches": [
            "",
            batch.encode().hex()[:-2],
            "02" + batch.encode().hex()[2:],
            "0103" + batch.encode().hex()[4:],
            BatchHeader(METRIC, 1, 1, count=0, size=69).encode().hex(),
            BatchHeader(METRIC, 1, 1, count=3, size=0).encode().hex(),
            BatchHeader(METRIC, 1, 1, count=1, size=69, kind="discard").encode().hex(),
            BatchHeader(METRIC, 1, 1, kind="discard", in_other_batches=1).encode().hex(),
            BatchHeader(METRIC, 1, 1, in_other_batches=3).encode().hex(),
        ],
        "long_reports": _long_reports(),
        "requests": _requests(),
    }


def _with_rests(reports: list[dict[str, Any]]) -> list[str]:
    """A good upload with bytes behind it that are no report."""
    good = encode_upload(bytes.fromhex(report["report"]) for report in reports[:1]).hex()
    return [good + rest for rest in ("00", "0000", "ff", "000201")]


def _long_reports() -> list[dict[str, Any]]:
    """A report of `bytes` bytes, `start` and then zeros: its upload, or null where no upload can carry it."""
    start = encode_report(ReportHeader(METRIC, 20_800, 1), b"\0")
    long = []
    for size in (65_534, 65_535, 65_536):
        report = start.ljust(size, b"\0")
        digest = hashlib.sha256(encode_upload([report])).hexdigest() if size < 65_536 else None
        long.append({"start": start.hex(), "bytes": size, "upload_sha256": digest})
    return long


def _requests() -> dict[str, Any]:
    """How a device divides the reports that are due: as many as fit into each request, in order."""
    waiting = [[1], [100] * 1_000, [100] * 1_001, [100] * 2_500, [1_022] * 513, [1_022] * 511 + [1_020, 1]]
    waiting += [[65_535] * 9, [524_286 - 65_537 * 7] + [65_535] * 7, [300] * 999 + [60_000] * 3]
    return {
        "most_reports": MOST_REPORTS,
        "most_bytes": MOST_BYTES,
        "cases": [
            {"sizes": [[size, len(list(run))] for size, run in groupby(sizes)], "requests": _counts(sizes)}
            for sizes in waiting
        ],
    }


def _counts(sizes: list[int]) -> list[int]:
    reports = [bytes(size) for size in sizes]
    return [len(reports[part]) for part in chunks(reports, MOST_REPORTS, MOST_BYTES)]
