"""tests/vectors/v1/refusals.json: every name by which a service refuses, and what a device does then."""

from __future__ import annotations

from typing import Any

from hubbub.refusals import REFUSALS

__all__ = ["refusals"]


def refusals() -> list[dict[str, Any]]:
    return [
        {"name": refusal.name, "type": refusal.urn, "status": refusal.status, "action": refusal.action.value}
        for refusal in REFUSALS.values()
    ]
