"""What is said in words and digits is true, and a guarantee is never said to be better than it is."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.mechanisms import Bounds, Categories, mechanism, registered
from hubbub_aggregator.dashboard import words
from hubbub_aggregator.dashboard.mechanism_words import hiding, paragraph, rebuilt
from hubbub_aggregator.dashboard.pages.privacy import believed
from hubbub_aggregator.models import MechanismModel

_THIN = "\N{NARROW NO-BREAK SPACE}"


@given(st.floats(1e-9, 1e6))
def test_epsilon_is_rounded_up_and_not_far(number: float) -> None:
    shown = float(words.epsilon(number).replace(_THIN, ""))
    assert shown >= number * (1 - 1e-9)
    assert shown <= number * 1.0101


@given(st.floats(1e-30, 1.0))
def test_delta_is_rounded_up_and_not_far(number: float) -> None:
    text = words.delta(number).replace("10", "1e", 1) if "×" not in words.delta(number) else words.delta(number)
    front, _, power = text.rpartition(" × ")
    digits = power.removeprefix("1e").removeprefix("10")
    exponent = int("".join("-" if c == "⁻" else str("⁰¹²³⁴⁵⁶⁷⁸⁹".index(c)) for c in digits))
    shown = float(front or 1) * 10.0**exponent
    assert shown >= number * (1 - 1e-7)
    assert shown <= number * 1.0101


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0.3333, "33.3 %"), (-0.00001, "0.0 %"), (-0.0123, "−1.2 %"), (1.0, "100.0 %"), (None, "–")],
)
def test_shares_are_percentages(number: float | None, shown: str) -> None:
    assert words.share(number) == shown.replace(" ", _THIN)


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (812.4, "812"), (1234.5, "1 234"), (3.14159, "3.14"), (-42.42, "−42.4"), (3.96e14, "3.96 × 10¹⁴")],
)
def test_means_have_as_many_digits_as_help(number: float, shown: str) -> None:
    assert words.amount(number).replace(_THIN, " ") == shown


@pytest.mark.parametrize("name", sorted(registered()))
def test_every_mechanism_is_explained_with_the_numbers_that_run(name: str) -> None:
    cls = mechanism(name)
    for built in cls.examples(1.0):
        said = hiding(built)
        assert said.startswith("Each device ")
        assert said.endswith(".")
        assert not re.search(r"None|nan|inf|Fraction|[{}<>]", said)
        p = getattr(built, "p", None)
        if isinstance(p, Fraction) and name in {"rr", "krr"}:
            assert words.probability(float(p)) in said


def test_truth_with_probability_three_quarters_is_said_so() -> None:
    built = mechanism("rr").calibrate("1.0986", Categories(2))
    assert "tells the truth with probability 0.75 " in hiding(built)
    model = MechanismModel(name="rr", epsilon=1.0986, parameters=built.parameters())
    assert "more than 3.00 times as likely" in paragraph(model, rebuilt(model, 2, None))


def test_a_mechanism_of_tomorrow_is_explained_by_what_all_have() -> None:
    model = MechanismModel(name="of-tomorrow", epsilon=2.0, parameters={})
    assert rebuilt(model, 4, None) is None
    said = paragraph(model, None)
    assert "of-tomorrow" in said
    assert "local ε, 2 " in said


def test_a_mean_is_rebuilt_from_its_bounds() -> None:
    built = mechanism("laplace").calibrate(1.0, Bounds(Fraction("0.1"), Fraction(3)))
    model = MechanismModel(name="laplace", epsilon=1.0, parameters=built.parameters())
    assert rebuilt(model, 1, (0.1, 3.0)) == built


@given(st.floats(0.001, 0.999), st.floats(0, 10))
def test_belief_grows_by_no_more_than_the_odds_allow(before: float, epsilon: float) -> None:
    after = believed(before, epsilon)
    assert before - 1e-12 <= after < 1
    assert after / (1 - after) == pytest.approx(before / (1 - before) * math.exp(epsilon), rel=1e-6)
