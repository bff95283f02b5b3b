"""The oracle: it finds lost, doubled, phantom, refused and undersized. Faults come from the seed alone."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import pytest

from tests.faults import oracle
from tests.faults.oracle import Judgement, Receipts, judge
from tests.faults.plan import KEY, SMALL, Plan
from tests.faults.runs import strikes

PLAN = Plan("sqlite", least=3)
PERIOD = 100


def receipts(acknowledged: int, *, refused: int = 0, unsure: int = 0) -> Receipts:
    found = Receipts(PLAN)
    for value in found.take(KEY, PERIOD, acknowledged):
        found.acknowledged(KEY, PERIOD, value)
    for value in found.take(KEY, PERIOD, refused):
        found.refused(KEY, PERIOD, value)
    found.take(KEY, PERIOD, unsure)
    return found


def judged(
    monkeypatch: pytest.MonkeyPatch, told: Receipts, counts: dict[int, int] | None, *released: tuple[str, int]
) -> Judgement:
    """What the oracle says if an aggregator answers this."""

    def releases(_address: str) -> list[dict[str, Any]]:
        return [{"metric": name, "valid": n, "reports": n, "period": {"label": "then"}} for name, n in released]

    monkeypatch.setattr(oracle, "releases", releases)
    monkeypatch.setattr(oracle, "_counts", lambda *_: None if counts is None else Counter(counts))
    return judge(PLAN, told, "nowhere")


def faults(found: Judgement) -> dict[str, int]:
    return {name: number for name in Judgement.BAD if (number := getattr(found, name))}


def test_what_is_counted_once_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, receipts(4, unsure=2), {0: 1, 1: 1, 2: 1, 3: 1, 5: 1}, (KEY, 5))
    assert found.holds
    assert (found.acknowledged, found.counted, found.unsure, found.unsure_counted) == (4, 4, 2, 1)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({0: 1, 1: 1, 2: 1}, {"lost": 1}),
        ({0: 1, 1: 1, 2: 1, 3: 2}, {"doubled": 1}),
        ({0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, {"counted_though_refused": 1}),
        ({0: 1, 1: 1, 2: 1, 3: 1, 9: 1}, {"phantom": 1}),
        (None, {"lost": 4}),
    ],
)
def test_a_wrong_count_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, counts: dict[int, int] | None, expected: dict[str, int]
) -> None:
    found = judged(monkeypatch, receipts(4, refused=1), counts)
    assert faults(found) == expected
    assert not found.holds


def test_a_crowd_below_its_minimum_may_be_discarded_and_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    assert faults(judged(monkeypatch, receipts(2), None)) == {}
    assert faults(judged(monkeypatch, receipts(2), {0: 1, 1: 1}, (KEY, 2))) == {"undersized": 1}
    released = judged(monkeypatch, receipts(0), None, (SMALL, PLAN.least_small))
    assert faults(released) == {"small_released": 1}


def test_the_faults_of_a_run_come_from_its_seed() -> None:
    first, again, other = (list(islice(strikes(seed), 50)) for seed in (7, 7, 8))
    assert first == again != other
    assert {strike.target for strike in first} == {"shuffler", "aggregator", "both"}
