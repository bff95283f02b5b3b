"""A mechanism with its parameters, as the API names it."""

from __future__ import annotations

from typing import Any

from hubbub_aggregator.models.base import ResponseModel

__all__ = ["MechanismModel"]


class MechanismModel(ResponseModel):
    name: str
    epsilon: float
    parameters: dict[str, Any]
