"""Comparison of two ranges: its intervals cover the true difference as often as they claim, and its p-values hold.

Simulations run from fixed seeds. A share of N runs is judged against a limit that a right method passes with a
chance of at least 1 - 1e-6, and the same runs with standard deviations taken 1.3 times too small must fail it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hubbub.mechanisms import (
    BinaryRandomizedResponse,
    Bounds,
    Categories,
    DiscreteLaplaceMean,
    DuchiMean,
    KaryRandomizedResponse,
    Mechanism,
    Tally,
)
from hubbub_aggregator.analysis.compare import Difference, difference
from tests.aggregator.api.test_batches import problem
from tests.aggregator.world import CODEBOOK, DAY, START, Site, bulk

RUNS = 1_500
FALSE_ALARM = 1e-6
RR = BinaryRandomizedResponse.calibrate(1, Categories(2))
FOUR = KaryRandomizedResponse.calibrate(2, Categories(4))
LONG = KaryRandomizedResponse.calibrate(4, Categories(1000))

UNCHANGED = [
    pytest.param(RR, (300, 300), (0.3, 0.3), id="few reports"),
    pytest.param(RR, (5_000, 600), (0.0, 0.0), id="nobody, one side smaller"),
    pytest.param(FOUR, (20_000, 3_000), (0.02, 0.02), id="a rare value"),
]
CROWDS = [
    *UNCHANGED,
    pytest.param(RR, (3_000, 20_000), (0.3, 0.35), id="a small change"),
    pytest.param(FOUR, (600, 600), (1.0, 0.5), id="from everybody to half", marks=pytest.mark.full),
    pytest.param(LONG, (500_000, 400_000), (0.0, 0.001), id="a long list"),
]


def counts(mechanism: Any, reports: int, share: float, rng: np.random.Generator, runs: int = RUNS) -> Tally:
    """The supporting reports of one value in each of many runs: a tally whose cells are runs, not values.

    Estimates and intervals of these mechanisms look at each cell by itself, so that one call judges all runs.
    """
    held = round(reports * share)
    found = rng.binomial(held, float(mechanism.p), runs) + rng.binomial(reports - held, float(mechanism.q), runs)
    return Tally(mechanism.fingerprint, reports, found.astype(np.int64))


def p_values_of(found: Difference) -> NDArray[np.float64]:
    assert found.p_values is not None
    return found.p_values


def simulated(
    mechanism: Any, sizes: tuple[int, int], shares: tuple[float, float], seed: int
) -> tuple[Difference, float]:
    rng = np.random.default_rng(seed)
    a, b = (counts(mechanism, size, share, rng) for size, share in zip(sizes, shares, strict=True))
    truth = round(sizes[1] * shares[1]) / sizes[1] - round(sizes[0] * shares[0]) / sizes[0]
    return difference((mechanism, a), (mechanism, b), 0.95), truth


def covered(low: NDArray[np.float64], high: NDArray[np.float64], truth: float) -> int:
    return int(((low <= truth) & (truth <= high)).sum())


def too_few(runs: int = RUNS) -> int:
    """Covered runs below which 95 % coverage is not to be believed."""
    return int(stats.binom.ppf(FALSE_ALARM, runs, 0.95))


@pytest.mark.parametrize(("mechanism", "sizes", "shares"), CROWDS)
def test_intervals_cover_the_true_difference_as_often_as_they_say(
    mechanism: Any, sizes: tuple[int, int], shares: tuple[float, float]
) -> None:
    found, truth = simulated(mechanism, sizes, shares, seed=11)
    assert covered(found.low, found.high, truth) >= too_few()
    # the test can tell: with a deviation 1.3 times too small it would fail
    low, high = (found.values + (limit - found.values) / 1.3 for limit in (found.low, found.high))
    assert covered(low, high, truth) < too_few()
    # and they are not wide for safety's sake: a third narrower would not do, nor is 99 % reached at 95 %
    assert covered(found.low, found.high, truth) < 0.985 * RUNS


@pytest.mark.parametrize(("mechanism", "sizes", "shares"), UNCHANGED)
def test_p_values_reject_what_is_true_no_more_often_than_they_say(
    mechanism: Any, sizes: tuple[int, int], shares: tuple[float, float]
) -> None:
    found, _ = simulated(mechanism, sizes, shares, seed=13)
    for level in (0.001, 0.01, 0.05, 0.2, 0.5):
        most = int(stats.binom.ppf(1 - FALSE_ALARM, RUNS, level))
        assert (p_values_of(found) <= level).sum() <= most, level
    assert (p_values_of(found) <= 0.05).mean() > 0.02  # and not much less often either
    shrunk = 2 * stats.norm.sf(1.3 * stats.norm.isf(p_values_of(found) / 2))
    assert (shrunk <= 0.05).sum() > int(stats.binom.ppf(1 - FALSE_ALARM, RUNS, 0.05))


@pytest.mark.parametrize("mechanism", [RR, FOUR, pytest.param(LONG, marks=pytest.mark.full)])
def test_far_tails_hold_too_as_many_values_together_need_them(mechanism: Any) -> None:
    """At a 1,000th of five percent each, 1,500 runs miss 0.075 times on average; 6 would be one in a million."""
    rng = np.random.default_rng(17)
    for sizes in ((30_000, 30_000), (200_000, 20_000)):
        a, b = (counts(mechanism, size, 0.01, rng) for size in sizes)
        found = difference((mechanism, a), (mechanism, b), 0.95, together=1000)
        assert RUNS - covered(found.low, found.high, 0.0) < 6


BOUNDS = Bounds(Fraction(0), Fraction(10))


@pytest.mark.everyday("*-duchi")
@pytest.mark.parametrize(
    "mechanism", [DiscreteLaplaceMean.calibrate(1, BOUNDS), DuchiMean.calibrate(1, BOUNDS)], ids=["laplace", "duchi"]
)
@pytest.mark.parametrize("sizes", [(150, 110), pytest.param((60, 400), marks=pytest.mark.full)])
def test_means_are_compared_as_honestly(mechanism: Mechanism[Any], sizes: tuple[int, int]) -> None:
    """All devices hold one value: there `duchi` knows its variance; 200 runs, the same false-alarm rate."""
    runs, rng, truth = 200, bulk(5), 4.0 - 3.0
    found = []
    for _ in range(runs):
        tallies = [
            mechanism.tally(mechanism.randomize_many(np.full(size, value), rng))
            for size, value in zip(sizes, (3.0, 4.0), strict=True)
        ]
        found.append(difference((mechanism, tallies[0]), (mechanism, tallies[1]), 0.95))
    low, high, centre = (np.array([getattr(one, name)[0] for one in found]) for name in ("low", "high", "values"))
    assert covered(low, high, truth) >= too_few(runs)
    assert covered(centre + (low - centre) / 1.6, centre + (high - centre) / 1.6, truth) < too_few(runs)


LITTLE_NOISE = [
    pytest.param(BinaryRandomizedResponse.calibrate(4, Categories(2)), (60, 60), (0.1, 0.1), id="one lie a side"),
    pytest.param(BinaryRandomizedResponse.calibrate(8, Categories(2)), (200, 1_000), (1.0, 1.0), id="hardly a lie"),
    pytest.param(KaryRandomizedResponse.calibrate(2, Categories(50)), (5, 200), (1.0, 1.0), id="five devices"),
    pytest.param(BinaryRandomizedResponse.calibrate(Fraction(3, 10), Categories(2)), (2, 2), (0.5, 0.5), id="two"),
]


@pytest.mark.parametrize(("mechanism", "sizes", "shares"), LITTLE_NOISE)
def test_where_noise_is_little_and_a_difference_moves_in_steps_nothing_is_overstated(
    mechanism: Any, sizes: tuple[int, int], shares: tuple[float, float]
) -> None:
    """Limits of both sides, combined as they are, held the truth 76 to 93 % of the time in these."""
    found, truth = simulated(mechanism, sizes, shares, seed=19)
    assert covered(found.low, found.high, truth) >= too_few()
    for level in (0.001, 0.01, 0.05, 0.2):
        assert (p_values_of(found) <= level).sum() <= int(stats.binom.ppf(1 - FALSE_ALARM, RUNS, level)), level


def test_interval_and_p_value_never_contradict_each_other() -> None:
    for mechanism, sizes in ((RR, (60, 60)), (RR, (300, 3_000)), (FOUR, (20_000, 3_000))):
        rng = np.random.default_rng(3)
        a, b = counts(mechanism, sizes[0], 0.3, rng, 200), counts(mechanism, sizes[1], 0.4, rng, 200)
        for confidence, together in ((0.9, 1), (0.95, 1), (0.95, 1_000), (0.999, 1)):
            found = difference((mechanism, a), (mechanism, b), confidence, together)
            excluded = (found.low > 0) | (found.high < 0)
            assert (excluded == (p_values_of(found) * together < 1 - confidence)).all()


def test_variances_add() -> None:
    rng = np.random.default_rng(2)
    a, b = counts(RR, 1_000, 0.2, rng, 50), counts(RR, 4_000, 0.2, rng, 50)
    found = difference((RR, a), (RR, b), 0.95)
    per_report = math.e / (math.e - 1) ** 2
    assert np.allclose(found.stderr, math.sqrt(per_report / 1_000 + per_report / 4_000), rtol=1e-9)
    back = difference((RR, b), (RR, a), 0.95)
    assert np.allclose(back.values, -found.values)
    assert np.allclose(back.low, -found.high)
    assert np.allclose(p_values_of(back), p_values_of(found))


# -- over HTTP ----------------------------------------------------------------------------------

SIDES = "a_from=2027-01-15&a_to=2027-01-16&b_from=2027-01-16&b_to=2027-01-17"


def days(site: Site, *shares: float) -> None:
    for day, share in enumerate(shares):
        site.clock.now = START + day * DAY + 3600
        site.service.tick()
        light = round(800 * share)
        assert site.settle(site.batch("theme", ["light"] * light + ["dark"] * (800 - light), seed=day))["valid"]


def test_an_answer_has_difference_interval_p_value_and_everything_it_rests_on(site: Site) -> None:
    days(site, 0.2, 0.7)
    answer = site.json(f"/v1/metrics/theme/compare?{SIDES}")
    rows = {row["value"]: row for row in answer["values"]}
    for name, truth in (("light", 0.5), ("dark", -0.5), ("sepia", 0.0), ("other", 0.0)):
        row = rows[name]
        assert row["difference"] == pytest.approx(row["b"] - row["a"])
        assert row["low"] < truth < row["high"]
        assert row["adjusted_p_value"] == pytest.approx(min(1, 4 * row["p_value"]))
        assert (row["adjusted_p_value"] < 0.001) == bool(truth)
    assert "noise is the only randomness" in answer["estimand"]
    assert answer["correction"].startswith("Bonferroni")
    assert answer["interval"]["simultaneous"]
    assert "MOVER" in answer["interval"]["kind"]
    assert answer["privacy"]["if_collusion"]["epsilon"] == pytest.approx(4.0)
    assert len(answer["privacy"]["per_period"]) == 2
    single = site.json("/v1/metrics/theme/estimate?from=2027-01-15&to=2027-01-16")
    assert answer["manipulation"]["per_thousand_fakes"] == pytest.approx(
        2 * single["segments"][0]["manipulation"]["per_thousand_fakes"]
    )
    assert (answer["a"]["reports"], answer["b"]["reports"], answer["complete"]) == (800, 800, False)

    top = site.json(f"/v1/metrics/theme/compare?{SIDES}&top=2")
    assert [row["value"] for row in top["values"]] in (["light", "dark"], ["dark", "light"])
    assert top["value_count"] == 4
    narrow = site.json(f"/v1/metrics/theme/compare?{SIDES}&simultaneous=false")
    assert narrow["values"][0]["high"] < rows["light"]["high"]
    assert narrow["values"][0]["p_value"] == rows["light"]["p_value"]


@pytest.mark.parametrize(
    ("query", "name", "said"),
    [
        ("", "invalid-query", "a_from"),
        ("a_from=2027-01-15&a_to=2027-01-17&b_from=2027-01-16&b_to=2027-01-18", "invalid-query", "2027-01-16 to 2027"),
        ("a_from=2027-01-15&a_to=2027-01-16&b_from=2027-01-15&b_to=2027-01-16", "invalid-query", "share no period"),
        ("a_from=2027-01-16&a_to=2027-01-15&b_from=2027-01-16&b_to=2027-01-17", "invalid-query", "end after"),
        ("a_from=2027-01-15&a_to=2027-01-16&b_from=2027-02-01&b_to=2027-02-02", "nothing-released", "range b"),
        (f"{SIDES}&top=1&simultaneous=false", "invalid-query", "leave one"),
        (f"{SIDES}&confidence=2", "invalid-query", "confidence"),
        (f"{SIDES}&postprocess=clip", "invalid-query", "not a parameter"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_to_do(compared: Site, query: str, name: str, said: str) -> None:
    answer = compared.get(f"/v1/metrics/theme/compare?{query}")
    problem(answer, name)
    assert said in answer.json()["detail"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, pool: Any) -> Any:
    site = Site.open(tmp_path_factory.mktemp("compared"), pool)
    days(site, 0.5, 0.5)
    yield site
    site.close()


def test_an_edit_between_the_ranges_is_compared_only_if_values_mean_the_same(site: Site) -> None:
    days(site, 0.5)
    site.reopen(CODEBOOK.replace('values = ["light", "dark", "sepia", "other"]\nepsilon = 2.0', _EDITED))
    site.clock.now += DAY
    site.service.tick()
    site.settle(site.batch("theme", ["light"] * 800))
    answer = site.json(f"/v1/metrics/theme/compare?{SIDES}")
    assert answer["a"]["metric_id"] != answer["b"]["metric_id"]
    assert {row["value"] for row in answer["values"] if row["adjusted_p_value"] < 0.001} == {"light", "dark"}

    later = "a_from=2027-01-15&a_to=2027-01-17&b_from=2027-01-17&b_to=2027-01-18"
    site.reopen(CODEBOOK.replace('"sepia", "other"]', '"sepia", "none"]'))
    site.clock.now += DAY
    site.service.tick()
    site.settle(site.batch("theme", ["light"] * 800))
    problem(refused := site.get(f"/v1/metrics/theme/compare?{later}"), "invalid-query")
    assert "edited within range a" in refused.json()["detail"]
    problem(refused := site.get(f"/v1/metrics/theme/compare?{later.replace('01-15', '01-16', 1)}"), "invalid-query")
    assert "values" in refused.json()["detail"]


_EDITED = 'values = ["light", "dark", "sepia", "other"]\nepsilon = 1.9'
