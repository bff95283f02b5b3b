"""The wire format, version 1. No I/O: bytes in, values out, or a typed error that says what is malformed.

    report    version u8 | metric id 16 B | period u32 | key id u8 | sealed part
    plaintext period u32 | nonce 16 B | payload             (inside the sealed part; see `hubbub.sealing`)
    upload    any number of: length u16 | report
    batch     version u8 | kind u8 | metric id 16 B | period u32 | key id u8 | count u32 | size u16
              | in other batches u64
              then count sealed parts of `size` bytes each; a discard has only zeros from count on, and nothing follows

All integers are big-endian. The clear header of a report says nothing about the value: its length is fixed
by the metric, and its content is the same for every device.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from hubbub.errors import MalformedBatch, MalformedReport, MalformedUpload

__all__ = [
    "BATCH_HEADER_BYTES",
    "BATCH_TYPE",
    "NONCE_BYTES",
    "REPORTS_TYPE",
    "REPORT_HEADER_BYTES",
    "BatchHeader",
    "Plaintext",
    "ReportHeader",
    "decode_report",
    "decode_upload",
    "encode_report",
    "encode_upload",
    "sealed_bytes",
]

VERSION = 1
REPORTS_TYPE = "application/vnd.hubbub.reports"
BATCH_TYPE = "application/vnd.hubbub.batch"
METRIC_BYTES = 16
NONCE_BYTES = 16
SEALING_OVERHEAD = 48
"""X25519 encapsulated key (32 bytes) and AES-GCM tag (16)."""

_REPORT = struct.Struct(">B16sIB")
_PLAINTEXT = struct.Struct(">I16s")
_LENGTH = struct.Struct(">H")
_BATCH = struct.Struct(">BB16sIBIHQ")

REPORT_HEADER_BYTES = _REPORT.size
BATCH_HEADER_BYTES = _BATCH.size

Kind = Literal["batch", "discard"]
_KINDS: dict[int, Kind] = {1: "batch", 2: "discard"}
_KIND_CODES = {kind: code for code, kind in _KINDS.items()}


def sealed_bytes(payload_bytes: int) -> int:
    """Length of the sealed part of a report whose payload has this length."""
    return SEALING_OVERHEAD + _PLAINTEXT.size + payload_bytes


@dataclass(frozen=True, slots=True)
class ReportHeader:
    """What the shuffler may know about a report: the bucket it belongs to."""

    metric: bytes
    period: int
    key: int


def encode_report(header: ReportHeader, sealed: bytes) -> bytes:
    """A report as uploaded."""
    return _REPORT.pack(VERSION, header.metric, header.period, header.key) + sealed


def decode_report(data: bytes) -> tuple[ReportHeader, bytes]:
    """Header and sealed part, or MalformedReport if the bytes are not a report of this version."""
    if len(data) <= _REPORT.size:
        raise MalformedReport(f"a report has more than {_REPORT.size} bytes, got {len(data)}")
    version, metric, period, key = _REPORT.unpack_from(data)
    if version != VERSION:
        raise MalformedReport(f"a report starts with version {VERSION}, got {version}")
    return ReportHeader(metric, period, key), data[_REPORT.size :]


@dataclass(frozen=True, slots=True)
class Plaintext:
    """What is sealed: the period again, a nonce drawn with the value, and the randomized payload."""

    period: int
    nonce: bytes
    payload: bytes

    def encode(self) -> bytes:
        return _PLAINTEXT.pack(self.period, self.nonce) + self.payload

    @classmethod
    def decode(cls, data: bytes) -> Plaintext:
        if len(data) <= _PLAINTEXT.size:
            raise MalformedReport(f"a sealed report holds more than {_PLAINTEXT.size} bytes, got {len(data)}")
        period, nonce = _PLAINTEXT.unpack_from(data)
        return cls(period, nonce, data[_PLAINTEXT.size :])


def encode_upload(reports: Iterable[bytes]) -> bytes:
    """Reports as one request body."""
    return b"".join(_LENGTH.pack(len(report)) + report for report in reports)


def decode_upload(body: bytes) -> list[bytes]:
    """The reports in a request body, or MalformedUpload if the lengths do not add up."""
    return list(_split(body))


def _split(body: bytes) -> Iterator[bytes]:
    if not body:
        raise MalformedUpload("an upload holds at least one report; this body is empty")
    at = 0
    while at < len(body):
        if at + _LENGTH.size > len(body):
            raise MalformedUpload("the upload ends inside a length")
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if length == 0:
            raise MalformedUpload("the upload holds a report of no bytes")
        if at + length > len(body):
            raise MalformedUpload(f"the upload ends inside a report: {length} bytes announced, {len(body) - at} left")
        yield body[at : at + length]
        at += length


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """What the shuffler tells the aggregator about a bucket. A discard hides how many reports there were."""

    metric: bytes
    period: int
    key: int
    count: int = 0
    size: int = 0
    kind: Kind = "batch"
    in_other_batches: int = 0
    """Reports of the same bucket in other batches. 0 unless the bucket was cut into several batches."""

    def encode(self) -> bytes:
        facts = (self.metric, self.period, self.key, self.count, self.size, self.in_other_batches)
        return _BATCH.pack(VERSION, _KIND_CODES[self.kind], *facts)

    @property
    def body_bytes(self) -> int:
        """Bytes that must follow the header."""
        return self.count * self.size

    @classmethod
    def decode(cls, data: bytes) -> BatchHeader:
        """The header at the start of a batch, or MalformedBatch if it is not a header or contradicts itself."""
        if len(data) < _BATCH.size:
            raise MalformedBatch(f"a batch starts with a header of {_BATCH.size} bytes, got {len(data)}")
        version, kind, metric, period, key, count, size, others = _BATCH.unpack_from(data)
        if version != VERSION or kind not in _KINDS:
            raise MalformedBatch(f"unknown batch version {version} or kind {kind}")
        header = cls(metric, period, key, count, size, _KINDS[kind], others)
        nothing = count + size + others == 0
        if nothing != (header.kind == "discard") or (not nothing and 0 in (count, size)):
            raise MalformedBatch(f"a {header.kind} cannot hold {count} reports of {size} bytes besides {others} others")
        return header
