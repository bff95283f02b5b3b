"""Where reports wait for their crowd: one Protocol, one backend per file."""

from hubbub_shuffler.storage.protocol import (
    LONGEST_PAUSE,
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
    "LONGEST_PAUSE",
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
