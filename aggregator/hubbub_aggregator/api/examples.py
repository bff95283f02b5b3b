"""One answer of each kind, as the OpenAPI document shows it. A test reads each back through its model."""

from __future__ import annotations

from typing import Any

from hubbub_aggregator.analysis.answer_guarantee import ASSUMPTIONS
from hubbub_aggregator.intake.batch_record import UNIT

__all__ = [
    "COMPARISON",
    "CURVE",
    "DISTRIBUTION",
    "ESTIMATE",
    "LEDGER",
    "METRICS",
    "RELEASE",
    "RELEASES",
    "SERIES",
    "STATUS",
    "TRADEOFF",
    "VERDICT",
]

_ID = "355fb28aadc93afc563ad3b9bf86182a"
_BATCH = "9f2c1e0b7a5d4c3f8e6b2a1d0c9f8e7d"
_SHAPED = {
    "shape": "shares",
    "measure": "share",
    "unit": None,
    "order": "listed",
    "headline": {"label": "yes", "name": "yes"},
    "axes": [],
    "postprocessing": ["none", "norm_sub", "base_cut", "clip"],
}
_MECHANISM = {"name": "rr", "epsilon": 1.0, "parameters": {"keep": "13485676098029928448"}}
_RANGE = {"from": "2027-01-15", "to": "2027-01-16", "length": "1d", "released": 1}
_LATER = {"from": "2027-01-16", "to": "2027-01-17", "length": "1d", "released": 1}
_OF_PERIOD = {
    "period": "2027-01-15",
    "epsilon": 0.113,
    "delta": 1e-8,
    "honest_reports": 26998,
    "method": "exact",
}
_COLLUSION = {"epsilon": 1.0, "delta": 0.0}
_PRIVACY: dict[str, Any] = {
    "unit": UNIT,
    "local_epsilon": 1.0,
    "epsilon": 0.113,
    "delta": 1e-8,
    "honest_reports": 26998,
    "method": "exact",
    "per_period": [_OF_PERIOD],
    "if_collusion": _COLLUSION,
    "assumptions": ASSUMPTIONS,
    "note": None,
}
_BOTH = _PRIVACY | {
    "unit": "one device's reports to this metric in these 2 periods",
    "local_epsilon": 2.0,
    "epsilon": 0.158,
    "delta": 2e-8,
    "method": "composed: loss-distribution",
    "per_period": [_OF_PERIOD, _OF_PERIOD | {"period": "2027-01-16"}],
    "if_collusion": {"epsilon": 2.0, "delta": 0.0},
}
_INTERVAL = {
    "kind": "devices that reported, score",
    "confidence": 0.95,
    "simultaneous": True,
    "together": 1,
    "selection": None,
}


def _share(value: bool, estimate: float) -> dict[str, Any]:
    return {
        "value": value,
        "label": str(value).lower(),
        "estimate": estimate,
        "stderr": 0.0055,
        "low": round(estimate - 0.0108, 4),
        "high": round(estimate + 0.0108, 4),
        "shown": {"value": estimate, "low": round(estimate - 0.0108, 4), "high": round(estimate + 0.0108, 4)},
        "total": round(estimate * 30000, 1),
        "total_low": round((estimate - 0.0108) * 30000, 1),
        "total_high": round((estimate + 0.0108) * 30000, 1),
    }


def _change(value: bool, a: float, b: float) -> dict[str, Any]:
    return {
        "value": value,
        "label": str(value).lower(),
        "a": a,
        "b": b,
        "difference": round(b - a, 4),
        "stderr": 0.0078,
        "low": round(b - a - 0.0153, 4),
        "high": round(b - a + 0.0153, 4),
        "shown": {
            "a": a,
            "b": b,
            "value": round(b - a, 4),
            "low": round(b - a - 0.0153, 4),
            "high": round(b - a + 0.0153, 4),
        },
        "p_value": 0.0001,
        "adjusted_p_value": 0.0001,
    }


def _entry(name: str, releases: int = 1) -> dict[str, Any]:
    return {
        "name": name,
        "epsilon": 0.113 if releases == 1 else 0.158,
        "delta": releases * 1e-8,
        "method": "the release's own" if releases == 1 else "composed: loss-distribution",
        "releases": releases,
        "honest_reports": 26998,
        "if_collusion": {"epsilon": float(releases), "delta": 0.0},
    }


ESTIMATE = {
    "metric": "dark_mode",
    "population": "reports",
    "complete": True,
    "segments": [
        {
            **_SHAPED,
            "metric_id": _ID,
            "type": "boolean",
            "mechanism": _MECHANISM,
            "reports": 30000,
            "periods": _RANGE,
            "complete": True,
            "interval": _INTERVAL,
            "postprocess": "none",
            "value_count": 2,
            "values": [_share(False, 0.6982), _share(True, 0.3018)],
            "privacy": _PRIVACY,
            "manipulation": {"per_thousand_fakes": 0.00216},
        }
    ],
    "privacy": _PRIVACY,
}
SERIES = {
    "metric": "dark_mode",
    "population": "reports",
    "periods": _RANGE | {"to": "2027-01-17"},
    "complete": False,
    "postprocess": "none",
    "segments": [
        {
            **_SHAPED,
            "metric_id": _ID,
            "type": "boolean",
            "mechanism": _MECHANISM,
            "value_count": 2,
            "released": 1,
            "manipulation": {"per_thousand_fakes": 0.00216},
        }
    ],
    "points": [
        {
            "period": "2027-01-15",
            "state": "released",
            "complete": True,
            "metric_id": _ID,
            "reports": 30000,
            "interval": _INTERVAL,
            "values": [_share(False, 0.6982), _share(True, 0.3018)],
            "privacy": _OF_PERIOD,
        },
        {
            "period": "2027-01-16",
            "state": "open",
            "complete": False,
            "metric_id": None,
            "reports": None,
            "interval": None,
            "values": [],
            "privacy": None,
        },
    ],
    "privacy": _PRIVACY,
}
COMPARISON = {
    **_SHAPED,
    "metric": "dark_mode",
    "type": "boolean",
    "estimand": "the devices that reported in b against those that reported in a: noise is the only randomness",
    "complete": True,
    "a": {"metric_id": _ID, "mechanism": _MECHANISM, "reports": 30000, "periods": _RANGE, "complete": True},
    "b": {"metric_id": _ID, "mechanism": _MECHANISM, "reports": 30000, "periods": _LATER, "complete": True},
    "interval": _INTERVAL | {"kind": "difference, MOVER of (devices that reported, score)"},
    "correction": "none needed: there is one free value",
    "value_count": 2,
    "values": [_change(False, 0.6982, 0.6676), _change(True, 0.3018, 0.3324)],
    "privacy": _BOTH,
    "manipulation": {"per_thousand_fakes": 0.00433},
}
METRICS = {
    "collection": "photo-app",
    "period": "1d",
    "metrics": [
        {
            "name": "dark_mode",
            "description": "Whether the dark theme is on",
            "in_force": True,
            "versions": [
                {
                    **_SHAPED,
                    "id": _ID,
                    "type": "boolean",
                    "mechanism": _MECHANISM,
                    "value_count": 2,
                    "bounds": None,
                    "inputs": 2,
                    "min_batch": 1250,
                    "enabled": True,
                    "released_periods": 2,
                    "first": "2027-01-15",
                    "last": "2027-01-16",
                }
            ],
        }
    ],
}
RELEASE = {
    "id": _BATCH,
    "scope": {"collection": "photo-app", "type": "boolean", "reduce": "first"},
    "metric": "dark_mode",
    "metric_id": _ID,
    "period": {"index": 20833, "label": "2027-01-15", "from": "2027-01-15", "to": "2027-01-16"},
    "unit": UNIT,
    "adjacency": "replacement",
    "mechanism": _MECHANISM,
    "local_epsilon": 1.0,
    "epsilon": 0.113,
    "delta": 1e-8,
    "honest_reports": 26998,
    "honest_reports_pessimistic": 26998,
    "honest_fraction": "0.9",
    "share_credit": None,
    "part": None,
    "method": "exact",
    "reports": 30000,
    "valid": 29998,
    "invalid": {"duplicate": 2},
    "software": "hubbub 0.1.0",
}
RELEASES = {"releases": [RELEASE], "next": f"20833-{_BATCH}"}
LEDGER = {
    "collection": "photo-app",
    "unit": "one device's reports to everything that an entry covers",
    "periods": _RANGE | {"to": "2027-01-17", "released": 2},
    "opened_and_refused": 0,
    "total": _entry("everything", 2),
    "per_metric": [_entry("dark_mode", 2)],
    "per_period": [_entry("2027-01-15"), _entry("2027-01-16")],
    "over_time": [_entry("2027-01-15"), _entry("2027-01-16", 2)],
    "assumptions": ASSUMPTIONS,
    "note": None,
}
CURVE = {
    "collection": "photo-app",
    "metric": None,
    "unit": "one device's reports to everything that an entry covers",
    "group": 3,
    "releases": 2,
    "epsilon": 0.566,
    "delta": 1e-6,
    "local_epsilon": 6.0,
    "points": [{"epsilon": 0.0, "delta": 0.12}, {"epsilon": 0.3, "delta": 0.004}],
    "errors": [{"false_alarm": 0.05, "least_miss": 0.86}, {"false_alarm": 0.5, "least_miss": 0.38}],
    "assumptions": ASSUMPTIONS,
    "note": None,
}
TRADEOFF = {
    "metric": "dark_mode",
    "metric_id": _ID,
    "reports": 30000,
    "honest_reports": 27000,
    "epsilon": 0.5,
    "delta": 1e-8,
    "local_epsilon": 1.0,
    "standard_error": 0.0055,
    "cap": None,
    "central_gaussian": 0.00033,
    "points": [
        {"local_epsilon": 1.0, "mechanism": "rr", "standard_error": 0.0055, "local_bound": 0.0055},
        {"local_epsilon": 5.3, "mechanism": "rr", "standard_error": 0.00041, "local_bound": 0.00041},
    ],
    "sides": ["To the left is what remains if shuffler and aggregator collude.", "To the right is accuracy."],
}
VERDICT = {
    "id": _BATCH,
    "kind": "batch",
    "state": "accepted",
    "reason": None,
    "metric_id": _ID,
    "period": 20833,
    "count": 30000,
    "valid": 29998,
    "invalid": {"duplicate": 2},
}
STATUS = {
    "batches": {"pending": 0, "accepted": 2, "refused": 0},
    "discards": 1,
    "refused_batches": {},
    "invalid_reports": {"duplicate": 2},
    "refused_requests": {"not-found": 1},
    "keys": [
        {
            "id": 7,
            "first_period": "2027-01-15",
            "last_period": "2027-01-15",
            "state": "active",
            "age_seconds": 3600,
        }
    ],
    "codebooks": [{"id": "0b" * 16, "first_period": "2027-01-15"}],
    "trust_anchor": "ed25519:" + "0a" * 32,
    "bundle_sequence": 1800000000,
    "software": "hubbub 0.1.0",
    "last_batch_seconds": 12,
    "last_release": "2027-01-16",
    "storage_errors": 0,
    "storage": {"kind": "sqlite", "bytes": 1_048_576},
    "discarded": [{"metric": "theme", "period": "2027-01-14", "reason": "too-few"}],
    "warnings": [],
    "single_operator": False,
    "shuffler_address": "https://reports.example.com",
    "time": "2027-01-17T08:00:00Z",
}

DISTRIBUTION: dict[str, Any] = {
    "metric": "startup",
    "population": "reports",
    "complete": True,
    "segments": [
        {
            "metric_id": _ID,
            "type": "binned",
            "mechanism": "any",
            "reports": 30002,
            "periods": _RANGE,
            "complete": True,
            "unit": "ms",
            "scale": "linear",
            "edges": [0.0, 400.0, 800.0, 1200.0],
            "whole_numbers": False,
            "confidence": 0.95,
            "kind": "devices that reported, normal",
            "quantiles_together": 1,
            "ranges_together": 1,
            "below": [
                {"edge": 400.0, "estimate": 0.31, "low": 0.29, "high": 0.33, "band_low": 0.287, "band_high": 0.333},
                {"edge": 800.0, "estimate": 0.84, "low": 0.82, "high": 0.86, "band_low": 0.817, "band_high": 0.863},
            ],
            "quantiles": [
                {
                    "q": 0.5,
                    "estimate": 543.4,
                    "low": 400.0,
                    "high": 800.0,
                    "words": "half of the devices are below 400 to 800 ms",
                }
            ],
            "ranges": [{"lower": 400.0, "upper": 800.0, "estimate": 0.53, "low": 0.51, "high": 0.55, "is_exact": True}],
            "mean": {"estimate": 540.0, "low": 331.0, "high": 749.0},
            "total": {"estimate": 16201080.0, "low": 9930662.0, "high": 22471498.0},
            "deviation": {"estimate": 266.0, "low": 60.0, "high": 470.0},
            "first_bin": {"estimate": 0.31, "low": 0.29, "high": 0.33},
            "last_bin": {"estimate": 0.16, "low": 0.14, "high": 0.18},
            "hint": None,
            "manipulation": {"per_thousand_fakes": 0.0021},
        }
    ],
    "shifts": None,
    "privacy": _PRIVACY,
}
