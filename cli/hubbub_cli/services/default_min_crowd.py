"""The fewest reports that a shuffler forwards together, unless its operator says otherwise."""

from __future__ import annotations

__all__ = ["usual_floor"]


def usual_floor() -> int:
    """The default of the shuffler's setting, imported late because its libraries load slowly."""
    from hubbub_shuffler.settings import Settings

    found = Settings.model_fields["min_batch_floor"].default
    assert isinstance(found, int)  # noqa: S101  always true; for the type checker
    return found
