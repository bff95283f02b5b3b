"""Rows as devices: each reports what the SDK makes of it, and who takes part is drawn as documented."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hubbub.codebook import Codebook, Metric
from hubbub.errors import InvalidParameter
from hubbub.simulation import Column, Crowd, InsecureBulkRandomness, Scores, Trial, run
from hubbub_cli.simulator.csv_data import Data
from hubbub_cli.simulator.full_path_trials import everyone
from hubbub_client.testing import Device

TEXT = """
[collection]
name = "crowd"
period = "1d"
device_epsilon = 20
release = { epsilon = 1, delta = 1e-6 }
[metrics.flag]
type = "boolean"
epsilon = 1
[metrics.defaulted]
type = "boolean"
epsilon = 1
missing = false
[metrics.closed]
type = "category"
values = ["a", "b", "c"]
epsilon = 2
[metrics.open]
type = "category"
values = ["a", "b", "other"]
other = "other"
missing = "b"
epsilon = 2
[metrics.load]
type = "mean"
bounds = [-1, 3]
epsilon = 2
[metrics.typical]
type = "mean"
bounds = [0, 10]
missing = 4
epsilon = 2
[metrics.few]
type = "boolean"
epsilon = 1
share = 0.25
"""
BOOK = Codebook.from_toml(TEXT)
CASES: dict[str, list[object]] = {
    "flag": [True, False, None, True],
    "defaulted": [True, None, False],
    "closed": ["a", "b", None, "unknown", "c", "a"],
    "open": ["a", None, "unknown", "other"],
    "load": [0.5, -7.0, 99, math.inf, None, math.nan, 3],
    "typical": [None, 11.0, math.nan, 2],
}


def metric(name: str) -> Metric:
    return BOOK.metric(name)


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_reported_exactly_as_a_device_would(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value is recorded by a real client; what reaches its randomizer is what the simulation takes."""
    told: list[object] = []
    randomize = type(metric(name).mechanism).randomize

    def spy(self: object, value: object, rng: object) -> object:
        told.append(value)
        return randomize(self, value, rng)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(type(metric(name).mechanism), "randomize", spy)
    column = Column.of(metric(name), CASES[name])
    refused = 0
    for row, value in enumerate(CASES[name]):
        told.clear()
        with Device(BOOK, tmp_path / str(row), strict=False, max_epsilon=100) as device:
            if value is not None:
                refused += device.client.record(name, value).name == "INVALID"
            device.next_period()
            sent = device.reports_sent(name)
        mine = column.places[row]
        assert len(sent) == (mine >= 0)
        if mine >= 0:
            assert float(column.inputs[mine]) in [float(v) for v in told]  # type: ignore[arg-type]  # ints and fractions
    assert refused == column.refused


def test_what_is_clamped_and_what_is_refused_is_counted() -> None:
    column = Column.of(metric("load"), CASES["load"])
    assert (column.clamped, column.refused, int((column.places < 0).sum())) == (3, 1, 2)
    assert Column.of(metric("closed"), CASES["closed"]).refused == 1
    assert Column.of(metric("open"), CASES["open"]).refused == 0


def test_the_full_path_hands_devices_only_what_they_would_keep() -> None:
    data = Data({"closed": CASES["closed"]}, [])
    weights = np.array([1, 0, 1, 2, 0, 1])
    assert everyone(metric("closed"), data, weights) == ["a", None, None, None, "a"]


def test_the_truth_is_that_of_the_devices_that_report() -> None:
    column = Column.of(metric("closed"), CASES["closed"])
    held = column.held(np.ones(6, np.int64))
    assert column.truth(held).tolist() == [0.5, 0.25, 0.25]
    column = Column.of(metric("load"), [0.5, -7.0, None])
    assert column.truth(column.held(np.array([3, 1, 5]))).tolist() == [(3 * 0.5 - 1) / 4]


def test_everyone_takes_part_unless_a_number_is_given() -> None:
    crowd = Crowd([Column.of(metric("flag"), [True, False, True])])
    rng = InsecureBulkRandomness(1)
    assert crowd.draw(None, rng).tolist() == crowd.draw(3, rng).tolist() == [1, 1, 1]


def test_fewer_devices_are_different_rows_each_as_likely_as_any() -> None:
    crowd, rng = Crowd([Column.of(metric("flag"), [True] * 10)]), InsecureBulkRandomness(1)
    drawn = np.array([crowd.draw(4, rng) for _ in range(5_000)])
    assert set(np.unique(drawn)) == {0, 1}
    assert (drawn.sum(axis=1) == 4).all()
    # of 5,000 draws with chance 0.4 each row: 5.5 deviations, ten rows, below 1e-6 in all
    assert (np.abs(drawn.sum(axis=0) - 2_000) < 5.5 * math.sqrt(5_000 * 0.24)).all()


def test_more_devices_draw_their_rows_anew() -> None:
    crowd, rng = Crowd([Column.of(metric("flag"), [True] * 4)]), InsecureBulkRandomness(1)
    drawn = crowd.draw(1_000_000, rng)
    assert drawn.sum() == 1_000_000
    assert (drawn != 250_000).any()
    assert (np.abs(drawn - 250_000) < 5.5 * math.sqrt(187_500)).all()
    weighted = crowd.draw(1_000_000, rng, [0, 1, 0, 3])
    assert weighted[[0, 2]].tolist() == [0, 0]
    assert abs(weighted[1] - 250_000) < 5.5 * math.sqrt(187_500)


def test_a_share_of_the_devices_reports() -> None:
    column = Column.of(metric("few"), [True, False])
    found = run(column, column.held([600_000, 200_000]), InsecureBulkRandomness(3))
    assert abs(found.reports - 200_000) < 5.5 * math.sqrt(800_000 * 0.1875)
    assert 0 < abs(found.truth[1] - 0.75) < 5.5 * math.sqrt(0.1875 / 200_000)


def test_a_column_without_anything_to_report_says_what_to_do() -> None:
    column = Column.of(metric("flag"), [None, None])
    with pytest.raises(InvalidParameter, match="missing"):
        run(column, column.held([1, 1]), InsecureBulkRandomness(1))
    with pytest.raises(InvalidParameter, match="at least one row"):
        Crowd([Column.of(metric("flag"), [])])
    with pytest.raises(InvalidParameter, match="at least 1"):
        Crowd([column]).draw(0, InsecureBulkRandomness(1))


def test_error_recall_and_coverage_are_what_they_say() -> None:
    def trial(estimate: list[float], half: float) -> Trial:
        found = np.array(estimate)
        return Trial(10, np.array([0.5, 0.3, 0.2]), found, np.full(3, 0.1), found - half, found + half)

    wide = BOOK.metric("closed")
    scores = Scores(wide, top=2)
    scores.add(trial([0.5, 0.3, 0.2], 0.05))
    scores.add(trial([0.1, 0.4, 0.5], 0.15))
    assert scores.asked_top == 1
    assert scores.coverage == 4 / 6
    assert scores.recall == 0.5
    assert scores.largest == pytest.approx(0.4)
    assert scores.rms == pytest.approx(math.sqrt((0.16 + 0.01 + 0.09) / 6))
    assert scores.stated == pytest.approx(0.1)
    assert scores.first is not None
    assert scores.first.estimate.tolist() == [0.5, 0.3, 0.2]
    assert Scores(BOOK.metric("flag")).asked_top == Scores(BOOK.metric("load")).asked_top == 0


def test_values_that_tie_for_the_last_place_are_all_right() -> None:
    scores = Scores(Codebook.from_toml(TEXT.replace('["a", "b", "c"]', '["a", "b", "c", "d"]')).metric("closed"), top=2)
    truth, found = np.array([0.4, 0.2, 0.2, 0.2]), np.array([0.4, 0.1, 0.2, 0.3])
    scores.add(Trial(10, truth, found, found, found, found))
    assert scores.recall == 1.0
