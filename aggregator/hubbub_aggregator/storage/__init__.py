"""What the aggregator remembers: one Protocol, and the backends that keep its promises."""

from hubbub_aggregator.storage.protocol import (
    Accepted,
    Batch,
    KeyTaken,
    Pair,
    Release,
    SignedBundle,
    State,
    Storage,
    StoredCodebook,
    StoredKey,
)
from hubbub_aggregator.storage.sqlite import SqliteStorage

__all__ = [
    "Accepted",
    "Batch",
    "KeyTaken",
    "Pair",
    "Release",
    "SignedBundle",
    "SqliteStorage",
    "State",
    "Storage",
    "StoredCodebook",
    "StoredKey",
]
