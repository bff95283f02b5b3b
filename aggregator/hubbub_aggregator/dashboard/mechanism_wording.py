"""Each randomizer in one paragraph: its own sentence, then what holds for all of them.

A mechanism that this software does not know is described by its name and its epsilon.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hubbub.errors import HubbubError
from hubbub.mechanisms import Bounds, Categories, Mechanism, mechanism
from hubbub_aggregator.dashboard.formatting import epsilon, odds
from hubbub_aggregator.models.mechanism import MechanismModel
from hubbub_aggregator.models.metrics import MetricVersion

__all__ = ["of_version", "paragraph"]

AnyMechanism = Mechanism[Any]


def of_version(version: MetricVersion) -> AnyMechanism | None:
    """The mechanism itself, rebuilt from what the API says about it; None if this software does not know it."""
    return rebuilt(version.mechanism, version.inputs, version.bounds)


def rebuilt(model: MechanismModel, inputs: int | None, bounds: tuple[float, float] | None) -> AnyMechanism | None:
    try:
        if inputs is None and bounds is None:
            return None
        domain = Categories(inputs) if inputs else Bounds(*(Fraction(repr(bound)) for bound in bounds or ()))
        return mechanism(model.name).from_parameters(model.epsilon, domain, model.parameters)
    except HubbubError:
        return None


def paragraph(model: MechanismModel, found: AnyMechanism | None) -> str:
    """How a mechanism hides a value, for someone who reads the numbers."""
    said = found.in_words() if found is not None else ""
    return (
        f"{said} " if said else f"Each device randomizes its value with the mechanism {model.name} before sending it. "
    ) + (
        f"Whatever it sends, no value makes that report more than {odds(model.epsilon)} times as likely as another "
        f"value does: e to the power of its local ε, {epsilon(model.epsilon)} (mechanism {model.name}). The estimates "
        "undo this noise for the crowd, where it averages out; no one can undo it for a single report."
    )
