"""Which version's storage this is: an older software leaves a newer one's alone."""

from __future__ import annotations

from hubbub_shuffler.storage.protocol import StorageError

__all__ = ["FIRST", "refuse_newer"]

FIRST = 1
"""Of a storage that was made before versions were written into it."""


def refuse_newer(found: int, known: int) -> None:
    """StorageError if a newer software wrote it: what it means there is not known here."""
    if found > known:
        raise StorageError(
            f"it was written by a newer version of this software (layout {found}; this one knows {known} and below). "
            "Nothing in it was changed. Install the newer version again; or let that one run until no bucket waits, "
            "then give this one an empty storage"
        )
