"""Periods and ranges of periods in responses."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel

__all__ = ["PeriodModel", "PeriodRange"]


class PeriodModel(ResponseModel):
    """A period: from its start, which is its label, up to, not including, its end."""

    index: int
    label: str
    start: Annotated[str | None, Field(alias="from")] = None
    end: Annotated[str | None, Field(alias="to")] = None


class PeriodRange(ResponseModel):
    """A half-open range. `released`: how many of its periods have a release."""

    start: Annotated[str, Field(alias="from")]
    end: Annotated[str, Field(alias="to")]
    length: str
    released: int
