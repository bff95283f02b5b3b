"""Codebooks, sealing keys, the bundle and remembered answers in Redis, all in one slot: each step is one script.

The private half of a sealing key is stored only encrypted (AES-128-GCM), under a key that is derived from the identity
key: this Redis, or a copy of it, is not enough to open a report.
"""

from __future__ import annotations

import json

from hubbub_aggregator.storage.protocol import KeyTaken, SignedBundle, StorageError, StoredCodebook, StoredKey
from hubbub_aggregator.storage.redis.batches import lua
from hubbub_aggregator.storage.redis.key_names import Keys
from hubbub_service_common.process.clock_and_entropy import entropy
from hubbub_service_common.redis.calls_and_scripts import command
from hubbub_service_common.redis.client import RedisClient

__all__ = ["RedisRegistry"]

_NONCE = 12
_SCRIPTS = ("add_codebook", "add_key", "drop_key", "move_codebook", "publish", "put", "revoke_key")


class RedisRegistry:
    """The part of the storage that holds what is published. `secret`: 16 bytes that encrypt private keys."""

    def __init__(self, client: RedisClient, keys: Keys, secret: bytes) -> None:
        self._client, self._keys, self._secret = client, keys, secret
        self._lua = {name: lua(name) for name in _SCRIPTS}

    def codebooks(self) -> list[StoredCodebook]:
        flat = self._client.one(command("HGETALL", self._keys.codebooks), write=False)
        found = [StoredCodebook(int(first), raw) for first, raw in zip(flat[::2], flat[1::2], strict=True)]
        return sorted(found, key=lambda codebook: codebook.first_period)

    def starts(self) -> list[int]:
        return sorted(int(first) for first in self._client.one(command("HKEYS", self._keys.codebooks), write=False))

    def add_codebook(self, codebook: StoredCodebook) -> bool:
        call = self._lua["add_codebook"]((self._keys.codebooks,), codebook.first_period, codebook.compiled)
        return bool(self._client.one(call) == 1)

    def move_codebook(self, first: int, to: int) -> bool:
        return bool(self._client.one(self._lua["move_codebook"]((self._keys.codebooks,), first, to)) == 1)

    def switched_off(self) -> frozenset[str]:
        flat = self._client.one(command("HGETALL", self._keys.switched_off), write=False)
        return frozenset(name.decode() for name, off in zip(flat[::2], flat[1::2], strict=True) if int(off))

    def switch(self, name: str, *, off: bool) -> None:
        self._client.one(self._lua["put"]((self._keys.switched_off,), name, int(off)))

    def sealing_keys(self) -> list[StoredKey]:
        flat = self._client.one(command("HGETALL", self._keys.keys), write=False)
        found = [self._key(int(id), json.loads(raw)) for id, raw in zip(flat[::2], flat[1::2], strict=True)]  # noqa: A001  it is an id
        return sorted(found, key=lambda key: (key.first_period, not key.revoked, key.id))

    def add_key(self, key: StoredKey, *, instead_of: int | None = None) -> None:
        entry = {
            "first": key.first_period,
            "last": key.last_period,
            "public": key.public_key.hex(),
            "revoked": key.revoked,
        }
        if key.private_key is not None:
            entry["private"] = self._encrypt(key.private_key, key.public_key)
        old = "" if instead_of is None else instead_of
        call = self._lua["add_key"](
            (self._keys.keys, self._keys.marks),
            *(key.id, key.first_period, key.last_period, json.dumps(entry), old),
        )
        if self._client.one(call) != 1:
            raise KeyTaken("these periods, or this id, have a key already and nothing was changed: try again")

    def revoke_key(self, id: int) -> None:  # noqa: A002  it is an id
        self._client.one(self._lua["revoke_key"]((self._keys.keys, self._keys.marks), id))

    def drop_key(self, id: int) -> None:  # noqa: A002  it is an id
        self._client.one(self._lua["drop_key"]((self._keys.keys, self._keys.marks), id))

    def bundle(self) -> SignedBundle | None:
        fields = ("sequence", "issued", "content", "raw")
        sequence, issued, content, raw = self._client.one(command("HMGET", self._keys.bundle, *fields), write=False)
        return None if sequence is None else SignedBundle(int(sequence), int(issued), content, raw)

    def publish(self, bundle: SignedBundle, last: int | None) -> bool:
        known = "" if last is None else last
        call = self._lua["publish"](
            (self._keys.bundle,),
            *(known, bundle.sequence, bundle.issued, bundle.content, bundle.raw),
        )
        return bool(self._client.one(call) == 1)

    def remembered(self, question: str) -> int | None:
        answer = self._client.one(command("HGET", self._keys.remembered, question), write=False)
        return None if answer is None else int(answer)

    def remember(self, question: str, answer: int) -> None:
        self._client.one(self._lua["put"]((self._keys.remembered,), question, answer))

    def _key(self, id: int, entry: dict[str, object]) -> StoredKey:  # noqa: A002  it is an id
        public, private = bytes.fromhex(str(entry["public"])), entry.get("private")
        return StoredKey(
            id,
            int(str(entry["first"])),
            int(str(entry["last"])),
            public,
            None if private is None else self._decrypt(str(private), public),
            bool(entry["revoked"]),
        )

    def _encrypt(self, private: bytes, public: bytes) -> str:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = entropy(_NONCE)
        return (nonce + AESGCM(self._secret).encrypt(nonce, private, public)).hex()

    def _decrypt(self, text: str, public: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        raw = bytes.fromhex(text)
        try:
            return AESGCM(self._secret).decrypt(raw[:_NONCE], raw[_NONCE:], public)
        except InvalidTag:
            raise StorageError("a sealing key was stored by another identity: copy identity.key from there") from None
