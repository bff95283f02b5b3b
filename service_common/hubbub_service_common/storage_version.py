"""Which version's storage this is: an older software leaves a newer one's alone."""

from __future__ import annotations

from hubbub_service_common.storage_error import StorageError

__all__ = ["refuse_newer"]


def refuse_newer(found: int, known: int, otherwise: str) -> None:
    """StorageError if a newer software wrote it: what it means there is not known here.

    `otherwise`: what one can do who does not have the newer version any more.
    """
    if found > known:
        raise StorageError(
            f"it was written by a newer version of this software (layout {found}; this one knows {known} and below). "
            f"Nothing in it was changed. Install the newer version again; or {otherwise}"
        )
