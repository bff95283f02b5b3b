"""Malformed input, also cut off at any byte: it is taken as it is spelled or refused with a typed error.

The targets are those of the fuzzer (`tests/fuzz`). What is looked at here beside random bytes is what is almost
right: good documents cut off at any byte, with bits flipped, or with a member replaced.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubbub.codebook import Codebook
from hubbub.errors import CodebookError, HubbubError, MalformedTally
from hubbub.trust_anchor import base64_text
from hubbub_client import Outcome
from hubbub_client._http.transport import Answer
from hubbub_client.testing import MemoryTransport, Request
from tests.client.world import TRUST, World, codebook, sealing_key, signed
from tests.fuzz import targets
from tests.fuzz.mutations import mutated_json, mutated_text
from tests.fuzz.targets import SEEDS, TARGETS
from tests.support.codebooks import IDENTITY

FEW = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=5_000, deadline=None, suppress_health_check=list(HealthCheck))


BODY = json.loads(SEEDS["signed_body"][0])
COMPILED = json.loads(SEEDS["compiled_codebook"][0])


def taken(target: Callable[[bytes], None], data: bytes) -> bool:
    """Whether it was. Anything that is not a HubbubError fails the test that asks."""
    try:
        target(data)
    except HubbubError:
        return False
    return True


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """A good input of a target, cut off, with bytes changed, put in or taken out."""
    data = bytearray(draw(st.sampled_from(SEEDS[name])))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.integers(0, 3)):
            case 0:
                del data[at:]
            case 1 if data:
                data[at] ^= draw(st.integers(1, 255))
            case 2:
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case _:
                del data[at : at + draw(st.integers(1, 8))]
    return bytes(data)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_what_a_target_is_fed_first_is_taken(name: str) -> None:
    """Else everything would be refused at the door, and the tests below would say little."""
    assert all(taken(TARGETS[name], seed) for seed in SEEDS[name])


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_good_input_cut_off_at_any_byte_is_refused_with_a_typed_error_or_means_what_it_says(name: str) -> None:
    step = 17 if any(len(seed) > 1_000 for seed in SEEDS[name]) else 1
    for seed in SEEDS[name]:
        for length in range(0, len(seed), step):
            taken(TARGETS[name], seed[:length])


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_a_damaged_input_is_taken_or_refused_with_a_typed_error(name: str) -> None:
    @FEW
    @given(damaged(name))
    def check(data: bytes) -> None:
        taken(TARGETS[name], data)

    check()


@FEW
@given(st.integers(0, 2**32))
def test_an_almost_right_document_is_taken_or_refused_with_a_typed_error(seed: int) -> None:
    check_documents(seed)


def check_documents(seed: int) -> None:
    rng = random.Random(seed)
    taken(targets.signed_body, mutated_json(BODY, rng))
    taken(targets.compiled_codebook, mutated_json(COMPILED, rng))
    taken(targets.codebook_with_its_id, mutated_json(COMPILED, rng))
    taken(targets.codebook_toml, mutated_text(targets.TOML, rng).encode())


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_thousands_of_damaged_inputs_are_taken_or_refused_with_a_typed_error(name: str) -> None:
    @MANY
    @given(damaged(name) | st.binary(max_size=2_000))
    def check(data: bytes) -> None:
        taken(TARGETS[name], data)

    check()


@pytest.mark.full
def test_thousands_of_almost_right_documents_are_taken_or_refused_with_a_typed_error() -> None:
    for seed in range(20_000):
        check_documents(seed)


@FEW
@given(st.integers(0, 2**32))
def test_a_changed_codebook_is_never_taken_for_the_one_it_was(seed: int) -> None:
    """Its id covers every member, so whatever a change makes of it is refused or has another id."""
    raw = mutated_json(COMPILED, random.Random(seed))
    if json.loads(raw) != COMPILED and taken(targets.compiled_codebook, raw):
        assert json.loads(raw)["id"] != COMPILED["id"]


@pytest.mark.parametrize(("name", "document"), [("signed_body", BODY), ("codebook_with_its_id", COMPILED)])
def test_the_mutations_get_past_the_parser(name: str, document: Any) -> None:
    """A fuzzer that only ever meets 'not JSON' tests the standard library."""
    reasons = set()
    for seed in range(150):
        try:
            TARGETS[name](mutated_json(document, random.Random(seed)))
        except HubbubError as error:
            reasons.add(re.sub(r"\d+", "", str(error))[:60])
    assert len(reasons) > 20


@pytest.mark.parametrize("written", ["inf", "-inf", "nan", "1e400"])
def test_a_missing_that_is_no_usable_number_is_refused_with_a_typed_error(written: str) -> None:
    """Found by the fuzzer. One with a larger exponent takes gigabytes of a device's memory before it is refused."""
    toml = targets.TOML.replace('mechanism = "laplace"', f"missing = {written}")
    with pytest.raises(CodebookError) as refused:
        Codebook.from_toml(toml)
    assert "outside `bounds`" not in str(refused.value), "it was written out in full to be compared"


# -- the same through the client ----------------------------------------------------------------


class Rude(MemoryTransport):
    """Answers what it is told to, whatever it is asked."""

    answer: Answer = (200, {}, b"")

    def request(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        self.requests.append(Request(method, path, headers, body))
        return self.answer


answers = st.tuples(
    st.sampled_from([200, 202, 204, 302, 304, 400, 403, 404, 413, 429, 500, 503, 999]),
    st.dictionaries(st.sampled_from(["content-type", "etag", "retry-after"]), st.text(max_size=40), max_size=3),
    st.one_of(
        st.binary(max_size=300),
        damaged("envelope"),
        st.integers(0, 2**32).map(lambda seed: mutated_json(BODY, random.Random(seed))),
    ),
)


@settings(FEW, max_examples=15)
@given(answers)
def test_no_answer_to_the_first_fetch_raises_or_makes_a_device_believe_it(
    tmp_path_factory: Any, answer: Answer
) -> None:
    transport = Rude(b"")
    transport.answer = answer
    world = World(Path(tmp_path_factory.mktemp("device")), transport=transport)
    with world.client() as client:
        assert client.record("theme", "dark") is Outcome.WAITING
        assert not client.flush(0)
        stats = client.stats()
        assert not [name for name in stats if name.startswith("error:")], stats
        assert client.record("theme", "dark") is Outcome.WAITING


@settings(FEW, max_examples=15)
@given(answers)
def test_no_answer_to_an_upload_raises_or_loses_what_nobody_refused(tmp_path_factory: Any, answer: Answer) -> None:
    world = World(Path(tmp_path_factory.mktemp("device")))
    with world.ready() as client:
        client.record("theme", "dark")
        world.transport.script.append(lambda _: answer)
        client.flush(0, now=True)
        stats = client.stats()
        assert not [name for name in stats if name.startswith("error:")], stats
        dropped = sum(count for name, count in stats.items() if name.startswith("dropped:"))
        acknowledged = stats.get("acknowledged", 0)
        assert stats["outbox"] + acknowledged + dropped == 1
        assert not acknowledged or answer[0] in (200, 202)
        assert not dropped


# -- what only the aggregator reads -------------------------------------------------------------


@FEW
@given(st.binary(max_size=64) | st.integers(0, 2**32).map(lambda seed: random.Random(seed).randbytes(48)))
def test_bytes_that_are_no_tally_are_refused_with_a_typed_error(data: bytes) -> None:
    for metric in codebook().metrics:
        mechanism = metric.mechanism
        whole = mechanism.tally([mechanism.outputs()[0]]).to_bytes()
        for spoilt in (data, whole[:16] + data, whole[: len(data)], whole + data[:1]):
            if spoilt == whole:
                continue
            try:
                found = mechanism.tally_from_bytes(spoilt)
            except MalformedTally:
                continue
            assert found.to_bytes() == spoilt


@pytest.mark.parametrize("point", [bytes(32), bytes([1]) + bytes(31)])
def test_a_sealing_key_of_low_order_sends_nothing_and_hurts_nobody(world: World, point: bytes) -> None:
    """Everyone knows the secret that such a key leads to. A bundle that names one is refused, although it is signed."""
    good, bad = (base64_text(key).encode() for key in (sealing_key().public_key, point))
    body = signed().split(b"\n", 2)[2].replace(good, bad)
    signature = base64_text(IDENTITY.sign(b"hubbub-01 bundle\0" + body))
    world.transport.bundle = b"\n".join([b"hubbub-bundle 1", f"{TRUST} {signature}".encode(), body])
    with world.client() as client:
        client.flush(0)
        client.record("theme", "dark")
        assert not client.flush(0, now=True)
        assert world.uploads() == []
        assert client.stats()["bundle:MalformedBundle"] > 0
        assert client.record("startup_ms", 7) is not Outcome.INVALID
