"""Bounds on what someone can learn about one device: true for the mechanisms that run, and rounded the safe way."""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.mechanisms import Categories, mechanism, registered
from hubbub_aggregator.dashboard import formatting
from hubbub_aggregator.dashboard.guarantee_pictures import Pair, hundred, trade_off
from hubbub_aggregator.dashboard.what_can_be_learned import at_most, believed, guessed_right
from tests.aggregator.dashboard.conftest import Visited


def _exactly(epsilon: float, delta: float) -> Fraction:
    """A little below the bound, from forty digits of e^epsilon."""
    with localcontext() as context:
        context.prec = 40
        power = Fraction(Decimal(epsilon).exp()) * (1 - Fraction(1, 10**35))
    return (power + Fraction(delta)) / (power + 1)


@given(st.floats(0, 30), st.floats(0, 0.1))
def test_a_guess_is_never_said_to_be_right_less_often_than_it_may_be(epsilon: float, delta: float) -> None:
    right = guessed_right(epsilon, delta)
    assert _exactly(epsilon, delta) <= Fraction(right) <= 1
    assert right <= float(_exactly(epsilon, delta)) + 1e-12
    shown = Fraction(formatting.out_of_hundred(right).split()[0])
    assert 100 * Fraction(right) <= shown <= 100
    assert shown - 100 * Fraction(right) <= 1


def test_an_epsilon_beyond_all_floats_promises_nothing() -> None:
    assert guessed_right(2869.0) == guessed_right(1e308, 1e-9) == 1.0


@pytest.mark.parametrize("name", sorted(registered()))
def test_no_two_values_can_be_told_apart_more_often(name: str) -> None:
    """From declared likelihoods: the best guess is right half of the time, and half the distance of the two laws."""
    built: Any
    for built in mechanism(name).examples(1.0):
        reports = list(built.outputs())
        if len(reports) > 4096 or not isinstance(built.domain, Categories):
            continue
        laws = [[built.likelihood(report, value) for report in reports] for value in range(built.domain.size)]
        for one, other in combinations(laws[:4], 2):
            best = Fraction(1, 2) + sum(abs(Fraction(a) - Fraction(b)) for a, b in zip(one, other, strict=True)) / 4
            assert best <= Fraction(guessed_right(1.0)) + Fraction(1, 10**12)


def test_with_two_values_the_bound_is_reached() -> None:
    built: Any = mechanism("rr").calibrate(1.0, Categories(2))
    assert float(built.likelihood(0, 0)) == pytest.approx(guessed_right(1.0), abs=1e-12)


def test_a_leak_with_the_chance_of_delta_reaches_the_bound() -> None:
    """With chance delta the answer is said aloud, else randomized response is sent: the worst that is allowed."""
    epsilon, delta = 0.7, 0.03
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert delta + (1 - delta) * truth == pytest.approx(guessed_right(epsilon, delta), abs=1e-12)


@given(st.floats(0.001, 0.999), st.floats(0, 10))
def test_belief_grows_by_no_more_than_the_odds_allow(before: float, epsilon: float) -> None:
    after = believed(before, epsilon)
    assert before - 1e-12 <= after < 1
    assert after / (1 - after) == pytest.approx(before / (1 - before) * math.exp(epsilon), rel=1e-6)
    assert float(at_most(after).removesuffix("%")) / 100 >= after * (1 - 1e-15)


@pytest.mark.parametrize(
    ("chance", "shown"),
    [
        (0.5, "50"),
        (0.5201, "53"),
        (0.0001, "1"),
        (0.991, "99.1"),
        (0.99975, "99.98"),
        (0.99999999, "100"),
        (1.0, "100"),
    ],
)
def test_a_chance_out_of_a_hundred_is_rounded_up(chance: float, shown: str) -> None:
    assert formatting.out_of_hundred(chance) == f"{shown} out of 100"


@pytest.mark.parametrize(("chance", "by_data", "wrong"), [(0.5, 0, 50), (0.523, 3, 47), (0.9999, 50, 0), (1.0, 50, 0)])
def test_a_guess_has_a_hundred_dots(chance: float, by_data: int, wrong: int) -> None:
    drawn = dict(re.findall(r'class="([a-z-]+)" d="([^"]*)"', hundred(chance, '"<x>"')))
    assert [drawn.get(kind, "").count("M") for kind in ("by-coin", "by-data", "wrong")] == [50, by_data, wrong]
    assert 'aria-label="&quot;&lt;x&gt;&quot;"' in hundred(chance, '"<x>"')


def test_many_metrics_in_one_place_are_all_marked_and_no_names_collide() -> None:
    pairs = [Pair(f"metric_{number:02d}", 1.0, 0.05 * (1 + number / 500), 1e-6) for number in range(50)]
    svg = trade_off(pairs, "metric_07", target=0.5)
    assert svg.count("<title>") == 50
    named = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>metric_\d\d<', svg)
    assert 3 <= len(named) <= 12
    heights = sorted(float(y) for _, y in named)
    assert all(above - below >= 14.9 for below, above in pairwise(heights))


CLOSE = [("crash_free", 1.0, 0.9), ("theme", 1.0, 0.85), ("startup", 1.0, 0.3), ("shares", 2.0, 0.9)]
CLOSE += [("os_version", 2.0, 0.91), ("camera", 4.0, 1.0)]
SAME = [("region", 3.0, 0.161), ("shares", 3.0, 0.146), ("response_ms", 3.0, 0.139), ("dark_mode", 1.0, 0.026)]


@pytest.mark.parametrize(("known", "target"), [(CLOSE, 1.0), (SAME, 0.5)])
def test_close_metrics_stand_side_by_side_and_each_has_its_name(
    known: list[tuple[str, float, float]], target: float
) -> None:
    svg = trade_off([Pair(*one, 1e-6) for one in known], known[1][0], target=target)
    dots = [(float(x), float(y)) for x, y in re.findall(r'<circle[^>]* cx="([\d.]+)" cy="([\d.]+)"', svg)]
    assert len(dots) == len(known)
    assert all(math.dist(one, other) >= 11 for one, other in combinations(dots, 2))
    assert all(f">{name}</text>" in svg for name, _, _ in known)


def test_the_release_target_is_written_beside_the_line_without_a_crowd() -> None:
    svg = trade_off([Pair(*one, 1e-6) for one in CLOSE], "theme", target=1.0)
    x, y = map(float, re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>release target', svg)[0])
    line = re.findall(r'<line x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)"[^>]*stroke-width="1.6"', svg)
    x1, y1, x2, y2 = map(float, line[0])
    height = [y1 + (y2 - y1) * (at - x1) / (x2 - x1) for at in (x, x + 7 * len("release target 1"))]
    assert max(height) < y - 6 or min(height) > y + 6


def test_the_page_begins_with_what_gives_away_most_in_numbers_of_a_hundred(populated: Visited) -> None:
    text = " ".join(populated.page("/privacy").text.split())
    start = text.index("What can someone learn about me?")
    assert start < text.index("Who could learn what") < text.index("The ledger: what it cost so far")
    newest = populated.get("/v1/releases?from=2027-01-14").json()["releases"]
    worst = max(newest, key=lambda one: one["local_epsilon"])
    assert f"gave to the metric {worst['metric']}" in text
    for guess in (guessed_right(worst["epsilon"], worst["delta"]), guessed_right(worst["local_epsilon"])):
        assert f"{formatting.out_of_hundred(guess).split()[0]} out of 100, at most" in text
    total = populated.get("/v1/privacy").json()["total"]
    assert formatting.out_of_hundred(guessed_right(total["epsilon"], total["delta"])).split()[0] in text
    assert "if both parties work together" in text.lower()
    chosen = " ".join(populated.page("/privacy?metric=dark_mode").text.split())
    assert "gave to the metric dark_mode" in chosen


def test_the_trade_off_is_a_file_too(populated: Visited) -> None:
    light = populated.get("/chart/tradeoff/dark_mode.svg")
    assert light.headers["content-type"] == "image/svg+xml"
    assert light.text.count("<title>") == 3
    assert populated.get("/chart/tradeoff/dark_mode.png").content.startswith(b"\x89PNG")
