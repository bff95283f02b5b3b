"""The verdict on a batch: where it stands, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel
from hubbub_aggregator.storage import State

__all__ = ["Verdict"]


class Verdict(ResponseModel):
    """Where a batch stands. `pending` is the only state that changes."""

    id: str
    kind: Literal["batch", "discard"]
    state: State
    reason: str | None = Field(description="Name of the refusal, if it was refused.")
    metric_id: str
    period: int
    count: int
    valid: int | None = Field(description="Distinct valid reports, once they were opened.")
    invalid: dict[str, int] = Field(description="Reports that do not count, by reason.")
