"""The vectors that every implementation must agree on: this one passes them, and makes the same files again."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from hubbub.bundle_body import SUITE
from hubbub.canonical import canonical_bytes, read_json
from hubbub.codebook import Codebook
from hubbub.errors import CannotOpen, InvalidParameter
from hubbub.mechanisms import registered
from hubbub.period import Calendar
from hubbub.reduce import REDUCERS
from hubbub.sealing import Opener, Sealer, public_key_of
from hubbub.wire import ReportHeader, decode_upload, encode_upload
from scripts.vectors import answers, bundle, canonical, claims, draws, periods, received, reducers
from scripts.vectors.files import FILES, text
from scripts.vectors.hpke import sealed_with
from scripts.vectors.ledger import played, scripts
from scripts.vectors.paths import VECTORS
from scripts.vectors.streams import Recorded
from tests.support.paths import ROOT

LARGEST = 1_300_000
"""Bytes of all files: a test of another language reads them at every run."""


def vectors(name: str) -> Any:
    return json.loads((VECTORS / name).read_bytes())


WORLD = vectors("ledger.json")


@pytest.mark.parametrize("name", [name for name in FILES if name != "ledger.json"])
def test_the_generator_makes_the_file_that_is_there(name: str) -> None:
    """If this fails, run `python -m scripts.vectors` and look at the difference: cases may only be added."""
    assert text(name, FILES[name]()) == (VECTORS / name).read_text("ascii")


def test_the_generator_writes_the_traces_that_are_there() -> None:
    """What follows from them is for the test that plays them."""
    found = vectors("ledger.json")
    assert text("ledger.json", found) == (VECTORS / "ledger.json").read_text("ascii")
    for trace in found["traces"]:
        for event in trace["events"]:
            event.pop("then", None)
    assert found == scripts()


def test_every_file_has_a_generator_and_a_section_that_says_what_to_do_with_it() -> None:
    described = (ROOT / "tests" / "vectors" / "README.md").read_text()
    for path in VECTORS.iterdir():
        assert path.name in FILES
        assert f"## {path.name}" in described
    assert sum(path.stat().st_size for path in VECTORS.iterdir()) < LARGEST


def test_answers_mean_what_they_say() -> None:
    for case in vectors("answers.json"):
        assert case == case | answers.judged(case), case["what"]


def test_a_bundle_is_accepted_or_refused_for_its_reason() -> None:
    for case in vectors("bundle.json")["cases"]:
        assert case == case | bundle.verdict(case), case["what"]


def test_the_cases_of_bundles_have_every_error_that_a_device_can_meet() -> None:
    found = Counter(case["error"] for case in vectors("bundle.json")["cases"])
    assert found.keys() == {
        None,
        "MalformedBundle",
        "UntrustedBundle",
        "BadSignature",
        "ExpiredBundle",
        "RolledBackBundle",
    }
    assert any(SUITE not in case.get("text", "") for case in vectors("bundle.json")["cases"] if case["error"] is None)


def test_documents_have_one_spelling_and_other_texts_are_told_from_it() -> None:
    found = vectors("canonical.json")
    for case in found["documents"]:
        assert canonical_bytes(case["document"]).decode() == case["canonical"]
        assert read_json(case["canonical"].encode()) == case["document"]
    for case in found["texts"]:
        raw = bytes.fromhex(case["hex"])
        assert (canonical.is_read(raw), canonical.is_canonical(raw)) == (case["read"], case["canonical"]), raw


def test_claims_hold_up_to_their_border_and_no_further() -> None:
    found = vectors("claims.json")
    for case in found:
        assert claims.holds(case) == case["holds"], case
    for holds in (True, False):
        assert {case["mechanism"] for case in found if case["holds"] is holds} == set(registered())


def test_each_draw_takes_its_bits_and_gives_its_result() -> None:
    for case in vectors("draws.json"):
        rng = Recorded(bytes.fromhex(case["stream"]))
        arguments = [
            [int(one) for one in given] if isinstance(given, list) else int(given) for given in case["arguments"]
        ]
        made = draws.DRAWS[case["draw"]](rng, arguments)
        result = case["result"]
        if isinstance(result, list):
            assert made == [int(one) for one in result], case
        else:
            assert made == (result if isinstance(result, bool) else int(result)), case
        assert rng.used == len(case["stream"]) // 2


def test_the_reference_seals_as_rfc_9180_does() -> None:
    """Appendix A.1.1, the first message."""
    sealed = sealed_with(
        bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736"),
        bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"),
        b"Ode on a Grecian Urn",
        b"Beauty is truth, truth beauty",
        b"Count-0",
    )
    assert sealed.hex() == (
        "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    )


def test_exact_sealed_bytes_open_and_others_do_not() -> None:
    found = vectors("hpke.json")
    for case in found["exact"]:
        private_key, header = (
            bytes.fromhex(case["private_key"]),
            ReportHeader(bytes.fromhex(case["metric"]), 0, case["key"]),
        )
        assert public_key_of(private_key).hex() == case["public_key"]
        assert Opener(private_key).open(header, bytes.fromhex(case["sealed"])).hex() == case["plaintext"]
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    own = ReportHeader(bytes.fromhex(found["metric"]), 0, found["key"])
    for case in found["must_not_open"]:
        sealed, private_key = bytes.fromhex(case["sealed"]), bytes.fromhex(case["private_key"])
        with pytest.raises((InvalidTag, ValueError)):
            suite.decrypt(sealed, X25519PrivateKey.from_private_bytes(private_key), bytes.fromhex(case["info"]))
        if case["info"] == found["info"]:
            with pytest.raises(CannotOpen):
                Opener(private_key).open(own, sealed)
    for point in found["public_keys_of_low_order"]:
        with pytest.raises(ValueError, match="shared key"):
            Sealer(bytes.fromhex(point)).seal(own, b"plaintext")


def test_a_time_lies_in_its_period() -> None:
    found = vectors("periods.json")
    for case in found["times"]:
        assert periods.period_at(case) == case["period"], case
    for case in found["lengths"]:
        try:
            start = Calendar(case["seconds"]).origin
        except InvalidParameter:
            start = None
        assert start == case["start_of_period_0"], case


def test_a_device_uses_the_metrics_that_it_understands() -> None:
    for case in vectors("received.json"):
        assert case == case | received.usable(case["compiled"]), case["what"]


def test_compiled_codebooks_have_every_mechanism_and_reducer() -> None:
    metrics = [m for vector in vectors("codebook.json") for m in Codebook.received(vector["compiled"].encode()).metrics]
    assert {metric.mechanism.name for metric in metrics} == set(registered())
    assert {metric.reduce for metric in metrics} == set(REDUCERS)


def test_reducers_keep_what_they_should() -> None:
    found = vectors("reducers.json")
    assert {case["reduce"] for case in found} == set(REDUCERS)
    for case in found:
        assert reducers.reduced(case)[-len(case["after"]) :] == case["after"], case["reduce"]


def test_a_long_report_is_carried_or_cannot_be() -> None:
    for case in vectors("wire.json")["long_reports"]:
        report = bytes.fromhex(case["start"]).ljust(case["bytes"], b"\0")
        if case["upload_sha256"] is None:
            with pytest.raises(Exception, match="65535"):
                encode_upload([report])
        else:
            body = encode_upload([report])
            assert hashlib.sha256(body).hexdigest() == case["upload_sha256"]
            assert decode_upload(body) == [report]


@pytest.mark.parametrize("trace", WORLD["traces"], ids=lambda trace: trace["name"])
def test_a_device_does_what_the_trace_says(trace: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DO_NOT_TRACK", "HUBBUB_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    assert played(trace, WORLD) == trace["events"]
