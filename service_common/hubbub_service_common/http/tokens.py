"""Bearer tokens: kept as hashes and compared in constant time. Two of a kind are valid during a rotation."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator, SecretStr, ValidationInfo

from hubbub.errors import InvalidParameter
from hubbub.refusals import Refused

__all__ = ["AcceptedToken", "PresentedToken", "Tokens"]

_SHORTEST = 16
_PLAIN = re.compile(f"[!-~]{{{_SHORTEST},}}")
_DIGEST = "sha256:"
_HASHED = re.compile(f"{_DIGEST}([0-9a-fA-F]{{64}})")


class Tokens:
    """The tokens of one kind of caller. With none configured, every caller is let in."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._digests = tuple(_digest(token) for token in tokens)

    @classmethod
    def of(cls, *given: SecretStr | None) -> Tokens:
        """The tokens among these settings that are set."""
        return cls(token.get_secret_value() for token in given if token is not None)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def require(self, authorization: str | None, *, basic: bool = False) -> None:
        """Refuse a caller whose Authorization header holds none of the tokens."""
        if not self._digests:
            return
        presented = hashlib.sha256(_presented(authorization or "", basic=basic)).digest()
        # every token is compared, so that the time taken does not tell which one matched
        if not sum(hmac.compare_digest(presented, known) for known in self._digests):
            raise Refused("unauthorized", "send `Authorization: Bearer TOKEN` with a token that is valid here")


def _digest(token: str) -> bytes:
    if hashed := _HASHED.fullmatch(token):
        return bytes.fromhex(hashed[1])
    if token.startswith(_DIGEST):  # as a plain token, it would let in only callers that send the digest
        raise InvalidParameter(f"after {_DIGEST} come the 64 hexadecimal digits of the token's digest")
    return hashlib.sha256(_plain(token).encode()).digest()


def _plain(token: str) -> str:
    if not _PLAIN.fullmatch(token):
        raise InvalidParameter(
            f"a token has at least {_SHORTEST} visible ASCII characters: make one with `openssl rand -hex 32`"
        )
    return token


def _presented(authorization: str, *, basic: bool) -> bytes:
    """The token in a header: the bearer token, or the password of HTTP Basic where that is allowed."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "surrogateescape")
    if basic and scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""


def _accepted(given: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
    if given is not None:
        _digest(_not_empty(given, info))
    return given


def _to_present(given: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
    if given is not None:
        token = _not_empty(given, info)
        if token.startswith(_DIGEST):
            raise InvalidParameter("the other service expects the token, not its digest: write the token itself")
        _plain(token)
    return given


def _not_empty(given: SecretStr, info: ValidationInfo) -> str:
    """The token, refused if it is empty: that must not mean that every caller is let in."""
    if not given:
        raise InvalidParameter(f"it is empty: set {info.field_name} to a token, or leave it out")
    return given.get_secret_value()


AcceptedToken = Annotated[SecretStr | None, AfterValidator(_accepted)]
"""A setting: a token that callers send, or `sha256:` and its digest; None if there is none."""
PresentedToken = Annotated[SecretStr | None, AfterValidator(_to_present)]
"""A setting: a token that this service sends to the other one; None if there is none."""
