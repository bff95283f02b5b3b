"""What the browser page must know of a collection: what to press for each metric, and the newest estimates."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hubbub.errors import MalformedReport
from hubbub.period import duration_text
from hubbub_cli.api_client import Refusal, ask

if TYPE_CHECKING:
    from hubbub.codebook import Codebook, Metric
    from hubbub_cli.services.processes import Services

__all__ = ["newest_estimates", "page_facts"]

_MOST_CHOICES = 16
_SHORT = 60
"""Seconds of a period for which a visitor may wait."""
_LOOKED_BACK = 30
"""Periods in which the newest estimate is looked for."""


def page_facts(codebook: Codebook, services: Services, *, crowd: bool) -> dict[str, Any]:
    """As JSON. `crowd`: whether simulated devices can be asked to join in."""
    collection = codebook.collection
    calendar = collection.calendar
    is_short = calendar.seconds <= _SHORT
    return {
        "collection": collection.name,
        "shuffler": services.shuffler,
        "trust": services.anchor,
        "dashboard": services.aggregator,
        "origin": calendar.origin,
        "period": calendar.seconds,
        "periodInWords": duration_text(calendar.seconds),
        "grace": collection.grace,
        "graceInWords": duration_text(collection.grace),
        "freshStorage": "wait" if is_short else "report",
        "crowd": crowd,
        "metrics": [
            {
                "name": metric.name,
                "description": metric.description,
                "unit": metric.values.shape.unit or "",
                "faces": _faces(metric),
                "epsilon": float(metric.epsilon),
                "needed": max(metric.min_batch or 0, services.floor),
                **_controls(metric),
            }
            for metric in codebook.in_file_order
            if metric.enabled
        ],
    }


def _controls(metric: Metric) -> dict[str, Any]:
    """A number to type in, or buttons; whatever the type, what they give may be recorded."""
    example = metric.values.example()
    if isinstance(example, int | float) and not isinstance(example, bool):
        return {"number": float(example)}
    values = [metric.values.value_for(held) for held in range(min(metric.values.domain.estimates, _MOST_CHOICES))]
    return {"choices": [{"value": value, "label": metric.values.in_words(value)} for value in values]}


def _faces(metric: Metric) -> dict[str, str]:
    """What each report of one byte says as it stands, for those that name one value."""
    mechanism, found = metric.mechanism, {}
    for payload in (bytes([byte]) for byte in range(256) if mechanism.report_bytes == 1):
        with suppress(MalformedReport):
            face = mechanism.face(mechanism.decode(payload))
            if isinstance(face, int | Fraction):
                found[payload.hex()] = metric.values.input_in_words(face).strip("'")
    return found


def newest_estimates(codebook: Codebook, services: Services, now: float) -> list[dict[str, Any]]:
    """Of each metric its newest release, and which of the last periods were thrown away."""
    calendar = codebook.collection.calendar
    index = calendar.index_at(now)
    between = {"from": calendar.period(max(0, index - _LOOKED_BACK)).label, "to": calendar.period(index + 1).label}
    found = []
    for metric in codebook.in_file_order:
        if not metric.enabled:
            continue
        try:
            series = ask(services.aggregator, f"/v1/metrics/{metric.name}/series", between)
        except Refusal:  # nothing yet
            continue
        segments = {segment["metric_id"]: segment for segment in series["segments"]}
        released = [point for point in series["points"] if point["state"] == "released"]
        starts = [calendar.period(calendar.boundary(point["period"])).start for point in released]
        found.append(
            {
                "name": metric.name,
                "released": starts,
                "discarded": [
                    calendar.period(calendar.boundary(point["period"])).start
                    for point in series["points"]
                    if point["state"] == "discarded"
                ],
                **(_shown(released[-1], starts[-1], segments) if released else {}),
            }
        )
    return found


def _shown(point: dict[str, Any], start: int, segments: dict[str, Any]) -> dict[str, Any]:
    segment = segments[point["metric_id"]]
    return {
        "start": start,
        "reports": point["reports"],
        "isShare": segment["measure"] == "share",
        "unit": segment["unit"] or "",
        "values": [{"label": value["label"], **value["shown"]} for value in point["values"]],
    }
