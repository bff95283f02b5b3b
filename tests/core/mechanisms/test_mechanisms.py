"""Worked examples of the field, and what happens when a mechanism is asked for the impossible."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hubbub.errors import InvalidParameter, InvalidValue, MalformedReport, MalformedTally, SingularMatrix
from hubbub.mechanisms import (
    BinaryRandomizedResponse,
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    Domain,
    DuchiMean,
    KaryRandomizedResponse,
    MatrixResponse,
    _intervals,
    choose,
    mechanism,
    register,
    registered,
)
from hubbub.mechanisms._exact_arithmetic import decimal_text, exp_below, log_above
from hubbub.mechanisms.matrix import left_inverse
from hubbub.randomness import SystemRandomness
from hubbub.simulation import InsecureBulkRandomness

RANGE = Bounds(Fraction(0), Fraction(10))


# -- worked examples ---------------------------------------------------------------------------------


def test_warners_coins() -> None:
    """Heads: tell the truth; tails: say Yes. 45 No of 100 mean that 90 % would truthfully say No.

    The forced Yes gives every No away, so the estimator undoes it but no device may use it.
    """
    forced = [[0.5, 0.0], [0.5, 1.0]]  # rows: report No, Yes; columns: truth No, Yes
    assert left_inverse(forced) @ [0.45, 0.55] == pytest.approx([0.9, 0.1])
    with pytest.raises(InvalidParameter, match="reveals"):
        MatrixResponse.calibrate(3, Categories(2), matrix=forced)


def test_truth_half_the_time_and_a_biased_coin_otherwise() -> None:
    """p = 1/2 of the answers are true, the others Yes with p' = 3/4: 0.425 = f/2 + 3/8, so f = 0.1."""
    p, coin = Fraction(1, 2), Fraction(3, 4)
    yes = [(1 - p) * coin, p + (1 - p) * coin]
    asymmetric = MatrixResponse.calibrate(2, Categories(2), matrix=[[1 - y for y in yes], yes])
    estimate = asymmetric.estimate(asymmetric.tally([1] * 425 + [0] * 575))
    assert estimate.values == pytest.approx([0.9, 0.1])


def test_seven_values_at_epsilon_ten_keep_the_truth_with_09997277() -> None:
    seven = KaryRandomizedResponse.calibrate(10, Categories(7))
    assert float(seven.p) == pytest.approx(0.9997277, abs=5e-8)
    assert float(seven.q) == pytest.approx((1 - 0.9997277) / 6, rel=1e-3)


def test_a_transition_matrix_is_undone_by_its_inverse() -> None:
    rows = [["0.6", "0.2", "0.3"], ["0.3", "0.6", "0.2"], ["0.1", "0.2", "0.5"]]
    matrix = MatrixResponse.calibrate(2, Categories(3), matrix=rows)
    reports = [0] * 500 + [1] * 300 + [2] * 200
    expected = np.linalg.solve(np.array(rows, float), [0.5, 0.3, 0.2])
    assert matrix.estimate(matrix.tally(reports)).values == pytest.approx(expected)


@pytest.mark.parametrize(("crowds", "slack"), [(5_000, 0.1), pytest.param(20_000, 0.05, marks=pytest.mark.full)])
def test_the_covariance_of_a_matrix_is_that_of_its_estimates(crowds: int, slack: float) -> None:
    rows = [["0.6", "0.2", "0.3"], ["0.3", "0.6", "0.2"], ["0.1", "0.2", "0.5"]]
    matrix = MatrixResponse.calibrate(2, Categories(3), matrix=rows)
    held = np.repeat([0, 1, 2], [50, 30, 20])
    reports = matrix.randomize_many(np.tile(held, crowds), InsecureBulkRandomness(4)).reshape(crowds, -1)
    tallies = [matrix.tally(batch) for batch in reports]
    observed = np.cov(np.array([matrix.estimate(tally).values for tally in tallies]).T)
    stated = np.mean([matrix.covariance(tally) for tally in tallies[:1000]], axis=0)
    assert np.allclose(np.diag(stated), matrix.variance([0.5, 0.3, 0.2]) / 100, rtol=0.02)
    assert np.allclose(observed, stated, atol=slack * np.diag(stated).max())  # 5 sd of a covariance of so many


def test_krr_states_the_covariance_that_its_matrix_has() -> None:
    krr = KaryRandomizedResponse.calibrate(1, Categories(4))
    rows = [[krr.p if x == y else krr.q for x in range(4)] for y in range(4)]
    same = MatrixResponse.calibrate("1.0001", Categories(4), matrix=rows)
    reports = [0] * 40 + [1] * 30 + [2] * 20 + [3] * 10
    stated = krr.covariance(krr.tally(reports))
    assert np.allclose(stated, same.covariance(same.tally(reports)), rtol=1e-9)
    assert abs(stated.sum()) < 1e-12  # the estimates sum to one, always


def test_krr_variance_is_the_published_one() -> None:
    """n Var = (z + d - 2)/(z - 1)^2 + f (d - 2)/(z - 1)."""
    z, d, f = math.e, 16, 0.3
    krr = KaryRandomizedResponse.calibrate(1, Categories(d))
    assert float(krr.variance(f)) == pytest.approx((z + d - 2) / (z - 1) ** 2 + f * (d - 2) / (z - 1))


def test_duchi_variance_is_the_published_one() -> None:
    """c^2 - x^2 on [-1, 1], c = (z + 1)/(z - 1)."""
    duchi = DuchiMean.calibrate(1, Bounds(Fraction(-1), Fraction(1)))
    c = (math.e + 1) / (math.e - 1)
    assert float(duchi.variance([0.25])[0]) == pytest.approx(c**2 - 0.25**2)


def test_laplace_tends_to_eight_over_epsilon_squared() -> None:
    fine = DiscreteLaplaceMean.calibrate(1, Bounds(Fraction(-1), Fraction(1)), steps=64)
    assert fine.typical_variance() == pytest.approx(8, rel=1e-4)


def test_the_default_grid_costs_little() -> None:
    for epsilon in (0.1, 1, 2, 4, 8):
        coarse = DiscreteLaplaceMean.calibrate(epsilon, RANGE)
        assert coarse.typical_variance() <= 1.005 * 8 / epsilon**2


# -- the choice --------------------------------------------------------------------------------------


def test_the_choice_for_numbers_is_the_lower_variance() -> None:
    assert choose(RANGE, 1).name == "table"
    assert choose(RANGE, 4).name == "table"
    assert choose(RANGE, "0.2").name == "table"  # by half a per cent: reports of equal length are no reason for another


def test_the_choice_says_when_reports_are_too_short() -> None:
    with pytest.raises(InvalidParameter, match=r"hadamard needs 2"):
        choose(Categories(1000), 1, report_bytes=1)


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(InvalidParameter, match=r"did you mean 'laplace'"):
        mechanism("laplac")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="registered already"):
        register("rr")(KaryRandomizedResponse)
    assert list(registered()) == sorted(registered())


# -- exact arithmetic --------------------------------------------------------------------------------


@given(st.fractions(min_value=Fraction(1, 10_000), max_value=30, max_denominator=10**9))
def test_the_exponential_is_rounded_down_and_the_logarithm_up(epsilon: Fraction) -> None:
    below = exp_below(epsilon)
    assert log_above(below * (1 + Fraction(1, 10**50))) > epsilon
    assert epsilon - Fraction(1, 10**40) < log_above(below) <= epsilon + Fraction(1, 10**50)


@given(st.sampled_from(sorted(registered())), st.decimals("0.0001", "30", places=7, allow_nan=False))
@settings(max_examples=200, deadline=None)
def test_the_realised_epsilon_is_never_above_the_asked_one(name: str, epsilon: Any) -> None:
    cls = registered()[name]
    domains: list[Domain] = [Categories(2), Categories(7), Categories(65_536), RANGE]
    for domain in domains:
        if cls.needs_options or not cls.fits(domain):
            continue
        built = cls.calibrate(epsilon, domain)
        assert built.loss() <= Fraction(epsilon)
        assert Fraction(math.nextafter(built.realised_epsilon, 0)) < Fraction(epsilon)
        assert built.realised_epsilon > float(epsilon) * 0.98 - 1e-6


@pytest.mark.parametrize(
    ("number", "text"), [("0.5", "0.5"), ("3", "3"), ("1/3", "1/3"), ("-0.125", "-0.125"), ("1e3", "1000")]
)
def test_numbers_are_written_as_a_person_would(number: str, text: str) -> None:
    assert decimal_text(Fraction(number)) == text
    assert Fraction(decimal_text(Fraction(number))) == Fraction(number)


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "epsilon", [0, -1, float("nan"), float("inf"), 31, "1e400000000", "1e-400000000", "much", None, True, [1], 1e-5]
)
@pytest.mark.parametrize("name", sorted(registered()))
def test_an_impossible_epsilon_is_refused_with_advice(name: str, epsilon: object) -> None:
    cls = registered()[name]
    with pytest.raises(InvalidParameter, match="epsilon"):
        cls.calibrate(epsilon, cls.usual_domain(2))


@pytest.mark.parametrize("size", [0, 1, -3, 65_537, 2.0, "4", True, None])
def test_an_impossible_list_is_refused(size: Any) -> None:
    with pytest.raises(InvalidParameter, match="size"):
        Categories(size)


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (float("nan"), 1), (0, float("inf")), ("a", 1), (None, 1)])
def test_impossible_bounds_are_refused(bounds: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidParameter, match="bound"):
        Bounds(*bounds)


@pytest.mark.parametrize("value", [-1, 3, 2**70, 1.0, "dark", None, True, float("nan")])
def test_a_value_outside_the_list_is_refused_with_advice(value: object) -> None:
    for built in (
        KaryRandomizedResponse.calibrate(1, Categories(3)),
        MatrixResponse.examples(1)[1],
    ):
        with pytest.raises(InvalidValue, match=r"index|from 0 to 2"):
            built.randomize(value, SystemRandomness())


@pytest.mark.parametrize("value", [2, -1, "yes", None, 0.5, float("nan")])
def test_rr_takes_only_true_or_false(value: object) -> None:
    with pytest.raises(InvalidValue, match="True or False"):
        BinaryRandomizedResponse.calibrate(1, Categories(2)).randomize(value, SystemRandomness())


@pytest.mark.parametrize("cls", [DuchiMean, DiscreteLaplaceMean])
@pytest.mark.parametrize("value", ["fast", None, float("nan"), Decimal("sNaN"), True, [1.0], 1j])
def test_a_mean_takes_only_numbers(cls: Any, value: object) -> None:
    with pytest.raises(InvalidValue, match="number"):
        cls.calibrate(1, RANGE).randomize(value, SystemRandomness())


@pytest.mark.parametrize("cls", [DuchiMean, DiscreteLaplaceMean])
def test_numbers_outside_the_bounds_are_clamped(cls: Any) -> None:
    built = cls.calibrate(1, RANGE)
    for inside, outside in [(0, -5), (10, 11.5), (10, float("inf")), (0, float("-inf")), (10, 10**400)]:
        for report in (0, 1):
            assert built.likelihood(report, inside) == built.likelihood(report, outside)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a"], "frequency"),
        ([0.5], "frequency"),
        ([9], "frequency"),
        ([-1], "frequency"),
        ([float("nan")], "mean"),
        (["a"], "mean"),
    ],
)
def test_bulk_values_are_checked_too(values: list[Any], kind: str) -> None:
    for cls in registered().values():
        if cls.kind == kind:
            with pytest.raises(InvalidValue):
                cls.examples(1)[0].randomize_many(values, InsecureBulkRandomness(1))


def test_parameters_that_break_the_promise_are_refused() -> None:
    """What a hostile or mistaken codebook may send to a device."""
    right = KaryRandomizedResponse.calibrate(1, Categories(4))
    for keep in (right.keep + 1, 2**64 - 1, 2**64, 0, -1, 2**62):
        with pytest.raises(InvalidParameter):
            KaryRandomizedResponse.from_parameters(1, Categories(4), {"keep": keep})
    with pytest.raises(InvalidParameter, match=r"above the stated 1\b"):
        KaryRandomizedResponse.from_parameters(1, Categories(4), {"keep": right.keep + 2**40})
    for parameters in ({}, {"keep": "x"}, {"keep": 1.5}, {"keep": right.keep, "more": 1}, {"keep": None}):
        with pytest.raises(InvalidParameter):
            KaryRandomizedResponse.from_parameters(1, Categories(4), parameters)
    laplace = DiscreteLaplaceMean.calibrate(1, RANGE, steps=16)
    for changed in ({"scale": laplace.scale - 1}, {"rate": 2}, {"steps": 17}, {"reach": 3}, {"steps": 0}):
        with pytest.raises(InvalidParameter):
            DiscreteLaplaceMean.from_parameters(1, RANGE, {**laplace.parameters(), **changed})
    columns: Any = MatrixResponse.examples(1)[0].parameters()["columns"]
    for broken in ([columns[0]], "no", [["1", "2"], ["3", "4"]], [columns[0], "x"], [columns[0], [*columns[1], "0"]]):
        with pytest.raises(InvalidParameter):
            MatrixResponse.from_parameters(1, Categories(2), {"columns": broken})


@pytest.mark.parametrize(
    ("rows", "error", "says"),
    [
        ([[0.5, 0.5], [0.5, 0.5]], SingularMatrix, "condition number"),
        ([[0.5, 0.4999999], [0.5, 0.5000001]], SingularMatrix, "tell them apart"),
        ([[0.9, 0.1], [0.2, 0.9]], InvalidParameter, "column 0 must be probabilities that sum to 1"),
        ([[1.1, 0.1], [-0.1, 0.9]], InvalidParameter, "column 0 must be probabilities"),
        ([[1, 0.1], [0, 0.9]], InvalidParameter, "reveals it"),
        ([[0.9, 0.1], [0.1, 0.9]], InvalidParameter, "have epsilon 2.19722"),
        ([[0.9, 0.1]], InvalidParameter, "column 0"),
        ([[1, 1]], SingularMatrix, "fewer reports than values"),
        ([[0.6, 0.3, 0.1], [0.4, 0.7, 0.9]], InvalidParameter, "each row needs 2"),
        ([["x", 0.1], [0.1, 0.9]], InvalidParameter, r"matrix\[0\]\[0\]"),
        (None, InvalidParameter, "rows are reports"),
    ],
)
def test_a_bad_matrix_is_refused_with_its_reason(rows: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        MatrixResponse.calibrate(1, Categories(2), matrix=rows)


def test_unknown_options_and_unfit_domains_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="no option colour"):
        KaryRandomizedResponse.calibrate(1, Categories(3), colour="red")
    with pytest.raises(InvalidParameter, match="does not fit 3 values"):
        BinaryRandomizedResponse.calibrate(1, Categories(3))
    with pytest.raises(InvalidParameter, match="does not fit a range"):
        KaryRandomizedResponse.calibrate(1, RANGE)
    with pytest.raises(InvalidParameter, match="steps"):
        DiscreteLaplaceMean.calibrate(1, RANGE, steps=0)


@pytest.mark.parametrize("name", sorted(registered()))
def test_nothing_is_estimated_from_nobody(name: str) -> None:
    built = registered()[name].examples(1)[0]
    with pytest.raises(InvalidParameter, match="no reports"):
        built.estimate(built.tally([]))
    with pytest.raises(InvalidParameter, match="no reports"):
        built.interval(built.tally([]))
    one = built.tally([built.outputs()[0]])
    assert np.isfinite(built.estimate(one).variances).all()
    for confidence in (0, 1, 95, -0.5, float("nan")):
        with pytest.raises(InvalidParameter, match="confidence"):
            built.interval(one, confidence)
    for fakes, reports in [(-1, 5), (6, 5), (0, 0)]:
        with pytest.raises(InvalidParameter, match="fakes"):
            built.manipulation(fakes, reports)


@pytest.mark.parametrize("name", sorted(registered()))
def test_foreign_and_damaged_tallies_are_refused(name: str) -> None:
    built, other = registered()[name].examples(1)[0], registered()[name].examples(2)[0]
    stored = built.tally(list(built.outputs())[:3]).to_bytes()
    with pytest.raises(MalformedTally, match="different mechanisms"):
        built.tally([]) + other.tally([])
    with pytest.raises(MalformedTally, match="belongs to another"):
        other.tally_from_bytes(stored)
    for damaged in (b"", stored[:-1], stored + b"\0", stored[:-8] + b"\xff" * 8):
        with pytest.raises(MalformedTally):
            built.tally_from_bytes(damaged)
    for foreign in _no_reports_of(built):
        with pytest.raises(InvalidValue):
            built.tally([foreign])
        with pytest.raises(InvalidValue):
            built.encode(foreign)
    with pytest.raises(MalformedReport):
        built.decode(b"\xff" * built.report_bytes)


def _no_reports_of(built: Any) -> list[Any]:
    last = max(built.outputs())
    if isinstance(last, int):
        return [last + 1]
    return [last + b"\0", last[:-1], b"\xff" * len(last), "text", 7, None]


def test_intervals_name_their_kind() -> None:
    krr = KaryRandomizedResponse.calibrate(1, Categories(3))
    few, many = krr.tally([0, 1, 2] * 50), krr.tally([0, 1, 2] * 50_000)
    assert krr.interval(few).kind == "devices that reported, exact"
    assert krr.interval(many).kind == "devices that reported, score"
    assert krr.interval(many, simultaneous=True).kind.endswith("simultaneous (Bonferroni)")
    assert krr.interval(many, population="superpopulation").kind == "superpopulation, Clopper-Pearson"


def test_joint_intervals_are_wider_and_the_superpopulation_is_less_certain() -> None:
    krr = KaryRandomizedResponse.calibrate(4, Categories(3))
    tally = krr.tally([0, 1, 2] * 500)

    def width(**options: Any) -> float:
        found = krr.interval(tally, **options)
        return float((found.high - found.low).max())

    assert width() < width(simultaneous=True)
    assert width() < width(population="superpopulation")


def test_the_exact_and_the_score_interval_agree_where_they_meet() -> None:
    p, q, n = 0.7, 0.1, 3_400
    counts = np.array([600, 1000, 2000])
    exact = _intervals.two_binomials(counts, n, 0.05, p, q)
    moved = _intervals.corrected_counts(counts, n, 0.05, p, q)
    values = ((moved[0] / n - q) / (p - q), (moved[1] / n - q) / (p - q))
    score = _intervals.score(values, n, 0.05, q * (1 - q) / (p - q) ** 2, (1 - p - q) / (p - q))
    assert np.allclose(exact, score, atol=2 / n)


def test_a_matrix_of_more_values_says_by_which_bound_its_interval_holds() -> None:
    square = MatrixResponse.examples(1)[1]
    assert square.interval(square.tally([0, 1, 2] * 5)).kind == "devices that reported, Bernstein"
    assert square.interval(square.tally([0, 1, 2] * 50_000)).kind == "devices that reported, score"


def test_a_matrix_with_a_probability_next_to_one_has_intervals() -> None:
    rows = [[Fraction(999_998, 10**6), 1 - Fraction(2, 10**19)], [Fraction(2, 10**6), Fraction(2, 10**19)]]
    try:
        nearly = MatrixResponse.calibrate(30, Categories(2), matrix=rows)
    except SingularMatrix:
        return  # so near to singular that it cannot be built is as good an answer
    found = nearly.interval(nearly.tally([0, 0, 1]))
    assert np.isfinite(found.low).all()
    assert np.isfinite(found.high).all()


@pytest.mark.parametrize("bounds", [(0, 10**200), (0, "1e-200"), (10**150, 10**150 + 1)])
def test_bounds_whose_squares_no_float_holds_are_refused(bounds: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidParameter, match="1e100"):
        Bounds(*bounds)


def test_a_coarse_grid_does_not_feign_certainty_about_a_superpopulation() -> None:
    """Five equal reports show no spread; noise and rounding still make some."""
    coarse = DiscreteLaplaceMean.calibrate(8, RANGE, steps=1)
    found = coarse.interval(coarse.tally([0] * 5), population="superpopulation")
    assert found.high[0] - found.low[0] > 1


def test_an_interval_far_out_in_the_tail_is_not_lost_in_round_off() -> None:
    """Joint over 65,536 values of fifteen million reports: the limit is where the tail itself crosses its level."""
    mechanism = KaryRandomizedResponse.calibrate(6, Categories(65_536))
    p, q, reports, level = float(mechanism.p), float(mechanism.q), 15_000_000, 5e-7
    for count in (189, 230):
        _, high = _intervals.two_binomials(np.array([count]), reports, 2 * level, p, q)
        holders = round(float(high[0]) * reports)
        tails = []
        for m in (holders, holders + 1):
            k = np.arange(count + 1)
            law = np.convolve(stats.binom.pmf(k, m, p), stats.binom.pmf(k, reports - m, q))[: count + 1]
            tails.append(float(law.sum()))
        assert tails[0] >= level * (1 - 1e-6)
        assert tails[1] < level * (1 + 1e-6)
