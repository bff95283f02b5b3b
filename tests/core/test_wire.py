"""The wire format: what is encoded is read back, and anything else is a typed error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubbub.errors import MalformedBatch, MalformedReport, MalformedUpload
from hubbub.wire import (
    BATCH_HEADER_BYTES,
    REPORT_HEADER_BYTES,
    BatchHeader,
    Plaintext,
    ReportHeader,
    decode_report,
    decode_upload,
    encode_report,
    encode_upload,
    sealed_bytes,
)
from tests.support.paths import ROOT

VECTORS: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "v1" / "wire.json").read_bytes())

ids = st.binary(min_size=16, max_size=16)
periods = st.integers(0, 2**32 - 1)
keys = st.integers(0, 255)
headers = st.builds(ReportHeader, ids, periods, keys)
some_bytes = st.binary(min_size=1, max_size=200)


@given(headers, some_bytes)
def test_a_report_is_read_back(header: ReportHeader, sealed: bytes) -> None:
    report = encode_report(header, sealed)
    assert decode_report(report) == (header, sealed)
    assert len(report) == REPORT_HEADER_BYTES + len(sealed)


@given(st.builds(Plaintext, periods, ids, some_bytes))
def test_a_plaintext_is_read_back(plaintext: Plaintext) -> None:
    assert Plaintext.decode(plaintext.encode()) == plaintext
    assert sealed_bytes(len(plaintext.payload)) == len(plaintext.encode()) + 48


@given(st.lists(some_bytes, min_size=1, max_size=20))
def test_an_upload_is_read_back(reports: list[bytes]) -> None:
    assert decode_upload(encode_upload(reports)) == reports


@given(ids, periods, keys, st.integers(1, 2**32 - 1), st.integers(1, 2**16 - 1), st.integers(0, 2**64 - 1), st.binary())
def test_a_batch_header_is_read_back(
    metric: bytes, period: int, key: int, count: int, size: int, others: int, rest: bytes
) -> None:
    header = BatchHeader(metric, period, key, count, size, in_other_batches=others)
    assert len(header.encode()) == BATCH_HEADER_BYTES
    assert BatchHeader.decode(header.encode() + rest) == header
    assert header.body_bytes == count * size
    discard = BatchHeader(metric, period, key, kind="discard")
    assert BatchHeader.decode(discard.encode()) == discard


@given(st.binary(max_size=300))
@example(b"")
@example(b"\x01" * 23)
def test_any_bytes_are_a_report_in_its_one_spelling_or_malformed(data: bytes) -> None:
    try:
        header, sealed = decode_report(data)
    except MalformedReport:
        assert len(data) <= REPORT_HEADER_BYTES or data[0] != 1
    else:
        assert encode_report(header, sealed) == data


@given(st.binary(max_size=300))
def test_any_bytes_are_a_plaintext_in_its_one_spelling_or_malformed(data: bytes) -> None:
    try:
        plaintext = Plaintext.decode(data)
    except MalformedReport:
        assert len(data) <= 20
    else:
        assert plaintext.encode() == data


@given(st.one_of(st.binary(max_size=300), st.lists(st.integers(0, 3), max_size=40).map(bytes)))
def test_any_bytes_are_an_upload_in_its_one_spelling_or_malformed(body: bytes) -> None:
    try:
        reports = decode_upload(body)
    except MalformedUpload:
        return
    assert reports
    assert all(reports)
    assert encode_upload(reports) == body


@given(st.lists(some_bytes, min_size=1, max_size=5), st.data())
def test_an_upload_that_is_cut_off_is_malformed_or_ends_between_reports(
    reports: list[bytes], data: st.DataObject
) -> None:
    """A cut between two reports cannot be seen here: the length of an HTTP body is for HTTP to check."""
    body = encode_upload(reports)
    cut = data.draw(st.integers(0, len(body) - 1))
    whole = {len(encode_upload(reports[:count])) for count in range(1, len(reports))}
    if cut in whole:
        assert decode_upload(body[:cut]) == reports[: len(decode_upload(body[:cut]))]
    else:
        with pytest.raises(MalformedUpload):
            decode_upload(body[:cut])


@given(st.one_of(st.binary(max_size=60), st.lists(st.integers(0, 3), min_size=29, max_size=29).map(bytes)))
def test_any_bytes_are_a_batch_header_in_its_one_spelling_or_malformed(data: bytes) -> None:
    try:
        header = BatchHeader.decode(data)
    except MalformedBatch:
        return
    assert header.encode() == data[:BATCH_HEADER_BYTES]
    assert (header.body_bytes == 0) == (header.kind == "discard")
    assert header.kind != "discard" or header.count == header.size == 0


# -- the vectors --------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["reports"])
def test_version_1_of_a_report_never_changes(vector: dict[str, Any]) -> None:
    header = ReportHeader(bytes.fromhex(vector["metric"]), vector["period"], vector["key"])
    plaintext = Plaintext(vector["period"], bytes.fromhex(vector["nonce"]), bytes.fromhex(vector["payload"]))
    sealed = bytes.fromhex(vector["sealed"])

    assert plaintext.encode().hex() == vector["plaintext"]
    assert encode_report(header, sealed).hex() == vector["report"]
    assert decode_report(bytes.fromhex(vector["report"])) == (header, sealed)
    assert len(sealed) == sealed_bytes(len(plaintext.payload))


@pytest.mark.parametrize("vector", VECTORS["uploads"])
def test_version_1_of_an_upload_never_changes(vector: dict[str, Any]) -> None:
    reports = [bytes.fromhex(report) for report in vector["reports"]]
    assert encode_upload(reports).hex() == vector["upload"]
    assert decode_upload(bytes.fromhex(vector["upload"])) == reports


@pytest.mark.parametrize("vector", VECTORS["batches"])
def test_version_1_of_a_batch_never_changes(vector: dict[str, Any]) -> None:
    members = ("period", "key", "count", "size", "kind", "in_other_batches")
    header = BatchHeader(bytes.fromhex(vector["metric"]), *(vector[name] for name in members))
    assert header.encode().hex() + "".join(vector["sealed"]) == vector["batch"]
    assert BatchHeader.decode(bytes.fromhex(vector["batch"])) == header
    assert header.body_bytes == sum(len(part) for part in vector["sealed"]) // 2


@pytest.mark.parametrize("data", VECTORS["malformed_reports"])
def test_a_malformed_report_is_refused(data: str) -> None:
    with pytest.raises(MalformedReport):
        decode_report(bytes.fromhex(data))


@pytest.mark.parametrize("data", VECTORS["malformed_uploads"])
def test_a_malformed_upload_is_refused(data: str) -> None:
    with pytest.raises(MalformedUpload):
        decode_upload(bytes.fromhex(data))


@pytest.mark.parametrize("data", VECTORS["malformed_batches"])
def test_a_malformed_batch_is_refused(data: str) -> None:
    with pytest.raises(MalformedBatch):
        BatchHeader.decode(bytes.fromhex(data))
