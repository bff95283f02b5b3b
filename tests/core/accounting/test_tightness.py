"""Tightness: certified values against lower bounds, other analyses and the reference numbers."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hubbub.accounting import AnyRandomizer, CloneRandomizer, delta_at, guarantee
from hubbub.accounting.guarantee import Randomizer
from hubbub.mechanisms import (
    BinaryRandomizedResponse,
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    KaryRandomizedResponse,
)
from scripts import make_looseness_table as looseness
from tests.core.accounting.oracles import BlanketOnly, krr_delta, laplace_delta

DELTA = 1e-6
ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vectors.json").read_text())["rows"]
UNIT_INTERVAL = Bounds(Fraction(0), Fraction(1))


def _rows(column: str) -> list[Any]:
    return [pytest.param(row, id=f"{row['n']}-{row['eps0']}") for row in ROWS if column in row]


def _epsilon(mechanism: Randomizer, row: dict[str, Any]) -> float:
    return guarantee(mechanism, row["n"], DELTA).epsilon


@pytest.mark.everyday
@pytest.mark.parametrize("reports", [10**4, 10**5, 10**6, 10**7])
@pytest.mark.parametrize("epsilon0", [0.5, 1, 2, 4])
def test_ten_valued_rr_is_within_a_thousandth_of_what_a_data_set_shows(epsilon0: float, reports: int) -> None:
    mechanism = KaryRandomizedResponse.calibrate(epsilon0, Categories(10))

    epsilon = guarantee(mechanism, reports, DELTA).epsilon

    assert krr_delta(10, mechanism.realised_epsilon, reports, epsilon) <= DELTA * (1 + 1e-9)
    assert krr_delta(10, mechanism.realised_epsilon, reports, epsilon * 0.999) > DELTA


@pytest.mark.parametrize("row", _rows("blanket_kRR10_ub"))
def test_krr_is_at_the_reference_blanket(row: dict[str, Any]) -> None:
    for size, column in ((10, "blanket_kRR10_ub"), (100, "blanket_kRR100_ub")):
        mechanism = KaryRandomizedResponse.calibrate(row["eps0"], Categories(size))
        assert _epsilon(mechanism, row) <= row[column] * 1.001


@pytest.mark.parametrize("row", _rows("blanket_Laplace_ub"))
def test_laplace_is_at_the_reference_blanket_of_continuous_noise(row: dict[str, Any]) -> None:
    mechanism = DiscreteLaplaceMean.calibrate(row["eps0"], UNIT_INTERVAL)
    assert _epsilon(mechanism, row) <= row["blanket_Laplace_ub"] * 1.001


@pytest.mark.parametrize(
    "row", [p for p in _rows("vr_Laplace") if p.values[0]["eps0"] == 4 and p.values[0]["n"] >= 1000]
)
def test_laplace_is_a_tenth_below_variation_ratio_at_epsilon_four(row: dict[str, Any]) -> None:
    mechanism = DiscreteLaplaceMean.calibrate(4, UNIT_INTERVAL)
    assert _epsilon(mechanism, row) <= row["vr_Laplace"] * 0.9


@pytest.mark.parametrize("row", [p for p in _rows("vr_Laplace") if (p.values[0]["eps0"], p.values[0]["n"]) == (4, 100)])
def test_no_bound_can_be_a_tenth_below_variation_ratio_for_a_hundred_laplace_reports(row: dict[str, Any]) -> None:
    """All 99 others at 0, the victim at 0 or 1: that data set alone loses more than delta there."""
    mechanism = DiscreteLaplaceMean.calibrate(4, UNIT_INTERVAL)
    shown = laplace_delta(mechanism.steps, 4.0, 100, 0.9 * row["vr_Laplace"])
    assert shown > 4e-6  # four times delta
    assert shown <= delta_at(mechanism, 100, 0.9 * row["vr_Laplace"])


@pytest.mark.everyday
@pytest.mark.parametrize("row", _rows("fmt22_stronger_clone_own"))
def test_binary_rr_is_at_or_below_the_stronger_clone(row: dict[str, Any]) -> None:
    exact = _epsilon(BinaryRandomizedResponse.calibrate(row["eps0"], Categories(2)), row)
    blanket = _epsilon(BlanketOnly(row["eps0"]), row)
    assert blanket <= row["fmt22_stronger_clone_own"] * 1.001
    assert exact <= blanket * (1 + 1e-5)
    if row["n"] >= 1000 and row["eps0"] <= 4:
        assert exact <= 0.95 * blanket


@pytest.mark.everyday
@pytest.mark.parametrize("row", _rows("fmt21_clone_own"))
def test_any_randomizer_is_at_the_stronger_clones_and_below_the_published_ones(row: dict[str, Any]) -> None:
    extremal, clones = _epsilon(AnyRandomizer(row["eps0"]), row), _epsilon(CloneRandomizer(row["eps0"]), row)
    assert math.isclose(extremal, row["fmt22_stronger_clone_own"], rel_tol=1e-3)
    assert math.isclose(clones, row["fmt21_clone_own"], rel_tol=1e-3)
    assert extremal <= clones * (1 + 2e-6)
    if row["n"] >= 10_000 and 0.5 <= row["eps0"] <= 4:
        assert 1.12 <= clones / extremal <= 1.47


def test_what_is_left_is_as_the_page_says() -> None:
    page = looseness.PAGE.read_text()
    for kind in ("`sue`, 4 values", "`linear-hash`, 4 values"):
        assert looseness.row(kind) in page, "python -m scripts.make_looseness_table"


@pytest.mark.full
def test_the_whole_table_of_what_is_left_is_as_the_page_says() -> None:
    assert looseness.table() in looseness.PAGE.read_text(), "python -m scripts.make_looseness_table"


def test_no_data_set_with_all_others_alike_is_above_what_is_certified() -> None:
    for kind, epsilon in (("`table`, but on 8 steps", 1), ("`sue`, 4 values", 2), ("`oue`, 4 values", 4)):
        assert looseness.ratio(kind, epsilon, 10_000, 1e-6) >= 1 - 2e-6
