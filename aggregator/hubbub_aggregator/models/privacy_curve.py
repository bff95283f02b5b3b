"""The privacy curve: δ at every ε, groups of devices, and the errors of every test, for everything released."""

from __future__ import annotations

from pydantic import Field

from hubbub_aggregator.models.base import ResponseModel

__all__ = ["CurvePoint", "ErrorPoint", "PrivacyCurveAnswer"]


class CurvePoint(ResponseModel):
    """One point of δ(ε)."""

    epsilon: float
    delta: float = Field(description="Certified: the true one is not above it.")


class ErrorPoint(ResponseModel):
    """What any test that tells two values apart must put up with."""

    false_alarm: float = Field(description="Probability of an error of type I.")
    least_miss: float = Field(description="The least probability of an error of type II, rounded down.")


class PrivacyCurveAnswer(ResponseModel):
    """What everything that was released reveals of one device, or of a group, at any δ. Never understated."""

    collection: str
    metric: str | None = Field(description="The metric whose releases are composed; null: all of them.")
    unit: str
    group: int = Field(description="Devices that change their values together, and took part in everything.")
    releases: int
    epsilon: float | None = Field(description="At `delta`; null if nothing was released.")
    delta: float = Field(description="As asked for, or else the sum of the releases' own.")
    local_epsilon: float | None = Field(description="What holds if shuffler and aggregator collude, with δ = 0.")
    points: list[CurvePoint] = Field(description="δ(ε) from ε = 0 to where δ is negligible.")
    errors: list[ErrorPoint] = Field(description="The trade-off of type I and type II errors.")
    assumptions: list[str]
    note: str | None = None
