"""The bundle: what was not signed is refused, each kind of fault with its own error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from hubbub.bundle import LARGEST_BUNDLE, BundledCodebook, SealingKey, sign, verify
from hubbub.canonical import Json, canonical_bytes
from hubbub.codebook import Codebook
from hubbub.errors import (
    BadSignature,
    BundleError,
    ExpiredBundle,
    InvalidParameter,
    MalformedBundle,
    RolledBackBundle,
    UntrustedBundle,
)
from hubbub.trust_anchor import anchor_of, anchor_text, base64_text, parse_anchor
from tests.support.codebooks import IDENTITY, STRANGER, dark_mode, photo_app

NOW = 1_800_000_000
KEY, OTHER_KEY = IDENTITY, STRANGER
TRUST = [anchor_of(KEY)]

TOML = photo_app(dark_mode(1, min_batch=500), device_epsilon=2)


_P, _U = 2**255 - 19, 39382357235489614581723060781553021112529911719440698176882885853963445705823
LOW_ORDER = [
    (number % 2**256).to_bytes(32, "little")
    for u in (0, 1, _P - 1, _P, _P + 1, _U, 325606250916557431795983626356110631294008115727848805560023387167927233504)
    for number in (u, u + 2**255)
]
"""Every spelling of a key to which nothing can be sealed."""


def compiled(toml: str = TOML) -> dict[str, Json]:
    return Codebook.from_toml(toml).compiled()


def sealing_key(key_id: int = 1, first: int = 20_000, last: int = 20_006, **more: Any) -> SealingKey:
    return SealingKey(id=key_id, public_key=bytes([key_id] * 32), first_period=first, last_period=last, **more)


def signed(key: Ed25519PrivateKey = KEY, **changes: Any) -> bytes:
    content: dict[str, Any] = {
        "collection": "photo-app",
        "codebooks": [BundledCodebook(20_000, compiled())],
        "keys": [sealing_key()],
        "now": NOW,
        "lifetime": 86_400,
        "max_age": 3_600,
        "last": None,
    }
    return sign(key, **(content | changes))


def resigned(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A bundle whose body was changed and signed again by the trusted key: only reading can refuse it."""
    body = json.loads(signed().split(b"\n", 2)[2])
    change(body)
    spelled = json.dumps(body, sort_keys=True, separators=(",", ":"))  # also what has no canonical form, such as floats
    return enveloped(spelled.encode())


def enveloped(body: bytes) -> bytes:
    signature = base64_text(KEY.sign(b"hubbub-01 bundle\0" + body))
    return b"\n".join([b"hubbub-bundle 1", f"{TRUST[0]} {signature}".encode(), body])


def test_a_signed_bundle_is_read_back() -> None:
    bundle = verify(signed(), TRUST, NOW)

    assert bundle.signer == TRUST[0]
    assert bundle.body.collection == "photo-app"
    assert bundle.body.expires == NOW + 86_400
    assert bundle.body.codebooks[0].document == compiled()
    assert bundle.body.keys == (sealing_key(),)
    (metric,) = bundle.body.codebooks[0].metrics
    assert (metric.name, metric.report_bytes, metric.min_batch, metric.grace) == ("dark_mode", 1, 500, 86_400)
    assert Codebook.from_compiled(bundle.body.codebooks[0].document).metric("dark_mode").id == metric.id


@pytest.mark.parametrize("bits", [[3], pytest.param(range(8), marks=pytest.mark.full)], ids=["one", "all"])
def test_any_flipped_bit_of_any_byte_is_refused(bits: Iterable[int]) -> None:
    raw = signed()

    for position in range(len(raw)):
        for bit in bits:
            damaged = bytearray(raw)
            damaged[position] ^= 1 << bit
            with pytest.raises(BundleError):
                verify(bytes(damaged), TRUST, NOW)


def test_a_flipped_byte_of_the_body_is_a_bad_signature_and_nothing_else() -> None:
    raw = signed()

    for position in range(raw.index(b"{"), len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1
        with pytest.raises(BadSignature, match="fetch it again"):
            verify(bytes(damaged), TRUST, NOW)


@given(st.integers(0, len(signed()) - 1))
def test_a_bundle_cut_short_is_refused(length: int) -> None:
    with pytest.raises(BundleError):
        verify(signed()[:length], TRUST, NOW)


@given(st.binary(max_size=300))
def test_bytes_that_are_no_bundle_are_refused_and_nothing_else_is_raised(raw: bytes) -> None:
    with pytest.raises(MalformedBundle):
        verify(raw, TRUST, NOW)
    with pytest.raises(BundleError):
        verify(enveloped(raw), TRUST, NOW)


def test_bytes_after_the_body_are_refused() -> None:
    with pytest.raises(BadSignature):
        verify(signed() + b"\n", TRUST, NOW)
    with pytest.raises(MalformedBundle):
        verify(enveloped(signed().split(b"\n", 2)[2] + b"{}"), TRUST, NOW)


def test_another_key_is_untrusted_even_with_a_good_signature() -> None:
    with pytest.raises(UntrustedBundle, match="add the new anchor"):
        verify(signed(OTHER_KEY), TRUST, NOW)


def test_any_of_several_trust_anchors_is_enough() -> None:
    both = [anchor_of(KEY), anchor_of(OTHER_KEY)]

    assert verify(signed(OTHER_KEY), both, NOW).signer == both[1]


def test_a_signature_by_another_key_under_a_trusted_name_is_bad() -> None:
    theirs, ours = signed(OTHER_KEY), signed()
    signature = theirs.split(b"\n")[1].split(b" ")[1]

    with pytest.raises(BadSignature):
        verify(ours.replace(ours.split(b"\n")[1].split(b" ")[1], signature), TRUST, NOW)


def test_a_second_spelling_of_the_same_signature_is_refused() -> None:
    """The last of its 86 letters has four spare bits, which a lenient decoder drops."""
    raw = signed()
    end = raw.index(b"\n{")
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    place = alphabet.index(raw[end - 1])

    for spare in range(1, 16):
        respelt = raw[: end - 1] + alphabet[place ^ spare : (place ^ spare) + 1] + raw[end:]
        with pytest.raises(MalformedBundle, match="damaged"):
            verify(respelt, TRUST, NOW)


def test_a_signature_for_another_purpose_does_not_fit() -> None:
    body = signed().split(b"\n", 2)[2]
    bare = base64_text(KEY.sign(body))

    with pytest.raises(BadSignature):
        verify(b"\n".join([b"hubbub-bundle 1", f"{TRUST[0]} {bare}".encode(), body]), TRUST, NOW)


def test_a_bundle_is_refused_from_the_second_it_expires() -> None:
    verify(signed(), TRUST, NOW + 86_399)

    with pytest.raises(ExpiredBundle, match="clock"):
        verify(signed(), TRUST, NOW + 86_400)


def test_an_older_sequence_is_refused_and_the_same_bytes_are_not() -> None:
    old, new = signed(), signed(last=NOW + 5)
    seen = verify(new, TRUST, NOW).seen

    assert verify(new, TRUST, NOW, seen).body.sequence == NOW + 6
    with pytest.raises(RolledBackBundle, match=str(NOW)):
        verify(old, TRUST, NOW, seen)


def test_a_newer_sequence_is_accepted() -> None:
    seen = verify(signed(), TRUST, NOW).seen

    assert verify(signed(last=seen.sequence), TRUST, NOW, seen).body.sequence == seen.sequence + 1


def test_other_content_under_the_same_sequence_is_refused() -> None:
    seen = verify(signed(), TRUST, NOW).seen

    with pytest.raises(RolledBackBundle, match="two different bundles"):
        verify(signed(max_age=60), TRUST, NOW, seen)


@given(last=st.none() | st.integers(0, 2 * NOW), now=st.integers(0, 2 * NOW))
def test_a_sequence_goes_forward_and_is_at_least_the_time(last: int | None, now: int) -> None:
    sequence = verify(signed(last=last, now=now), TRUST, now).body.sequence

    assert sequence >= now
    assert last is None or sequence > last


@pytest.mark.parametrize(("last", "sequence"), [(NOW + 9, NOW + 9), (NOW + 9, NOW + 8), (None, NOW - 1)])
def test_signing_refuses_a_sequence_that_goes_back(last: int | None, sequence: int) -> None:
    with pytest.raises(InvalidParameter, match="leave it out"):
        signed(last=last, sequence=sequence)


def test_the_first_line_names_the_version() -> None:
    with pytest.raises(MalformedBundle, match="too old"):
        verify(signed().replace(b"hubbub-bundle 1\n", b"hubbub-bundle 2\n", 1), TRUST, NOW)


def test_a_bundle_beyond_the_size_limit_is_refused_unread() -> None:
    with pytest.raises(MalformedBundle, match="at most"):
        verify(signed() + bytes(LARGEST_BUNDLE), TRUST, NOW)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda b: b.update(format="hubbub-bundle 2"), id="format"),
        pytest.param(lambda b: b.pop("keys"), id="no keys"),
        pytest.param(lambda b: b.update(sequence="7"), id="sequence as text"),
        pytest.param(lambda b: b.update(sequence=True), id="sequence as flag"),
        pytest.param(lambda b: b.update(sequence=-1), id="negative sequence"),
        pytest.param(lambda b: b.update(sequence=2**60), id="sequence beyond 2^53"),
        pytest.param(lambda b: b.update(max_age=1.5), id="float"),
        pytest.param(lambda b: b.update(expires=b["issued"]), id="expires when issued"),
        pytest.param(lambda b: b.update(collection=""), id="nameless"),
        pytest.param(lambda b: b.update(collection="other-app"), id="other collection"),
        pytest.param(lambda b: b.update(codebooks=[]), id="no codebook"),
        pytest.param(lambda b: b.update(codebooks={}), id="codebooks not a list"),
        pytest.param(lambda b: b.update(codebooks=b["codebooks"] * 2), id="two codebooks at once"),
        pytest.param(lambda b: b["codebooks"][0].update(first_period=2**32), id="period beyond u32"),
        pytest.param(lambda b: b["codebooks"][0].update(codebook=[]), id="codebook not an object"),
        pytest.param(lambda b: b["codebooks"][0]["codebook"]["collection"].update(period=7), id="unaligned period"),
        pytest.param(lambda b: b["codebooks"][0]["codebook"]["metrics"][0].update(id="00"), id="short metric id"),
        pytest.param(lambda b: b["codebooks"][0]["codebook"]["metrics"][0].update(id="zz" * 16), id="no hex"),
        pytest.param(lambda b: b["codebooks"][0]["codebook"]["metrics"][0].update(min_batch=1), id="batch of one"),
        pytest.param(lambda b: b["codebooks"][0]["codebook"]["metrics"][0].update(min_batch=None), id="open min_batch"),
        pytest.param(lambda b: b["codebooks"][0]["codebook"]["metrics"][0].update(enabled=1), id="enabled as number"),
        pytest.param(
            lambda b: b["codebooks"][0]["codebook"]["metrics"].append(b["codebooks"][0]["codebook"]["metrics"][0]),
            id="same metric twice",
        ),
        pytest.param(
            lambda b: b["codebooks"][0]["codebook"]["metrics"].append(
                b["codebooks"][0]["codebook"]["metrics"][0] | {"id": "00" * 16}
            ),
            id="one name, two ids",
        ),
        pytest.param(lambda b: b["keys"][0].update(id=256), id="key id beyond u8"),
        pytest.param(lambda b: b["keys"][0].update(suite=""), id="nameless suite"),
        pytest.param(lambda b: b["keys"][0].update(suite="rot13", public_key=""), id="no key of an unknown suite"),
        pytest.param(lambda b: b["keys"].append(dict(b["keys"][0], id=2, suite="rot13")), id="two suites for a period"),
        pytest.param(lambda b: b.update(off=[]), id="an empty list of what is off"),
        pytest.param(lambda b: b.update(off=["00"]), id="a short id that is off"),
        pytest.param(lambda b: b.update(off=["01" * 16, "00" * 16]), id="what is off does not ascend"),
        pytest.param(lambda b: b.update(off=["00" * 16] * 2), id="the same is off twice"),
        pytest.param(lambda b: b.update(off={"00" * 16: True}), id="what is off as an object"),
        pytest.param(lambda b: b["keys"][0].update(state="retired"), id="unknown state"),
        pytest.param(lambda b: b["keys"][0].update(public_key="AA"), id="short key"),
        *(
            pytest.param(lambda b, key=key: b["keys"][0].update(public_key=base64_text(key)), id=f"low order {at}")
            for at, key in enumerate(LOW_ORDER)
        ),
        pytest.param(lambda b: b["keys"][0].update(last_period=19_999), id="key ends before it starts"),
        pytest.param(lambda b: b["keys"].append(dict(b["keys"][0])), id="same key id twice"),
        pytest.param(lambda b: b["keys"].append(dict(b["keys"][0], id=2)), id="two keys for a period"),
    ],
)
def test_a_signed_document_that_says_something_impossible_is_malformed(
    change: Callable[[dict[str, Any]], object],
) -> None:
    with pytest.raises(MalformedBundle):
        verify(resigned(change), TRUST, NOW)


@pytest.mark.parametrize(
    "body",
    [b'{"a":1,"a":2}', b"[]", b"null", b"{", b"\xff", '{"a":"ü"}'.encode(), b'{"a":NaN}', b"[" * 200_000, b"9" * 5_000],
)
def test_a_signed_body_that_is_not_strict_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedBundle):
        verify(enveloped(body), TRUST, NOW)


def test_signing_refuses_what_a_device_would_refuse() -> None:
    with pytest.raises(MalformedBundle, match="both seal period 20003"):
        signed(keys=[sealing_key(1, 20_000, 20_003), sealing_key(2, 20_003, 20_004)])
    with pytest.raises(MalformedBundle, match="min_batch"):
        BundledCodebook(20_000, compiled(TOML.replace("min_batch = 500", "")))
    with pytest.raises(MalformedBundle, match="shorten lists"):
        signed(codebooks=[BundledCodebook(20_000, {**compiled(), "padding": "x" * LARGEST_BUNDLE})])


def test_a_member_that_is_not_known_yet_is_ignored() -> None:
    assert verify(resigned(lambda b: b.update(motd="hello")), TRUST, NOW).body.collection == "photo-app"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_body_in_another_spelling_than_the_canonical_one_is_malformed(indent: int | None) -> None:
    """A reader without a strict parser writes the body canonically and compares: so it sees what we see."""
    body = json.loads(signed().split(b"\n", 2)[2])
    other = json.dumps(body, sort_keys=True, indent=indent).encode().replace(b"\n", b"")

    with pytest.raises(MalformedBundle, match="canonical"):
        verify(enveloped(other), TRUST, NOW)


@pytest.mark.parametrize("key", LOW_ORDER)
def test_those_are_the_keys_with_which_no_secret_can_be_shared(key: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        X25519PrivateKey.from_private_bytes(bytes(range(32))).exchange(X25519PublicKey.from_public_bytes(key))


def test_a_key_of_a_suite_that_is_not_known_seals_nothing_and_the_bundle_is_read() -> None:
    keys = [sealing_key(1), sealing_key(2, 20_007, 20_013)]
    newer = resigned(lambda b: b["keys"][0].update(suite="x-wing", public_key=base64_text(bytes(1216))))
    body = verify(newer, TRUST, NOW).body

    assert body.key_for(20_000) is None
    assert [key.suite for key in body.keys] == ["x-wing"]
    assert verify(signed(keys=keys), TRUST, NOW).body.key_for(20_007) == keys[1]


def test_a_metric_that_the_bundle_switches_off_is_off_and_its_codebook_stays_what_it_was() -> None:
    on, off = (verify(signed(off=ids), TRUST, NOW).body for ids in ((), [dark_mode_id()]))

    assert [on.off, off.off] == [frozenset(), frozenset([dark_mode_id()])]
    assert [metric.enabled for body in (on, off) for metric in body.codebooks[0].metrics] == [True, False]
    assert on.codebooks[0].document == off.codebooks[0].document
    assert b'"off"' not in canonical_bytes(on.document())  # left out, so that older bundles keep their bytes


def dark_mode_id() -> bytes:
    return Codebook.from_toml(TOML).metric("dark_mode").id


def test_a_revoked_key_seals_nothing_and_its_successor_does() -> None:
    keys = [sealing_key(1, state="revoked"), sealing_key(2), sealing_key(3, 20_007, 20_013, state="pending")]
    body = verify(signed(keys=keys), TRUST, NOW).body

    assert [key and key.id for key in map(body.key_for, (19_999, 20_000, 20_006, 20_007, 20_014))] == [
        None,
        2,
        2,
        3,
        None,
    ]


def test_a_period_has_one_codebook_and_so_a_name_one_id() -> None:
    edited = TOML.replace("\nepsilon = 1\n", "\nepsilon = 1.5\n")
    codebooks = [BundledCodebook(20_000, compiled()), BundledCodebook(20_005, compiled(edited))]
    body = verify(signed(codebooks=codebooks), TRUST, NOW).body
    (old,), (new,) = codebooks[0].metrics, codebooks[1].metrics

    assert old.name == new.name
    assert old.id != new.id
    assert [body.metric(old.id, period) for period in (20_004, 20_005)] == [old, None]
    assert [body.metric(new.id, period) for period in (20_004, 20_005)] == [None, new]


def test_the_codebook_in_force_decides_about_a_metric() -> None:
    off = TOML + "enabled = false\n"
    codebooks = [BundledCodebook(20_000, compiled()), BundledCodebook(20_005, compiled(off))]
    body = verify(signed(codebooks=codebooks), TRUST, NOW).body
    (metric,) = codebooks[0].metrics

    assert body.metric(metric.id, 20_004) == metric
    assert body.metric(metric.id, 20_005) == replace(metric, enabled=False)
    assert body.metric(metric.id, 19_999) is None
    assert body.metric(bytes(16), 20_005) is None


def test_codebooks_of_two_period_lengths_are_refused_in_one_bundle() -> None:
    weekly = BundledCodebook(20_001, compiled(TOML.replace('"1d"', '"1w"')))

    with pytest.raises(MalformedBundle, match="same period length"):
        signed(codebooks=[BundledCodebook(20_000, compiled()), weekly])


@given(st.binary(min_size=32, max_size=32))
def test_a_trust_anchor_is_read_back_from_its_text(key: bytes) -> None:
    assert parse_anchor(anchor_text(key)) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ed25519:",
        "rsa:AAAA",
        TRUST[0][:-1],
        TRUST[0] + "A",
        TRUST[0] + "=",
        TRUST[0].upper(),
        TRUST[0] + "\n",
        "ed25519:" + "ü" * 43,
    ],
)
def test_what_is_no_trust_anchor_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(InvalidParameter, match="copy the whole line"):
        verify(signed(), [text], NOW)


def test_without_a_trust_anchor_nothing_is_accepted() -> None:
    with pytest.raises(InvalidParameter, match="no trust anchor"):
        verify(signed(), [], NOW)


def test_the_same_content_gives_the_same_bytes() -> None:
    assert signed() == signed()


def test_the_body_is_canonical_json() -> None:
    body = signed().split(b"\n", 2)[2]

    assert canonical_bytes(json.loads(body)) == body


@pytest.mark.parametrize("module", ["bundle", "period", "reduce", "trust_anchor", "canonical"])
def test_the_module_loads_no_mechanism_and_no_heavy_library(module: str) -> None:
    code = f"import sys, hubbub.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    for name in ("hubbub.mechanisms", "hubbub.codebook", "numpy", "pydantic", "cryptography", "click"):
        assert name not in loaded
