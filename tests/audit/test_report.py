"""The audit report as a file: everything that is needed to judge it, and nothing to load from elsewhere."""

from __future__ import annotations

import json
import math
import re

import hubbub
from hubbub_audit.findings import Finding, judged
from hubbub_audit.plan import Audit
from hubbub_audit.report import Run, document, html, short

RUN = Run(at=1_767_614_400.0, seconds=12.34, trials=5_000, subject="krr")
HOLDS = Finding("local", "krr <b>", "best set", "at most 1", 1.0, 0.9, "holds", "proves 90%", 10_000, 2, "inputs 0, 1")
BEATEN = Finding("exact", "rr", "all outcomes", "at most 1", 1.0, math.inf, "beaten", "certain")
WEAK = Finding("shuffle", "rr", "batches", "at most 1", 1.0, 0.0, "weak", "proves 0%")


def test_a_claim_is_beaten_above_it_and_weak_far_below() -> None:
    assert judged(1.01, 1.0, 0.5) == "beaten"
    assert judged(1.0, 1.0, 0.5) == "holds"
    assert judged(0.5, 1.0, 0.5) == "holds"
    assert judged(0.49, 1.0, 0.5) == "weak"


def test_the_page_stands_alone_and_says_what_was_done() -> None:
    page = html(Audit((HOLDS, BEATEN), 2, 5e-7), RUN)
    assert not re.search(r"<script|src=|href=|url\(|@import|https?:", page)
    for text in ("2026-01-05T12:00:00+00:00", hubbub.__version__, "5,000", "1e-06", "no seed", "∞", "inputs 0, 1"):
        assert text in page
    assert "krr &lt;b&gt;" in page
    assert "1 of 2 claims were beaten" in page


def test_the_page_does_not_call_a_weak_audit_a_success() -> None:
    assert "too weak" in html(Audit((HOLDS, WEAK), 2, 5e-7), RUN)
    assert "All 1 claims hold" in html(Audit((HOLDS,), 2, 5e-7), RUN)


def test_the_document_is_json_with_the_false_alarm_rate() -> None:
    found = json.loads(json.dumps(document(Audit((HOLDS, BEATEN), 2, 5e-7), RUN), allow_nan=False))
    assert found["verdict"] == "beaten"
    assert found["false_alarm_rate"] == 1e-6
    assert found["seed"] is None
    assert found["findings"][1]["observed"] is None
    assert found["findings"][0]["claim"] == "at most 1"


def test_numbers_are_short() -> None:
    assert [short(x) for x in (math.inf, 0.0, 1.0, 1.23456, 2.2e-17)] == ["∞", "0", "1", "1.235", "2.2e-17"]
