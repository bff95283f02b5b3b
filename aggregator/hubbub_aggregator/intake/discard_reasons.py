"""Why a shuffler discarded a bucket. Its notice does not say; what is published here does.

A shuffler discards what nobody wants any more, by the same bundle: reports for a revoked key, or of a metric that is
switched off. Whatever else it discards has too small a crowd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from hubbub.wire import BatchHeader
    from hubbub_aggregator.publication.codebooks import Codebooks
    from hubbub_aggregator.publication.keys import KeyRing

__all__ = ["DiscardReason", "Unwanted", "unwanted"]

Unwanted: TypeAlias = Literal["revoked-key", "switched-off"]
DiscardReason: TypeAlias = Literal["too-few", "revoked-key", "switched-off"]


def unwanted(ring: KeyRing, codebooks: Codebooks, header: BatchHeader, now: float) -> Unwanted | None:
    """Why no crowd of this bucket would have been enough; None if one would have been.

    To be asked when the notice comes: keys are forgotten after their horizon.
    """
    key = ring.find(header.period, header.key)
    if key is not None and key.revoked:
        return "revoked-key"
    return "switched-off" if codebooks.is_off(header.metric, now) else None
