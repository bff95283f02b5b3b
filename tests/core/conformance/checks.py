"""Checks that every registered mechanism must pass, one function for each. Each raises AssertionError on failure.

False alarms: a check that looks at samples allows for ALARM = 5 standard deviations on each of its tests
(5.7e-7 two-sided), or a chi-square tail of 1e-7. `make test` draws from fixed seeds. `make test-full` adds fresh draws
from the operating system: about a thousand such tests, so one full run in two thousand may cry wolf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc
from scipy.stats import binom

from hubbub.errors import MalformedReport
from hubbub.mechanisms import Bounds, Categories, Mechanism, Tally
from hubbub.mechanisms._exact_arithmetic import exp_below, log_above
from hubbub.randomness import BulkRandomness, Randomness
from hubbub_audit.output_law import Law, law_of

AnyMechanism = Mechanism[Any]
ALARM = 5.0
CHI_SQUARE_ALARM = 1e-7


def probes(mechanism: AnyMechanism) -> list[Any]:
    """Every extreme input, and for numbers two that lie between."""
    found = list(mechanism.inputs())
    if isinstance(mechanism.domain, Bounds):
        low, width = mechanism.domain.lower, mechanism.domain.width
        found += [low + width * Fraction(1, 7), low + width * Fraction(5, 8)]
    return found


def ends(mechanism: AnyMechanism) -> list[Any]:
    """The first and the last of the probes."""
    found = probes(mechanism)
    return [found[0], found[-1]]


@lru_cache(maxsize=512)
def _law(mechanism: AnyMechanism, value: Any) -> Law[Any]:
    return law_of(lambda rng: mechanism.randomize(value, rng))


# -- (1) the exact law ------------------------------------------------------------------------------


def check_no_report_favours_a_value_by_more_than_e_to_the_epsilon(mechanism: AnyMechanism) -> None:
    """Over all reports and inputs, from the coins up. Where mass was lost to rarity it is given to the defence."""
    laws = [_law(mechanism, value) for value in mechanism.inputs()]
    limit = exp_below(mechanism.epsilon)
    worst = Fraction(1)
    for report in set().union(*laws):
        for likely, unlikely in permutations(laws, 2):
            low = likely.get(report, Fraction(0))
            high = unlikely.get(report, Fraction(0)) + unlikely.lost
            assert low <= high * (limit + Fraction(1, 10**30)), (
                f"{report!r}: ratio {float(low / high) if high else 'infinite'} is above e^{float(mechanism.epsilon):g}"
            )
            worst = max(worst, low / high) if high else worst
    if not any(law.lost for law in laws):
        assert log_above(worst) == mechanism.loss(), "the declared loss is not the one that the coins realise"
    assert mechanism.loss() <= mechanism.epsilon


def check_the_law_is_the_declared_one(mechanism: AnyMechanism) -> None:
    """P[report | value] as the coins give it is `likelihood`, for every report and every probe."""
    for value in probes(mechanism):
        law = _law(mechanism, value)
        assert abs(sum(law.values()) + law.lost - 1) < Fraction(1, 10**20)
        assert set(law) <= set(mechanism.outputs())
        for report in mechanism.outputs():
            declared, real = mechanism.likelihood(report, value), float(law.get(report, Fraction(0)))
            assert abs(declared - real) <= 1e-9 * declared + float(law.lost), (value, report, declared, real)


# -- (2) draws ---------------------------------------------------------------------------------------


def draw(mechanism: AnyMechanism, value: Any, count: int, rng: Randomness | BulkRandomness) -> NDArray[np.int64]:
    """Reports of one value as indexes into `outputs()`."""
    if isinstance(rng, Randomness):
        reports = [mechanism.randomize(value, rng) for _ in range(count)]
    else:
        number = float(value) if isinstance(value, Fraction) else value
        reports = mechanism.randomize_many(np.full(count, number), rng).tolist()
    place = {report: i for i, report in enumerate(mechanism.outputs())}
    return np.array([place[report] for report in reports])


def _declared(mechanism: AnyMechanism, value: Any) -> NDArray[np.float64]:
    return np.array([mechanism.likelihood(report, value) for report in mechanism.outputs()])


def check_draws_match_the_declared_likelihood(
    mechanism: AnyMechanism, count: int, rng: Randomness | BulkRandomness, values: Sequence[Any] = ()
) -> None:
    """E[L(R | x') / L(R | x)] = 1 for R drawn given x; the whole law by chi-square; neighbours independent.

    For all probes, where no `values` are given.
    """
    values = list(values) or probes(mechanism)
    for value, other in zip(values, values[1:] + values[:1], strict=True):
        mine, theirs = _declared(mechanism, value), _declared(mechanism, other)
        drawn = draw(mechanism, value, count, rng)

        ratio = theirs / mine
        deviation = np.sqrt(max(float(mine @ ratio**2) - 1, 1e-30) / count)
        assert abs(ratio[drawn].mean() - 1) <= ALARM * deviation, f"likelihood identity broken for {value}"

        bins = _pool(mine, count)
        _chi_square(np.bincount(bins[drawn]), np.bincount(bins, mine) * count, f"law of the reports of {value}")

        # Two devices side by side share no coin: the joint law is the product.
        few = _pool(mine, int(np.sqrt(count)))
        size = int(few.max()) + 1
        side = np.bincount(few, mine)
        pairs = few[drawn[: count - count % 2]].reshape(-1, 2)
        joint = np.bincount(pairs[:, 0] * size + pairs[:, 1], minlength=size**2)
        _chi_square(joint, np.outer(side, side).ravel() * len(pairs), f"two reports of {value} in a row")


def _pool(law: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Outputs in order, joined until each bin expects at least 25 draws."""
    bins, mass, current = np.zeros(len(law), np.int64), 0.0, 0
    for i, chance in enumerate(law):
        bins[i] = current
        mass += chance
        if mass * count >= 25 and law[i + 1 :].sum() * count >= 25:
            current, mass = current + 1, 0.0
    return bins


def _chi_square(seen: NDArray[Any], expected: NDArray[Any], what: str) -> None:
    freedom = len(expected) - 1
    if freedom == 0:
        return
    statistic = float(((seen - expected) ** 2 / expected).sum())
    tail = float(gammaincc(freedom / 2, statistic / 2))
    assert tail > CHI_SQUARE_ALARM, f"{what}: chi-square {statistic:.1f} with {freedom} degrees of freedom"


# -- (3) estimates -----------------------------------------------------------------------------------


def _truth(mechanism: AnyMechanism, value: Any) -> NDArray[np.float64]:
    """The estimand if every device holds `value`."""
    if isinstance(mechanism.domain, Categories):
        return np.asarray(np.eye(mechanism.domain.size)[value])
    return np.array([float(value)])


def check_the_estimator_is_unbiased_with_the_declared_variance_exactly(mechanism: AnyMechanism) -> None:
    """Mean and variance of one report's contribution, summed over the exact law: no sampling at all."""
    for value in probes(mechanism):
        law = _law(mechanism, value)
        reports = list(law)
        chances = np.array([float(chance) for chance in law.values()])
        single = np.array([mechanism.estimate(mechanism.tally([report])).values for report in reports])
        scale = np.abs(single).max() + 1
        mean = chances @ single
        assert np.allclose(mean, _truth(mechanism, value), rtol=0, atol=1e-9 * scale), (value, mean)
        spread = chances @ (single - mean) ** 2
        population = np.array([float(value)]) if isinstance(mechanism.domain, Bounds) else _truth(mechanism, value)
        declared = mechanism.variance(population)
        assert np.allclose(spread, declared, rtol=1e-8), f"variance given {value}: real {spread}, declared {declared}"


def population(mechanism: AnyMechanism, size: int, seed: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Devices with different values, and the truth about them (frequencies, or all values)."""
    rng = np.random.default_rng(seed)
    if isinstance(mechanism.domain, Categories):
        weights = np.arange(1, mechanism.domain.size + 1)
        held = rng.choice(mechanism.domain.size, size, p=weights / weights.sum())
        return held, np.bincount(held, minlength=mechanism.domain.size) / size
    low, width = mechanism.domain.limits[0], mechanism.domain.span
    values = low + width * rng.beta(2, 5, size)
    return values, values


def _estimand(mechanism: AnyMechanism, truth: NDArray[np.float64]) -> NDArray[np.float64]:
    return truth if isinstance(mechanism.domain, Categories) else np.array([truth.mean()])


def _tallies(mechanism: AnyMechanism, values: NDArray[Any], repeats: int, rng: BulkRandomness) -> list[Tally]:
    reports = mechanism.randomize_many(np.tile(values, repeats), rng)
    return [mechanism.tally(batch) for batch in np.split(reports, repeats)]


def check_estimates_of_a_mixed_crowd_are_unbiased_with_the_stated_variance(
    mechanism: AnyMechanism, repeats: int, rng: BulkRandomness
) -> None:
    """The whole path, many times over: mean of the estimates, their spread, and the spread they claim."""
    devices = 60
    values, truth = population(mechanism, devices, seed=1)
    found = [mechanism.estimate(tally) for tally in _tallies(mechanism, values, repeats, rng)]
    estimates = np.array([estimate.values for estimate in found])
    exact = mechanism.variance(truth) / devices
    off = np.abs(estimates.mean(axis=0) - _estimand(mechanism, truth))
    assert (off <= ALARM * np.sqrt(exact / repeats) + 1e-9).all(), f"biased by {off}"

    centred = (estimates - estimates.mean(axis=0)) ** 2
    spread = centred.mean(axis=0)
    error = np.sqrt(np.maximum((centred**2).mean(axis=0) - spread**2, 0) / repeats)
    assert (np.abs(spread - exact) <= ALARM * error + 2 * exact / repeats).all(), f"variance {spread}, exact {exact}"

    claimed = np.array([estimate.variances for estimate in found])
    slack = ALARM * claimed.std(axis=0) / np.sqrt(repeats)
    assert (claimed.mean(axis=0) >= exact * (1 - 1e-9) - slack).all(), "the stated variance is too small"
    if isinstance(mechanism.domain, Bounds):  # reports cannot show a spread of values; judge where there is none
        middle = np.full(devices, float(mechanism.domain.lower + mechanism.domain.width / 2))
        exact = mechanism.variance(middle) / devices
        found = [mechanism.estimate(tally) for tally in _tallies(mechanism, middle, repeats, rng)]
        claimed = np.array([estimate.variances for estimate in found])
        slack = ALARM * claimed.std(axis=0) / np.sqrt(repeats)
    # few devices and a share near zero: what is stated has a floor, which lifts its mean by some per cent
    assert (claimed.mean(axis=0) <= 1.1 * exact + slack).all(), "the stated variance is too large"


# -- (4) intervals -----------------------------------------------------------------------------------


def check_intervals_cover(mechanism: AnyMechanism, repeats: int, rng: BulkRandomness, *, closely: bool = True) -> None:
    """At least nominal for few and many reports, joint and for a superpopulation; not much above for many.

    Not `closely` where lies are so few that counts are coarse: an exact interval is then wider than it need be.
    """
    confidence = 0.9
    slack = ALARM * np.sqrt(confidence * (1 - confidence) / repeats)
    for devices in (30, 1000):
        values, truth = population(mechanism, devices, seed=2)
        target = _estimand(mechanism, truth)
        tallies = _tallies(mechanism, values, repeats, rng)
        assert _coverage(mechanism, tallies, target, confidence).min() >= confidence - slack, devices
        assert _joint_coverage(mechanism, tallies, target, confidence) >= confidence - slack, devices

    if isinstance(mechanism.domain, Bounds):  # reports cannot show a spread of values; judge where there is none
        values = np.full(devices, float(mechanism.domain.lower + mechanism.domain.width * Fraction(5, 8)))
        target = values[:1]
        tallies = _tallies(mechanism, values, repeats, rng)
    assert _coverage(mechanism, tallies, target, confidence).max() <= confidence + 0.03 + slack or not closely

    drawn, source = np.random.default_rng(3), values
    target = _estimand(mechanism, truth if isinstance(mechanism.domain, Categories) else source)
    fresh = [mechanism.tally(mechanism.randomize_many(drawn.choice(source, devices), rng)) for _ in range(repeats)]
    covered = [_inside(mechanism.interval(tally, confidence, population="superpopulation"), target) for tally in fresh]
    assert np.mean(covered, axis=0).min() >= confidence - slack, "superpopulation"


def check_coverage_exactly(mechanism: Any, devices: int, holders: int, confidence: float) -> None:
    """For a mechanism whose count is Bin(holders, p) + Bin(rest, q): coverage by summing that law, without samples."""
    p, q = float(mechanism.p), float(mechanism.q)
    law = np.convolve(
        binom.pmf(np.arange(holders + 1), holders, p),
        binom.pmf(np.arange(devices - holders + 1), devices - holders, q),
    )
    covered = 0.0
    for count in np.flatnonzero(law > 1e-13):
        cells = np.zeros(mechanism.cells, np.int64)
        cells[0], cells[1] = count, devices - count  # whose the other reports are does not matter to the first item
        found = mechanism.interval(Tally(mechanism.fingerprint, devices, cells), confidence)
        covered += law[count] * (found.low[0] - 1e-12 <= holders / devices <= found.high[0] + 1e-12)
    missed, allowed = 1 - covered, 1 - confidence
    assert missed <= 1.02 * allowed, f"{holders} of {devices}: missed with chance {missed:.3g}, allowed {allowed:.3g}"


def _inside(interval: Any, target: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((interval.low - 1e-12 <= target) & (target <= interval.high + 1e-12))


def _coverage(
    mechanism: AnyMechanism, tallies: Sequence[Tally], target: NDArray[np.float64], confidence: float
) -> NDArray[np.float64]:
    hits = [_inside(mechanism.interval(tally, confidence), target) for tally in tallies]
    return np.asarray(np.mean(hits, axis=0))


def _joint_coverage(
    mechanism: AnyMechanism, tallies: Sequence[Tally], target: NDArray[np.float64], confidence: float
) -> float:
    hits = [_inside(mechanism.interval(t, confidence, simultaneous=True), target).all() for t in tallies]
    return float(np.mean(hits))


# -- (5) encoding, (6) tallies, and what is claimed of crowds -----------------------------------------


def check_every_report_has_one_encoding(mechanism: AnyMechanism) -> None:
    seen = set()
    for report in mechanism.outputs():
        payload = mechanism.encode(report)
        assert len(payload) == mechanism.report_bytes
        assert mechanism.decode(payload) == report
        seen.add(payload)
    assert len(seen) == len(mechanism.outputs())


def check_any_bytes_are_a_report_or_refused(mechanism: AnyMechanism, payload: bytes) -> None:
    try:
        report = mechanism.decode(payload)
    except MalformedReport:
        return
    assert report in mechanism.outputs()
    assert mechanism.encode(report) == payload


def check_tallies_merge_and_survive_storage(mechanism: AnyMechanism, parts: Sequence[Sequence[int]]) -> None:
    """However reports are split, ordered or stored on the way, the tally is the same."""
    outputs = mechanism.outputs()
    reports = [[outputs[i % len(outputs)] for i in part] for part in parts]
    whole = mechanism.tally([report for part in reports for report in part])
    tallies = [mechanism.tally(part) for part in reports]
    stored = [mechanism.tally_from_bytes(tally.to_bytes()) for tally in tallies]
    left = _sum(stored, mechanism.tally([]))
    right = _sum(tallies[::-1], mechanism.tally([]))
    one_by_one = mechanism.tally([])
    for part in reports:
        for report in part:
            one_by_one = mechanism.add(one_by_one, report)
    assert left == right == whole == one_by_one
    assert whole.reports == sum(map(len, parts))


def _sum(tallies: Sequence[Tally], start: Tally) -> Tally:
    for tally in tallies:
        start = start + tally
    return start


def check_amplification_atoms_are_those_of_the_real_law(mechanism: AnyMechanism) -> None:
    """Every unordered pair of inputs, up to a symmetry, has the atoms that its enumerated laws give."""
    laws = {value: _law(mechanism, value) for value in mechanism.inputs()}
    blanket = {y: min(law.get(y, Fraction(0)) for law in laws.values()) for y in set().union(*laws.values())}

    # Atoms are compared by what the accountant makes of them: E[(G - t)_+] for many e^eps and t.
    grid = np.linspace(-2, 2, 9)
    limit = float(exp_below(mechanism.epsilon))

    def outline(atoms: list[tuple[float, float, float]]) -> NDArray[np.float64]:
        mass, first, second = np.array(atoms).T
        gains = [first - limit**power * second for power in grid]
        return np.array([mass @ np.maximum(gain - t * limit, 0) for gain in gains for t in grid])

    declared = []
    for pair in mechanism.amplification().pairs:
        atoms = [(float(a.mass), float(a.first), float(a.second)) for a in pair.atoms]
        forward, backward = outline(atoms), outline([(mass, second, first) for mass, first, second in atoms])
        declared += [forward, backward]
        for side in (1, 2):  # E[G] = 1 - e^eps: each input's law sums to one
            assert abs(sum(atom[0] * atom[side] for atom in atoms) - 1) < 1e-12
    for first, second in permutations(laws.values(), 2):
        real = outline([(float(w), float(first[y] / w), float(second[y] / w)) for y, w in blanket.items() if w])
        assert any(np.allclose(real, known, rtol=1e-7) for known in declared), "a pair has atoms that are not declared"


def check_fakes_move_estimates_by_the_stated_bound_and_no_more(mechanism: AnyMechanism) -> None:
    """Replace reports by others in every way that matters: the largest shift is the bound."""
    single = np.array([mechanism.estimate(mechanism.tally([y])).values for y in mechanism.outputs()])
    span = float((single.max(axis=0) - single.min(axis=0)).max())
    assert abs(span - mechanism.influence()) <= 1e-9 * span
    assert np.isclose(mechanism.manipulation(3, 50), 3 * span / 50)


def check_a_device_rebuilds_it_from_its_parameters(mechanism: AnyMechanism) -> None:
    rebuilt = type(mechanism).from_parameters(mechanism.epsilon, mechanism.domain, mechanism.parameters())
    assert rebuilt == mechanism
    assert rebuilt.fingerprint == mechanism.fingerprint


Check = Callable[[AnyMechanism], None]
EXACT_CHECKS: list[Check] = [
    check_no_report_favours_a_value_by_more_than_e_to_the_epsilon,
    check_the_law_is_the_declared_one,
    check_the_estimator_is_unbiased_with_the_declared_variance_exactly,
    check_every_report_has_one_encoding,
    check_amplification_atoms_are_those_of_the_real_law,
    check_fakes_move_estimates_by_the_stated_bound_and_no_more,
    check_a_device_rebuilds_it_from_its_parameters,
]
