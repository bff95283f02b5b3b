"""Where reports wait for their crowd: one Protocol, one backend per file."""

from hubbub_shuffler.storage.protocol import (
    Arrivals,
    Batch,
    Bucket,
    Claim,
    Closed,
    Contents,
    Count,
    Overview,
    Plan,
    Reason,
    Storage,
    StorageError,
    Terms,
    Waiting,
)

__all__ = [
    "Arrivals",
    "Batch",
    "Bucket",
    "Claim",
    "Closed",
    "Contents",
    "Count",
    "Overview",
    "Plan",
    "Reason",
    "Storage",
    "StorageError",
    "Terms",
    "Waiting",
]
