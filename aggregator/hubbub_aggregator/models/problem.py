"""The problem document of RFC 9457, as the API returns it."""

from __future__ import annotations

from hubbub_aggregator.models.base import ResponseModel

__all__ = ["Problem"]


class Problem(ResponseModel):
    """RFC 9457, as application/problem+json; `type` is urn:hubbub:problem:<name>."""

    type: str
    title: str
    status: int
    detail: str
