"""Mean mechanisms on a grid: exact in integers, as good as claimed, and refused when tampered with."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import (
    Bounds,
    DiscreteLaplaceMean,
    GridMean,
    HybridMean,
    PiecewiseMean,
    TableMean,
    mechanism,
)
from hubbub.simulation import InsecureBulkRandomness

UNIT = Bounds(Fraction(-1), Fraction(1))
ODD = Bounds(Fraction("-40.5"), Fraction("85.25"))
GRIDS: list[type[GridMean]] = [HybridMean, PiecewiseMean, TableMean]
DESIGNS = json.loads(files("hubbub.mechanisms").joinpath("mean_tables.json").read_text())["designs"]
OPTIMUM = {0.5: 16.00, 1: 3.99, 2: 0.863, 4: 0.124}
"""Of the linear programme on 9 inputs and 81 outputs, as `linear_programme` finds it."""


# -- exact -------------------------------------------------------------------------------------------


@given(
    st.sampled_from(GRIDS),
    st.decimals("0.0001", "30", places=4, allow_nan=False),
    st.fractions(min_value=0, max_value=1),
)
@settings(max_examples=30, deadline=None)
def test_the_mean_is_unbiased_in_exact_arithmetic(cls: type[GridMean], epsilon: Any, place: Fraction) -> None:
    built = cls.calibrate(epsilon, ODD)
    totals = {sum(row) for row in built.rows}
    assert len(totals) == 1
    means = [sum(map(lambda w, p: w * p, row, built.places)) / Fraction(sum(row)) for row in built.rows]
    assert means == [Fraction(i, built.steps) for i in range(built.steps + 1)]
    below = min(int(place * built.steps), built.steps - 1)
    share = place * built.steps - below
    assert (1 - share) * means[below] + share * means[below + 1] == place


@pytest.mark.everyday
@pytest.mark.parametrize("cls", GRIDS)
@pytest.mark.parametrize("epsilon", ["0.05", "0.61", "1", "3", "8"])
def test_the_worst_case_is_the_largest_variance_of_any_value(cls: type[GridMean], epsilon: str) -> None:
    built = cls.calibrate(epsilon, UNIT)
    each = [built.variance([x])[0] for x in np.linspace(-1, 1, 4001)]
    assert max(each) == pytest.approx(built.typical_variance(), rel=1e-5)
    assert max(each) <= built.typical_variance() * (1 + 1e-12)


# -- as good as is claimed ---------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.7, 1, 2, 4, 6, 8])
def test_piecewise_and_hybrid_have_the_published_variance_within_two_per_cent(epsilon: float) -> None:
    t, z = math.exp(epsilon / 2), math.exp(epsilon)
    piecewise = 1 / (t - 1) + (t + 3) / (3 * (t - 1) ** 2)
    ends = ((z + 1) / (z - 1)) ** 2
    hybrid = (t + 3) / (3 * t * (t - 1)) + ends / t if epsilon > 0.61 else ends
    assert PiecewiseMean.calibrate(epsilon, UNIT).typical_variance() == pytest.approx(piecewise, rel=0.015)
    assert HybridMean.calibrate(epsilon, UNIT).typical_variance() == pytest.approx(hybrid, rel=0.015)
    inside = PiecewiseMean.calibrate(epsilon, UNIT).variance([0.5])[0]
    assert inside == pytest.approx(0.25 / (t - 1) + (t + 3) / (3 * (t - 1) ** 2), rel=0.04)


def linear_programme(epsilon: float, inputs: int = 9, outputs: int = 81) -> float:
    """Least worst-case variance of any unbiased channel between two grids, no form assumed: P[y, x] <= z low[y]."""
    z = math.exp(epsilon)
    x, reach = np.linspace(-1, 1, inputs), 1.4 * (z + 1) / (z - 1)
    y = np.linspace(-reach, reach, outputs)
    size = inputs * outputs
    above, sums = np.zeros((2 * size, size + outputs + 1)), np.zeros((2 * inputs, size + outputs + 1))
    squares = np.zeros((inputs, size + outputs + 1))
    for j in range(outputs):
        for i in range(inputs):
            k = j * inputs + i
            above[k, [k, size + j]] = 1, -z
            above[size + k, [k, size + j]] = -1, 1
            sums[i, k], sums[inputs + i, k], squares[i, k] = 1, y[j], y[j] ** 2
    squares[:, -1] = -1
    found = linprog(
        np.eye(size + outputs + 1)[-1],
        A_ub=np.vstack([above, squares]),
        b_ub=np.concatenate([np.zeros(2 * size), x**2]),
        A_eq=sums,
        b_eq=np.concatenate([np.ones(inputs), x]),
        bounds=[(0, None)] * (size + outputs) + [(None, None)],
    )
    assert found.fun is not None
    return float(found.fun)


@pytest.mark.parametrize(
    "epsilon", [1, pytest.param(0.5, marks=pytest.mark.full), pytest.param(2, marks=pytest.mark.full), 4]
)
def test_table_is_within_five_per_cent_of_the_linear_programme(epsilon: float) -> None:
    """The programme knows nothing of intervals, mirror images or rounding between grid points."""
    optimum = linear_programme(epsilon)
    assert optimum == pytest.approx(OPTIMUM[epsilon], rel=0.005)
    assert TableMean.calibrate(epsilon, UNIT).typical_variance() <= 1.05 * optimum


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4])
def test_table_is_as_good_on_data(epsilon: float) -> None:
    """n times the squared error over 2000 crowds of 100: a mean of chi-squares, 5 standard deviations are 16 %."""
    table, rng = TableMean.calibrate(epsilon, UNIT), InsecureBulkRandomness(11)
    crowds, devices = 2000, 100
    values = np.random.default_rng(12).uniform(-1, 1, devices)
    reports = table.randomize_many(np.tile(values, crowds), rng).reshape(crowds, devices)
    places = np.array([float(2 * place - 1) for place in table.places])
    errors = places[reports].mean(axis=1) - values.mean()
    measured = devices * (errors**2).mean()
    assert measured <= OPTIMUM[epsilon] * 1.05 * 1.16
    assert measured == pytest.approx(float(table.variance(values)[0]), rel=0.16)


def test_between_the_shipped_epsilons_the_tables_lose_little() -> None:
    """Against the optimum interpolated between neighbours, in logarithms of both."""
    known = [(float(design["epsilon"]), float(design["variance"])) for design in DESIGNS]
    for (first, left), (second, right) in pairwise(known):
        middle = math.sqrt(first * second)
        loss = TableMean.calibrate(f"{middle:.6f}", UNIT).typical_variance() / math.sqrt(left * right)
        assert loss <= (1.01 if second <= 1 else 1.025 if second <= 4 else 1.09 if second <= 10 else 1.25), middle
    for epsilon, optimum in known:
        assert TableMean.calibrate(str(epsilon), UNIT).typical_variance() <= 1.003 * optimum


def test_table_is_the_best_of_all_up_to_epsilon_12() -> None:
    """Above, rounding to its grid is what counts, and the finer one of piecewise is better: `choose` takes that."""
    others = ["duchi", "laplace", "piecewise", "hybrid"]
    for epsilon in (0.01, 0.05, 0.3, 0.6, 1, 1.6, 3, 5, 8, 12):
        best = min(mechanism(name).calibrate(epsilon, UNIT).typical_variance() for name in others)
        assert TableMean.calibrate(epsilon, UNIT).typical_variance() <= 1.001 * best, epsilon


def test_laplace_is_twice_as_noisy() -> None:
    for epsilon in (0.5, 1, 2, 4):
        laplace = DiscreteLaplaceMean.calibrate(epsilon, UNIT).typical_variance()
        assert laplace > 1.9 * TableMean.calibrate(epsilon, UNIT).typical_variance()


def test_tables_are_small() -> None:
    assert len(files("hubbub.mechanisms").joinpath("mean_tables.json").read_bytes()) < 100_000
    for epsilon in (0.5, 1, 2, 4):
        table = TableMean.calibrate(epsilon, UNIT)
        assert table.report_bytes == 1
        assert len(json.dumps(table.parameters())) < 2_500


# -- intervals ---------------------------------------------------------------------------------------


def missed(built: GridMean, crowd: Sequence[float], confidence: float) -> float:
    """Chance that the interval misses the mean of devices at these places, in steps of the grid, by the law of the sum.

    On a lattice, on which every value is split between two neighbours: means stay right and spread can only grow.
    """
    places = np.array([float(place) for place in built.places])
    chances = np.array(built.rows, float) / sum(built.rows[0])
    cells = np.zeros(built.symbols, np.int64)
    cells[0] = len(crowd)
    found = built.interval(type(built.tally([]))(built.fingerprint, len(crowd), cells), confidence)
    half = float(found.high[0] - found.low[0]) / 2 / float(built.bounds.width) * len(crowd)
    size = 1 << 15
    step = 3 * len(crowd) * float(places.max() - places.min()) / size
    spectrum: NDArray[np.complex128] = np.ones(size // 2 + 1, complex)
    for held in set(crowd):
        point = min(int(held), built.steps - 1)
        law = (1 - held + point) * chances[point] + (held - point) * chances[point + 1]
        off = (places - held / built.steps) / step
        below = np.floor(off).astype(int)
        one = np.bincount(below % size, law * (below + 1 - off), size)
        one += np.bincount((below + 1) % size, law * (off - below), size)
        spectrum *= np.fft.rfft(one) ** crowd.count(held)
    summed = np.fft.irfft(spectrum, size)
    reach = int(half / step) + 1
    return float(summed[reach + 1 : size - reach].sum())


@pytest.mark.everyday
@pytest.mark.parametrize("cls", GRIDS)
@pytest.mark.parametrize("epsilon", [0.5, 2, pytest.param(8, marks=pytest.mark.full)])
@pytest.mark.parametrize("confidence", [0.95, 1 - 1e-5], ids=["one", "one-of-thousands"])
def test_intervals_of_few_devices_cover_by_the_exact_law(
    cls: type[GridMean], epsilon: float, confidence: float
) -> None:
    """All alike, at both ends, or spread over the range: no sampling, so no slack but the lattice's."""
    built = cls.calibrate(epsilon, UNIT)
    last = built.steps
    for devices in (1, 2, 5, 30, 100):
        spread = [round(i * last / devices) for i in range(devices)]
        for crowd in (
            [0] * devices,
            [last // 2] * devices,
            [0, last] * (devices // 2) + [last] * (devices % 2),
            spread,
        ):
            assert missed(built, crowd, confidence) <= 1.02 * (1 - confidence) + 1e-9, (devices, set(crowd))


@pytest.mark.everyday
@pytest.mark.parametrize("cls", GRIDS)
@pytest.mark.parametrize("epsilon", [8, 16])
def test_intervals_cover_values_between_grid_points_where_rounding_is_most_of_the_error(
    cls: type[GridMean], epsilon: float
) -> None:
    """With little noise the law at a point is all but certain, and says nothing of devices that round."""
    built = cls.calibrate(epsilon, UNIT)
    middle = built.steps // 2
    for devices in (1, 7, 100):
        for crowd in ([middle + 0.5] * devices, [0.1] * devices, [0.25, *[0.0] * (devices - 1)]):
            assert missed(built, crowd, 0.95) <= 1.02 * 0.05, (devices, set(crowd))


# -- a device trusts no codebook -----------------------------------------------------------------------


def tampered(**changes: Any) -> dict[str, Any]:
    return {**TableMean.calibrate(1, UNIT).parameters(), **changes}


COLUMNS: list[list[int]] = TableMean.calibrate(1, UNIT).parameters()["columns"]  # type: ignore[assignment]  # lists of lists of integers


def changed(column: int, entry: int, by: int) -> list[list[int]]:
    return [[x + by * (i == column and j == entry) for j, x in enumerate(c)] for i, c in enumerate(COLUMNS)]


LOW = TableMean.calibrate(1, UNIT).low


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        (tampered(low=str(LOW - LOW // 10**9)), "realise epsilon"),
        (tampered(low="0"), "low positive"),
        (tampered(high="1"), "low positive"),
        (tampered(steps=0), "steps must be"),
        (tampered(steps=65), "steps must be"),
        (tampered(steps=10), "out of range|equally"),
        (tampered(columns=changed(0, 2, 1)), "cover every grid point equally"),
        (tampered(columns=changed(0, 3, 1)), "rise by the same"),
        (tampered(columns=changed(1, 1, 1)), "distinct|equally"),
        (tampered(columns=[[0, 8, 5, 0]]), "rise by the same"),
        (tampered(columns=[[0, 8, 5, 1]]), "own mirror image"),
        (tampered(columns=[[0, 9, 5, 1]]), "out of range"),
        (tampered(columns=[[5, 4, 5, 1]]), "out of range"),
        (tampered(columns=[[0, 3, 0, 1]]), "out of range"),
        (tampered(columns=[]), "distinct"),
        (tampered(columns=[*COLUMNS, COLUMNS[0]]), "distinct"),
        (tampered(columns=COLUMNS[::-1]), "in order"),
        (tampered(columns=[[*c[:2], c[2] * 2**40, c[3]] for c in COLUMNS]), "at most 2\\*\\*63"),
        (tampered(columns=[[0, 3, 5]]), "each column"),
        (tampered(columns=[[0, 3, 5, "1"]]), "each column"),
        (tampered(columns=[[0, 3, 5, True]]), "each column"),
        (tampered(columns="none"), "each column"),
        (tampered(more=1), "takes the parameters"),
    ],
)
def test_a_table_that_is_not_what_it_says_is_refused(parameters: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        TableMean.from_parameters(1, UNIT, parameters)


def test_a_mirrored_table_of_moments_that_fall_is_refused() -> None:
    """It would be unbiased for the opposite of the truth."""
    with pytest.raises(InvalidParameter, match="rise by the same"):
        TableMean.from_parameters(1, UNIT, tampered(columns=[[a, b, w, -m] for a, b, w, m in COLUMNS]))


@pytest.mark.parametrize("cls", [PiecewiseMean, HybridMean])
@pytest.mark.parametrize(
    "change",
    [
        {"high": "99999999999999"},
        {"low": "0"},
        {"steps": 0},
        {"steps": 65},
        {"stride": 0},
        {"window": 0},
        {"window": 300},
        {"low": str(2**62), "high": str(2**62 + 1)},
        {"wings": 1},
    ],
)
def test_windows_that_are_no_design_are_refused(cls: type[GridMean], change: dict[str, Any]) -> None:
    parameters = {**cls.calibrate(1, UNIT).parameters(), **change}
    if "high" in change and "low" not in change:
        parameters["low"] = "1"
    with pytest.raises(InvalidParameter, match=cls.name):
        cls.from_parameters(1, UNIT, parameters)


def test_a_hybrid_of_nothing_is_refused() -> None:
    parameters = HybridMean.calibrate(1, UNIT).parameters()
    with pytest.raises(InvalidParameter, match="inner or outer must be positive"):
        HybridMean.from_parameters(1, UNIT, {**parameters, "inner": 0, "outer": 0})


@pytest.mark.parametrize("steps", [0, 65, True, 2.0, "4"])
@pytest.mark.parametrize("cls", [PiecewiseMean, HybridMean])
def test_an_impossible_grid_is_refused(cls: type[GridMean], steps: Any) -> None:
    with pytest.raises(InvalidParameter, match="steps must be"):
        cls.calibrate(1, UNIT, steps=steps)


@pytest.mark.parametrize("points", [0, 2, True, 3.0, "9"])
def test_an_impossible_number_of_points_is_refused(points: Any) -> None:
    with pytest.raises(InvalidParameter, match="points must be"):
        TableMean.calibrate(1, UNIT, points=points)
