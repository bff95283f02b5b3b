"""Write deploy/grafana/hubbub.json: one dashboard for the operator of either service, or of both.

    python -m scripts.make_grafana_dashboard

It has every metric of both services; a test compares it with what they expose.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["PATH", "main"]

PATH = Path(__file__).parent.parent / "deploy" / "grafana" / "hubbub.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _HEIGHT = 24, 7


@dataclass(frozen=True)
class Panel:
    """A panel with its description. `shown`: each query and the legend of its lines."""

    title: str
    says: str
    shown: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    bad_below: float | None = None
    bad_above: float | None = None


def _state(title: str, says: str, expression: str, **limits: Any) -> Panel:
    return Panel(title, says, [(expression, "{{instance}}")], kind="stat", width=3, **limits)


SHUFFLER = [
    _state("Up", "Whether it can be scraped.", 'up{job="hubbub-shuffler"}', bad_below=1),
    _state("Bundle", "1: there is a valid one.", "hubbub_shuffler_bundle_valid", bad_below=1),
    _state(
        "Bundle expires in",
        "After that, devices cannot report.",
        "hubbub_shuffler_bundle_expires_seconds",
        unit="s",
        bad_below=172_800,
    ),
    _state("Storage answers", "1: it does.", "hubbub_shuffler_storage_up", bad_below=1),
    _state("Storage writable", "0: full, or read-only.", "hubbub_shuffler_storage_writable", bad_below=1),
    _state("Storage durable", "0: a crash loses reports.", "hubbub_shuffler_storage_durable", bad_below=1),
    _state("Clock skew", "Against the aggregator.", "abs(hubbub_shuffler_clock_skew_seconds)", unit="s", bad_above=300),
    _state("Ingest stopped", "1: the storage is full up to its mark.", "hubbub_shuffler_ingest_stopped", bad_above=1),
    _state(
        "Forward lag",
        "Age of the oldest bucket that is due or closed and has no verdict.",
        "hubbub_shuffler_forward_lag_seconds",
        unit="s",
        bad_above=3_600,
    ),
    Panel(
        "Reports taken",
        "Per second. The counter moves in hundreds, so that small crowds cannot be counted.",
        [("sum by (instance) (rate(hubbub_shuffler_accepted_reports_total[30m]))", "{{instance}}")],
        unit="cps",
    ),
    Panel(
        "Refused",
        "Uploads and reports per second, by reason.",
        [("sum by (reason) (rate(hubbub_shuffler_refused_total[10m])) > 0", "{{reason}}")],
        unit="cps",
    ),
    Panel(
        "Connections",
        "Open connections, and those cut per second, by reason.",
        [
            ("hubbub_shuffler_connections", "open at {{instance}}"),
            ("sum by (reason) (rate(hubbub_shuffler_connections_cut_total[10m])) > 0", "cut: {{reason}}"),
        ],
    ),
    Panel(
        "Waiting buckets",
        "By a rough size of their crowd; never the exact number of reports.",
        [("sum by (crowd) (hubbub_shuffler_waiting_buckets)", "{{crowd}}")],
    ),
    Panel(
        "Batches",
        "Not settled yet, by state.",
        [("max by (state) (hubbub_shuffler_batches)", "{{state}}")],
    ),
    Panel(
        "Batches held",
        "Refused by the aggregator, and kept since the shuffler can't confirm the reason.",
        [
            ("max by (reason) (hubbub_shuffler_held_batches)", "{{reason}}"),
            ("max by (reason) (hubbub_shuffler_held_reports)", "reports: {{reason}}"),
        ],
    ),
    Panel(
        "Outcome of buckets, in a day",
        "Verdicts of the aggregator, buckets discarded for lack of a crowd, crowds that halved.",
        [
            ("sum by (verdict) (increase(hubbub_shuffler_settled_batches_total[1d])) > 0", "{{verdict}}"),
            ("sum by (metric) (increase(hubbub_shuffler_discarded_buckets_total[1d])) > 0", "discarded: {{metric}}"),
            ("sum by (metric) (increase(hubbub_shuffler_crowds_halved_total[1d])) > 0", "halved: {{metric}}"),
        ],
    ),
    Panel(
        "Storage",
        "Used and available: memory of the fullest Redis primary, disk, or the quota.",
        [
            ("hubbub_shuffler_storage_used_bytes", "used at {{instance}}"),
            ("hubbub_shuffler_storage_limit_bytes", "limit at {{instance}}"),
        ],
        unit="bytes",
    ),
    Panel(
        "Faults of the storage",
        "Failed calls per second; buckets that lost reports to damage, and losses of a log, in a day.",
        [
            ("sum by (instance) (rate(hubbub_shuffler_storage_errors_total[10m]))", "errors at {{instance}}"),
            ("sum by (metric) (increase(hubbub_shuffler_damaged_buckets_total[1d])) > 0", "damaged: {{metric}}"),
            ("max(increase(hubbub_shuffler_storage_losses_total[1d]))", "losses"),
        ],
    ),
    Panel(
        "Age of the bundle",
        "At the shuffler, which fetches it again as often as its max_age says.",
        [("hubbub_shuffler_bundle_age_seconds", "{{instance}}")],
        unit="s",
    ),
    Panel(
        "Bundles refused, in an hour",
        "By reason, once per fetch. ChangedPeriod: the bundle would split a crowd.",
        [("sum by (reason) (increase(hubbub_shuffler_refused_bundles_total[1h])) > 0", "{{reason}}")],
    ),
    Panel(
        "Certificate ends in",
        "If the shuffler speaks TLS itself. Renewed files are taken without a restart.",
        [("hubbub_shuffler_tls_certificate_expires_timestamp_seconds - time()", "{{instance}}")],
        unit="s",
    ),
]
AGGREGATOR = [
    _state("Up", "Whether it can be scraped.", 'up{job="hubbub-aggregator"}', bad_below=1),
    _state("Housekeeping", "1: keys and bundle are up to date.", "hubbub_aggregator_housekeeping_ok", bad_below=1),
    _state(
        "Bundle age",
        "Signed again at half of its lifetime.",
        "hubbub_aggregator_bundle_age_seconds",
        unit="s",
        bad_above=432_000,
    ),
    _state("Storage answers", "1: it does.", "hubbub_aggregator_storage_up", bad_below=1),
    _state("Storage writable", "0: full, or read-only.", "hubbub_aggregator_storage_writable", bad_below=1),
    _state("Storage durable", "0: a crash loses batches.", "hubbub_aggregator_storage_durable", bad_below=1),
    _state("Clock skew", "Against a shuffler.", "abs(hubbub_aggregator_clock_skew_seconds)", unit="s", bad_above=300),
    _state("Queue", "Batches that wait to be opened.", "hubbub_aggregator_open_queue", bad_above=100),
    Panel(
        "Batches with a verdict, in a day",
        "From the storage, so every process shows the same.",
        [
            ("max by (verdict) (increase(hubbub_aggregator_batches_total[1d]))", "{{verdict}}"),
            ("max by (reason) (increase(hubbub_aggregator_refused_batches_total[1d])) > 0", "refused: {{reason}}"),
            ("max(increase(hubbub_aggregator_discarded_buckets_total[1d]))", "discarded by the shuffler"),
        ],
    ),
    Panel(
        "Work of each process",
        "Batches given a verdict, and failed attempts, per hour.",
        [
            ("sum by (instance, verdict) (increase(hubbub_aggregator_worked_batches_total[1h])) > 0", "{{verdict}}"),
            ("sum by (instance) (increase(hubbub_aggregator_batch_failures_total[1h]))", "failed at {{instance}}"),
        ],
    ),
    Panel(
        "Reports opened",
        "Per second, by result.",
        [("sum by (result) (rate(hubbub_aggregator_opened_reports_total[1h]))", "{{result}}")],
        unit="cps",
    ),
    Panel(
        "Reports that do not count, in a day",
        "By reason.",
        [("max by (reason) (increase(hubbub_aggregator_invalid_reports_total[1d])) > 0", "{{reason}}")],
    ),
    Panel(
        "Requests refused",
        "Per second, by problem; and errors of the storage.",
        [
            ("sum by (problem) (rate(hubbub_aggregator_refused_requests_total[10m])) > 0", "{{problem}}"),
            ("sum(rate(hubbub_aggregator_storage_errors_total[10m]))", "errors of the storage"),
        ],
        unit="cps",
    ),
    Panel(
        "Connections",
        "Open connections, and those cut per second, by reason.",
        [
            ("hubbub_aggregator_connections", "open at {{instance}}"),
            ("sum by (reason) (rate(hubbub_aggregator_connections_cut_total[10m])) > 0", "cut: {{reason}}"),
        ],
    ),
    Panel(
        "Time since the last verdict",
        "For each process. Batches come when periods close, so it rises in between.",
        [("hubbub_aggregator_last_batch_age_seconds", "{{instance}}")],
        unit="s",
    ),
    Panel(
        "Keys",
        "Age since the first period of each key. Future keys are below zero; there must be at least one.",
        [("max by (key, state) (hubbub_aggregator_key_age_seconds)", "key {{key}}, {{state}}")],
        unit="s",
    ),
    Panel(
        "Erasure overdue",
        "Time since a private key should have been erased, which is an hour after its horizon.",
        [("hubbub_aggregator_erasure_overdue_seconds", "{{instance}}")],
        unit="s",
    ),
    Panel(
        "Sequence of the bundle",
        "Rises with each signed bundle, and never falls.",
        [("hubbub_aggregator_bundle_sequence", "{{instance}}")],
    ),
    Panel(
        "Certificate ends in",
        "If the aggregator speaks TLS itself. Renewed files are taken without a restart.",
        [("hubbub_aggregator_tls_certificate_expires_timestamp_seconds - time()", "{{instance}}")],
        unit="s",
    ),
]
PROCESSES = [
    Panel(
        "CPU",
        "Cores in use.",
        [('rate(process_cpu_seconds_total{job=~"hubbub-.*"}[5m])', "{{job}} {{instance}}")],
        width=12,
    ),
    Panel(
        "Memory",
        "Resident.",
        [('process_resident_memory_bytes{job=~"hubbub-.*"}', "{{job}} {{instance}}")],
        unit="bytes",
        width=12,
    ),
]


def main() -> str:
    """The dashboard, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    row = 0
    for title, group in (("Shuffler", SHUFFLER), ("Aggregator", AGGREGATOR), ("Processes", PROCESSES)):
        panels.append({**_placed(len(panels), 0, row, _COLUMNS, 1), "type": "row", "title": title, "collapsed": False})
        row, column, height = row + 1, 0, 0
        for panel in group:
            if column + panel.width > _COLUMNS:
                row, column = row + height, 0
            height = 4 if panel.kind == "stat" else _HEIGHT
            panels.append(_drawn(panel, _placed(len(panels), column, row, panel.width, height)))
            column += panel.width
        row += height
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    document = {
        "uid": "hubbub",
        "title": "Hubbub",
        "description": "Shuffler and aggregator. An operator of only one service sees half of the panels.",
        "tags": ["hubbub"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }
    return json.dumps(document, indent=2) + "\n"


def _placed(number: int, x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {"id": number + 1, "gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _drawn(panel: Panel, placed: dict[str, Any]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_below is not None:
        steps = [{"color": "red", "value": None}, {"color": "green", "value": panel.bad_below}]
    if panel.bad_above is not None:
        steps.append({"color": "red", "value": panel.bad_above})
    return {
        **placed,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for at, (expression, legend) in enumerate(panel.shown)
        ],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
    }


if __name__ == "__main__":
    PATH.write_text(main())
