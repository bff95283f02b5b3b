"""Periods and ranges of periods in responses."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel

__all__ = ["PeriodModel", "PeriodRange"]


class PeriodModel(ResponseModel):
    """From its start, which is its label, up to, not including, its end."""

    index: int
    label: str
    start: Annotated[str | None, Field(alias="from")] = None
    end: Annotated[str | None, Field(alias="to")] = None


class PeriodRange(ResponseModel):
    """Half-open; `released` says for how many of the periods there is a release."""

    start: Annotated[str, Field(alias="from")]
    end: Annotated[str, Field(alias="to")]
    length: str
    released: int
