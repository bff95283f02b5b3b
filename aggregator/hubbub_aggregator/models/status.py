"""The aggregator's status for operators."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel

__all__ = ["CodebookStatus", "KeyStatus", "Status"]


class KeyStatus(ResponseModel):
    id: int
    first_period: str
    last_period: str
    state: Literal["pending", "active", "revoked"]


class CodebookStatus(ResponseModel):
    id: str
    first_period: str


class Status(ResponseModel):
    batches: dict[str, int]
    discards: int
    refused_batches: dict[str, int] = Field(description="By reason.")
    invalid_reports: dict[str, int] = Field(description="Reports in settled batches that did not count, by reason.")
    refused_requests: dict[str, int] = Field(description="By problem, since this process started.")
    keys: list[KeyStatus]
    codebooks: list[CodebookStatus]
    trust_anchor: str
    bundle_sequence: int
    software: str
