"""What people are shown of an estimate: possible, within its limits, and never more certain than the raw interval.

The promises are checked on any numbers, and on what every mechanism makes of crowds and of reports that no crowd would
send, for many sizes, confidences, populations and ways to hold together.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Bounds, Categories, Mechanism, Tally, mechanism, registered
from hubbub.mechanisms._frequency_oracle import PureOracle
from hubbub.mechanisms.base import Population
from hubbub.shown import clipped
from hubbub.simulation import InsecureBulkRandomness, InsecureRandomness

EPSILONS = (0.3, 1.0, 4.0, 12.0)

numbers = st.floats(-3, 4)
arms = st.one_of(st.just(0.0), st.floats(1e-9, 10), st.just(math.inf))


def promises(raw: Any, low: Any, high: Any, possible: tuple[float, float], shown: Any) -> None:
    """The three promises of `hubbub.shown`, for a list of estimates."""
    least, most = possible
    raw, low, high = (np.asarray(numbers, np.float64) for numbers in (raw, low, high))
    assert (least <= shown.low).all()
    assert (shown.low <= shown.values).all()
    assert (shown.values <= shown.high).all()
    assert (shown.high <= most).all()
    assert (shown.low <= np.clip(low, least, most)).all()  # so no possible truth is lost
    assert (shown.high >= np.clip(high, least, most)).all()
    size = max(abs(least), abs(most), 1.0)
    has_length = (high - low) > 1e-12 * size
    assert (shown.high > shown.low)[has_length].all()
    possible_already = (least <= low) & (high <= most)
    assert (shown.low == low)[possible_already].all()
    assert (shown.high == high)[possible_already].all()


@given(numbers, arms, arms, numbers, st.floats(0.1, 3))
@example(-0.02, 0.01, 0.02, 0.0, 1.0)  # reaches up to 0 exactly
@example(-0.02, 0.01, 0.01, 0.0, 1.0)  # lies wholly below 0
@example(-0.02, 0.01, 0.0, 0.0, 1.0)  # and has no upper arm
@example(0.0, 0.01, 0.0, 0.0, 1.0)  # ends at 0, from below
@example(1.0, 0.0, 0.01, 0.0, 1.0)  # begins at 1
@example(-1e300, 1.0, 1.0, 0.0, 1.0)
def test_any_numbers(raw: float, down: float, up: float, least: float, width: float) -> None:
    possible = least, least + width
    low, high = raw - down, raw + up
    promises([raw], [low], [high], possible, clipped([raw], [low], [high], possible))


@given(numbers, arms, arms, st.floats(0, 1))
def test_a_value_put_in_place_of_the_estimate_is_within_its_limits(
    raw: float, down: float, up: float, instead: float
) -> None:
    shown = clipped([raw], [raw - down], [raw + up], (0, 1), [instead])
    plain = clipped([raw], [raw - down], [raw + up], (0, 1))
    assert shown.values[0] == instead
    assert shown.low[0] == min(plain.low[0], instead)
    assert shown.high[0] == max(plain.high[0], instead)


@pytest.mark.parametrize(
    ("estimate", "low", "high", "expected"),
    [
        (0.004, -0.007, 0.015, (0.004, 0.0, 0.015)),
        (-0.003, -0.014, 0.008, (0.0, 0.0, 0.008)),
        (-0.014, -0.025, -0.003, (0.0, 0.0, 0.0055)),
        (1.014, 1.003, 1.025, (1.0, 0.9945, 1.0)),
        (0.3, 0.2, math.inf, (0.3, 0.2, 1.0)),
        (0.3, 0.2, 0.5, (0.3, 0.2, 0.5)),
    ],
)
def test_examples_of_the_design_page(
    estimate: float, low: float, high: float, expected: tuple[float, float, float]
) -> None:
    shown = clipped([estimate], [low], [high], (0, 1))
    assert (shown.values[0], shown.low[0], shown.high[0]) == pytest.approx(expected, abs=1e-12)


def test_what_is_possible_is_named_from_low_to_high() -> None:
    with pytest.raises(InvalidParameter, match="from low to high"):
        clipped([0.5], [0.4], [0.6], (1, 0))


# -- what the mechanisms make of reports -------------------------------------------------------------


@cache
def instances() -> list[Mechanism[Any]]:
    """Every mechanism, at every epsilon, as its small examples and over the domain that it is shown on."""
    found: list[Mechanism[Any]] = []
    for name in registered():
        kind = mechanism(name)
        for epsilon in EPSILONS:
            found += kind.examples(epsilon)
            if not kind.needs_options:
                found.append(kind.calibrate(epsilon, kind.usual_domain(30)))
    return found


def limits_of(one: Mechanism[Any]) -> tuple[float, float]:
    return one.domain.limits if isinstance(one.domain, Bounds) else (0.0, 1.0)


def a_value(one: Mechanism[Any], part: float) -> Any:
    """A value of the domain, at this part of it."""
    if isinstance(one.domain, Categories):
        return int(part * (one.domain.size - 1))
    assert isinstance(one.domain, Bounds)
    return one.domain.lower + Fraction(part) * one.domain.width


crowds = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 3_000)), min_size=1, max_size=3)
confidences = st.one_of(st.sampled_from([0.01, 0.5, 0.95, 0.999_999]), st.floats(0.01, 0.999_999_999))


@st.composite
def tallies(draw: st.DrawFn) -> tuple[Mechanism[Any], Tally]:
    """A crowd's reports; or a few reports, each repeated as often as only fakes would."""
    one = draw(st.sampled_from(instances()))
    crowd, seed = draw(crowds), draw(st.integers(0, 2**32))
    if draw(st.booleans()):
        held = [held if isinstance(held, int) else float(held) for held in (a_value(one, part) for part, _ in crowd)]
        return one, one.simulate(held, [count for _, count in crowd], InsecureBulkRandomness(seed))
    rng = InsecureRandomness(seed)
    found = one.tally([])
    for part, count in crowd:
        single = one.tally([one.randomize(a_value(one, part), rng)])
        found = found + Tally(single.fingerprint, count, single.cells * count)
    return one, found


@settings(max_examples=150)
@given(tallies(), confidences, st.sampled_from(["reports", "superpopulation"]), st.booleans())
def test_every_mechanism(
    counted: tuple[Mechanism[Any], Tally], confidence: float, population: Population, simultaneous: bool
) -> None:
    one, tally = counted
    raw = one.estimate(tally).values
    found = one.interval(tally, confidence, population=population, simultaneous=simultaneous)
    slack = 1e-9 * max(1.0, float(np.abs(raw).max()))
    assert (found.low <= raw + slack).all()  # a raw interval has its estimate between its limits
    assert (raw - slack <= found.high).all()
    promises(
        raw,
        np.minimum(found.low, raw),
        np.maximum(found.high, raw),
        limits_of(one),
        clipped(raw, found.low, found.high, limits_of(one)),
    )


@pytest.mark.parametrize("name", sorted(registered()))
@pytest.mark.parametrize("reports", [1, 40, 2_500])
def test_no_interval_stands_for_certainty_where_there_is_noise(name: str, reports: int) -> None:
    """However far outside an estimate is, at least half of an arm of its noise is shown."""
    for one in mechanism(name).examples(1.0):
        rng = InsecureRandomness(7)
        single = one.tally([one.randomize(a_value(one, 0.0), rng)])
        tally = Tally(single.fingerprint, reports, single.cells * reports)
        least, most = limits_of(one)
        raw, found = one.estimate(tally).values, one.interval(tally, 0.95)
        shown = clipped(raw, found.low, found.high, (least, most))
        arms = np.minimum(found.high - raw, raw - found.low)
        assert (shown.high - shown.low >= np.minimum(0.49 * arms, 0.49 * (most - least))).all()
        assert (found.high > found.low).all()


@pytest.mark.parametrize("reports", [40, 2_500])
@pytest.mark.parametrize("name", sorted(name for name in registered() if issubclass(mechanism(name), PureOracle)))
def test_raw_limits_of_shares_reach_to_both_sides_of_an_impossible_estimate(name: str, reports: int) -> None:
    """The exact ones as well, although they are found among the shares that devices can have."""
    for one in mechanism(name).examples(1.0):
        single = one.tally([one.randomize(0, InsecureRandomness(7))])
        tally = Tally(single.fingerprint, reports, single.cells * reports)
        raw, found = one.estimate(tally).values, one.interval(tally, 0.95)
        assert raw.min() < 0 or raw.max() > 1
        assert (found.low < raw).all()
        assert (raw < found.high).all()
