"""Why a shuffler discarded a bucket. Its notice does not say; the published bundle does.

By that bundle, a shuffler discards reports that are unwanted: for a revoked key, or of a metric that is switched off.
Any other bucket that it discards has too small a crowd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from hubbub.wire import BatchHeader
    from hubbub_aggregator.publication.codebook_versions import Codebooks
    from hubbub_aggregator.publication.keys import KeyRing

__all__ = ["DiscardReason", "Unwanted", "unwanted"]

Unwanted: TypeAlias = Literal["revoked-key", "switched-off"]
DiscardReason: TypeAlias = Literal["too-few", "revoked-key", "switched-off"]


def unwanted(ring: KeyRing, codebooks: Codebooks, header: BatchHeader, now: float) -> Unwanted | None:
    """Why this bucket was unwanted whatever its crowd; None if a larger crowd would have been forwarded.

    Ask when the notice arrives: keys are forgotten after their horizon.
    """
    key = ring.find(header.period, header.key)
    if key is not None and key.revoked:
        return "revoked-key"
    return "switched-off" if codebooks.is_off(header.metric, now) else None
