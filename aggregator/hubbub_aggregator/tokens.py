"""Who may call: tokens kept as hashes and compared in constant time; two of a kind are valid during rotation."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable

from hubbub.problems import InvalidParameter
from hubbub.refusals import Refused

__all__ = ["Tokens"]

_HASHED = re.compile(r"sha256:([0-9a-f]{64})")
_SHORTEST = 16


class Tokens:
    """The tokens of one kind of caller. With none configured, everyone is let in."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._digests = tuple(_digest(token) for token in tokens)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def require(self, authorization: str | None, *, basic: bool = False) -> None:
        """Refuse a caller whose Authorization header holds none of the tokens."""
        if not self._digests:
            return
        presented = hashlib.sha256(_presented(authorization or "", basic=basic)).digest()
        # every token is compared, so that the time taken does not tell which one was near
        if not sum(hmac.compare_digest(presented, known) for known in self._digests):
            raise Refused("unauthorized", "send `Authorization: Bearer TOKEN` with a token that is valid here")


def _digest(token: str) -> bytes:
    if hashed := _HASHED.fullmatch(token):
        return bytes.fromhex(hashed[1])
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidParameter(
            f"a token has at least {_SHORTEST} visible ASCII characters: make one with `openssl rand -hex 32`"
        )
    return hashlib.sha256(token.encode()).digest()


def _presented(authorization: str, *, basic: bool) -> bytes:
    """The token in a header: all of a bearer token, or the password of HTTP Basic where that is allowed."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip().encode("utf-8", "surrogateescape")
    if basic and scheme.lower() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b""
