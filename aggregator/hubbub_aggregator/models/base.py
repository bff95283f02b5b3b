"""The base of every response model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["ResponseModel"]


class ResponseModel(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)
