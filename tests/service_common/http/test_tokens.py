"""Tokens: long enough, compared in constant time, and known by their digests alone."""

from __future__ import annotations

import hmac
from hashlib import sha256

import pytest

from hubbub.errors import InvalidParameter
from hubbub.refusals import Refused
from hubbub_service_common.http.tokens import Tokens

TOKEN, NEXT = "a-token-of-an-operator", "the-next-token-of-an-operator"


def test_tokens_are_compared_in_constant_time_and_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests of one length, by hmac.compare_digest, each one every time: right, wrong or of any length."""
    compared: list[tuple[int, int]] = []
    whole = hmac.compare_digest

    def counting(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return whole(a, b)

    monkeypatch.setattr("hubbub_service_common.http.tokens.hmac.compare_digest", counting)
    known = Tokens([TOKEN, NEXT])
    for token in (TOKEN, NEXT):
        known.require(f"Bearer {token}")
    for wrong in ("", "x", TOKEN[:-1], "y" * 100_000):
        with pytest.raises(Refused):
            known.require(f"Bearer {wrong}")
    assert compared == [(32, 32)] * 2 * 6


def test_a_digest_lets_in_who_shows_the_token_and_not_who_shows_the_digest() -> None:
    digest = sha256(TOKEN.encode()).hexdigest()
    for written in (digest, digest.upper()):
        known = Tokens([f"sha256:{written}"])
        known.require(f"Bearer {TOKEN}")
        for wrong in (f"sha256:{written}", written, ""):
            with pytest.raises(Refused):
                known.require(f"Bearer {wrong}")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "fifteen-letters",
        "sixteen letters!",
        "sixteen-letters\n",
        "sixteen-letters\x7f",
        "sixteen-letters\u00e9",
        "sha256:",
        f"sha256:{'0' * 63}",
        f"sha256:{'0' * 65}",
        f"sha256:{'g' * 64}",
    ],
)
def test_what_is_too_short_or_no_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        Tokens([token])
    shown = token.removeprefix("sha256:")
    assert not shown or shown not in str(refused.value)


def test_without_a_token_everyone_is_let_in() -> None:
    assert not Tokens([])
    Tokens([]).require(None)
    assert Tokens([TOKEN])
