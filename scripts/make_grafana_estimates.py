"""Write deploy/grafana/estimates.json: a Grafana dashboard of one metric's estimates, with their intervals as bands.

    python -m scripts.make_grafana_estimates

Its queries are for the Infinity data source (yesoreyeram-infinity-datasource), which reads the aggregator's CSV. That
has one row per value, so a query names columns and nothing else. A test runs each query against an aggregator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["PATH", "main"]

PATH = Path(__file__).parent.parent / "deploy" / "grafana" / "estimates.json"
_SOURCE = {"type": "yesoreyeram-infinity-datasource", "uid": "${datasource}"}
_VALUE, _LOW, _HIGH = "shown", "shown_low", "shown_high"
"""Columns of the numbers that are drawn: for people, so clipped together to what is possible."""
_MOST = 12
"""Most values that are drawn as lines, the largest ones."""

_TEXT, _NUMBER, _TIME = "string", "number", "timestamp"


def _query(path: str, columns: dict[str, str], keep: str = "") -> dict[str, Any]:
    """A query of the CSV at this path. `keep` is the condition on the rows that stay."""
    return {
        "refId": "A",
        "datasource": _SOURCE,
        "type": "csv",
        "source": "url",
        "parser": "backend",
        "format": "table",
        "url": path,
        "url_options": {"method": "GET", "data": ""},
        "root_selector": "",
        "columns": [{"selector": name, "text": name, "type": kind} for name, kind in columns.items()],
        "filters": [],
        "filterExpression": keep,
    }


def _series(columns: dict[str, str], keep: str = "", **parameters: str) -> dict[str, Any]:
    asked = {"format": "csv", "composed": "false", **parameters}
    return _query(
        "/v1/metrics/${metric}/series?" + "&".join(f"{name}={said}" for name, said in asked.items()),
        {"period": _TIME, **columns},
        keep,
    )


_NUMBERS = {_VALUE: _NUMBER, _LOW: _NUMBER, _HIGH: _NUMBER}


def _band() -> list[dict[str, Any]]:
    """Overrides that fill the space between the limits and draw no lines for them."""

    def of(name: str, **custom: Any) -> dict[str, Any]:
        hidden = {"lineWidth": 0, "showPoints": "never", "hideFrom": {"legend": True, "tooltip": False, "viz": False}}
        return {
            "matcher": {"id": "byName", "options": name},
            "properties": [
                *({"id": f"custom.{key}", "value": value} for key, value in {**hidden, **custom}.items()),
                {"id": "color", "value": {"mode": "fixed", "fixedColor": "blue"}},
            ],
        }

    return [of(_LOW), of(_HIGH, fillBelowTo=_LOW, fillOpacity=20)]


def _lines(title: str, says: str, query: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "description": says,
        "datasource": _SOURCE,
        "targets": [query],
        "fieldConfig": {
            "defaults": {"custom": {"spanNulls": False, "showPoints": "always", "pointSize": 5, "lineWidth": 2}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        **more,
    }


def _banded(panel: dict[str, Any]) -> dict[str, Any]:
    panel["fieldConfig"]["overrides"] = _band()
    return panel


def _table(title: str, says: str, query: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "table",
        "title": title,
        "description": says,
        "datasource": _SOURCE,
        "targets": [query],
        "fieldConfig": {"defaults": {}, "overrides": []},
        "options": {"showHeader": True},
    }


def _panels() -> list[tuple[int, int, dict[str, Any]]]:
    """Each panel with its width and height."""
    one = (
        "value == ${value:singlequote} || value == ''"  # rows of periods without a number stay: the line has gaps there
    )
    return [
        (
            24,
            9,
            _banded(
                _lines(
                    "${metric}",
                    "The value that represents the metric: yes, the mean, or the largest share. The band is its 95 % "
                    "interval. A gap is a period without a number.",
                    _series(_NUMBERS, headline="true", top="1"),
                )
            ),
        ),
        (
            24,
            9,
            _lines(
                "All values of ${metric}",
                f"At most {_MOST}, the largest over all periods. The panels below have their intervals.",
                _series({"value": _TEXT, _VALUE: _NUMBER}, "value != ''", top=str(_MOST)),
                transformations=[
                    {
                        "id": "partitionByValues",
                        "options": {"fields": ["value"], "keepFields": False, "naming": {"asLabels": True}},
                    }
                ],
            ),
        ),
        (
            8,
            7,
            _banded(
                _lines(
                    "${value}",
                    "One value with its 95 % interval.",
                    _series({"value": _TEXT, **_NUMBERS}, one),
                    repeat="value",
                    repeatDirection="h",
                    maxPerRow=3,
                )
            ),
        ),
        (
            12,
            8,
            _table(
                "Over all periods",
                "Each value from all released periods together: the most exact number there is.",
                _query(
                    "/v1/metrics/${metric}/estimate?format=csv&top=50",
                    {"value": _TEXT, **_NUMBERS, "reports": _NUMBER, "from": _TIME, "to": _TIME},
                ),
            ),
        ),
        (
            6,
            8,
            _table(
                "Periods without a number",
                "Open: reports may still come. Discarded: too few devices reported. Not released: nothing came.",
                _series({"state": _TEXT}, "state != 'released'"),
            ),
        ),
        (
            6,
            8,
            _table(
                "What it cost each device",
                "Epsilon of everything released, if shuffler and aggregator do not collude, and if they do.",
                _query(
                    "/v1/privacy?format=csv",
                    {"covers": _TEXT, "name": _TEXT, "epsilon": _NUMBER, "collusion_epsilon": _NUMBER},
                    "covers == 'total' || covers == 'metric'",
                ),
            ),
        ),
    ]


def _variable(name: str, label: str, query: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A drop-down list that is filled from the aggregator."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"queryType": "infinity", "refId": name, "infinityQuery": {**query, "refId": name}},
        "refresh": 1,
        **more,
    }


def main() -> str:
    panels, column, row, height = [], 0, 0, 0
    for number, (width, tall, panel) in enumerate(_panels()):
        if column + width > 24:
            column, row = 0, row + height
        height = tall
        panels.append({"id": number + 1, "gridPos": {"x": column, "y": row, "w": width, "h": tall}, **panel})
        column += width
    document = {
        "uid": "hubbub-estimates",
        "title": "Hubbub: estimates",
        "description": "Estimates of one metric with their intervals, as the aggregator publishes them.",
        "tags": ["hubbub"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "5m",
        "time": {"from": "now-90d", "to": "now"},
        "timezone": "utc",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Aggregator",
                    "type": "datasource",
                    "query": "yesoreyeram-infinity-datasource",
                },
                _variable("metric", "Metric", _query("/v1/metrics?format=csv", {"metric": _TEXT})),
                _variable(
                    "value",
                    "Values",
                    _query("/v1/metrics/${metric}/estimate?format=csv&top=" + str(_MOST), {"value": _TEXT}),
                    multi=True,
                    includeAll=True,
                    current={"text": ["All"], "value": ["$__all"]},
                ),
            ]
        },
        "panels": panels,
    }
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    PATH.write_text(main())
