"""The choice among mechanisms: the best that fits, near the least possible, and said why."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.mechanisms.least import least_mean_variance
from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import (
    REPORT_BYTES,
    Bounds,
    Categories,
    KaryRandomizedResponse,
    Mechanism,
    choose,
    explain,
    registered,
    select,
)
from hubbub.mechanisms._least_variance import frequencies
from hubbub_cli.all_commands import hubbub as command

SIZES = (2, 16, 128, 1024, 65_536)
EPSILONS = (0.5, 1, 2, 4)
UNIT = Bounds(Fraction(-1), Fraction(1))
GRID = [(size, epsilon) for size in SIZES for epsilon in EPSILONS]


# -- how good it is --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 16, 100])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 4, 30])
def test_the_optimum_is_that_of_ye_and_barg_without_the_sampling_of_devices(size: int, epsilon: float) -> None:
    """min over all k of (d-1)^2 (kz+d-k)^2 / (d (z-1)^2 k (d-k)), in exact arithmetic, less 1 - 1/d."""
    z, d = Fraction(math.exp(epsilon)), size
    total = min(
        Fraction((d - 1) ** 2) * (k * z + d - k) ** 2 / (d * (z - 1) ** 2 * k * (d - k)) for k in range(1, size)
    )
    assert frequencies(size, epsilon) == pytest.approx(float((total - 1 + Fraction(1, d)) / d), rel=1e-9)


@pytest.mark.parametrize(("size", "epsilon"), GRID)
def test_the_default_is_within_a_tenth_of_the_least_possible_error(size: int, epsilon: float) -> None:
    chosen = choose(Categories(size), epsilon)
    assert chosen.report_bytes <= REPORT_BYTES
    assert 1 - 1e-9 <= chosen.typical_variance() / frequencies(size, epsilon) <= 1.10


@pytest.mark.everyday("1")
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_default_mean_is_near_the_least_worst_case_variance(epsilon: float) -> None:
    """Held to the linear programme on 9 inputs, which is easier than any randomizer's task on the whole interval."""
    chosen = choose(UNIT, epsilon)
    assert chosen.typical_variance() <= 1.15 * least_mean_variance(epsilon)
    assert chosen.typical_variance() <= 8 / epsilon**2 / 1.8, "and 1.8 times below Laplace noise"


# -- the rule --------------------------------------------------------------------------------------


def test_two_values_get_randomized_response() -> None:
    assert all(choose(Categories(2), epsilon).name == "rr" for epsilon in EPSILONS)


@pytest.mark.parametrize(("size", "epsilon"), GRID)
@pytest.mark.parametrize("limit", [2, 8, REPORT_BYTES, 20_000])
def test_the_lowest_variance_wins_and_within_two_per_cent_the_smaller_report(
    size: int, epsilon: float, limit: int
) -> None:
    made = select(Categories(size), epsilon, limit)
    fitting = [
        (one.variance, one.report_bytes)
        for one in made.candidates
        if one.mechanism is not None and not one.mechanism.reserved
        if one.variance is not None and one.report_bytes is not None and one.report_bytes <= limit
    ]
    best = min(variance for variance, _ in fitting)
    assert (made.variance, made.mechanism.report_bytes) in fitting
    assert made.variance <= 1.02 * best
    assert made.mechanism.report_bytes == min(size for variance, size in fitting if variance <= 1.02 * best)


def test_what_only_a_person_may_choose_is_never_chosen_but_named() -> None:
    fitting = {name: cls for name, cls in registered().items() if cls.fits(Categories(60))}
    by_hand = {name for name, cls in fitting.items() if cls.reserved or cls.needs_options}
    assert "matrix" in by_hand
    for epsilon in EPSILONS:
        made = select(Categories(60), epsilon, None)
        assert made.mechanism.name not in by_hand
        assert {one.name for one in made.candidates} == set(fitting)
        assert all(name in made.why for name in by_hand)


def test_a_choice_is_quick_even_over_the_longest_list() -> None:
    """Counted in calls and not in seconds: only closed forms, so the work does not grow with the list."""
    import cProfile
    import pstats

    def calls(size: int) -> int:
        profile = cProfile.Profile()
        profile.runcall(select, Categories(size), 1)
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]  # documented, not typed

    assert calls(65_536) < 20 * calls(64)


def test_too_short_a_limit_names_the_least() -> None:
    with pytest.raises(InvalidParameter, match=r"needs 2: raise report_bytes to 2, or shorten the list"):
        select(Categories(65_536), 1, 1)
    with pytest.raises(InvalidParameter, match="whole number"):
        select(Categories(4), 1, 1.5)  # type: ignore[arg-type]  # what a caller without a type checker may do


# -- what is said ----------------------------------------------------------------------------------


def test_the_reasons_name_every_candidate_with_its_figures() -> None:
    made = select(Categories(1024), 1)
    for one in made.candidates:
        assert one.name in made.why
        if one.variance is not None and one.against:
            assert f"{one.variance:.4g}" in made.why
    assert made.why.startswith(f"{made.mechanism.name}: n x variance {made.variance:.4g}")
    assert f"{made.variance / frequencies(1024, 1):.2f} of the least possible" in made.why


def test_a_named_mechanism_is_told_what_the_default_would_be() -> None:
    default = choose(Categories(1024), 1)
    assert explain(default) == select(Categories(1024), 1).why
    said = explain(KaryRandomizedResponse.calibrate(1, Categories(1024)))
    assert default.name in said
    assert "times its variance" in said


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(command, ["select", *arguments])


def test_the_command_prints_the_five_keys() -> None:
    shown = invoke("--type", "category", "--size", "1024", "--epsilon", "1", "--report-bytes", "32", "--json")
    found = json.loads(shown.stdout)
    assert list(found) == ["mechanism", "parameters", "variance", "report_bytes", "why"]
    rebuilt: Mechanism[Any] = registered()[found["mechanism"]].from_parameters(1, Categories(1024), found["parameters"])
    assert rebuilt.typical_variance() == found["variance"]
    assert rebuilt.report_bytes == found["report_bytes"] <= 32


def test_the_table_marks_the_choice_and_the_reasons_stay_out_of_a_pipe() -> None:
    shown = invoke("--type", "mean", "--epsilon", "1")
    marked = [line for line in shown.stdout.splitlines() if line.startswith("*")]
    assert [line.split()[1] for line in marked] == [choose(UNIT, 1).name]
    assert "n x variance" in shown.stderr
    assert "n x variance" not in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--type", "category", "--epsilon", "1"], "needs --size"),
        (["--type", "mean", "--size", "4", "--epsilon", "1"], "leave the size out"),
        (["--type", "boolean", "--epsilon", "1", "--report-bytes", "0"], "--report-bytes"),
        (["--type", "boolean"], "--epsilon"),
        (["--type", "strings", "--epsilon", "1"], "boolean"),
        (["--type", "category", "--size", "65536", "--epsilon", "1", "--report-bytes", "1"], "raise report_bytes"),
        (["--type", "boolean", "--epsilon", "99"], "between 0.0001 and 30"),
        (["--type", "category", "--size", "1", "--epsilon", "1"], "between 2 and 65536"),
    ],
)
def test_mistakes_say_what_to_do(arguments: list[str], said: str) -> None:
    failed = invoke(*arguments)
    assert failed.exit_code != 0
    assert said in failed.output + str(failed.exception)


# -- in a codebook ---------------------------------------------------------------------------------

COLLECTION = """
[collection]
name = "c"
period = "1d"
device_epsilon = 4
release = { epsilon = 1, delta = 1e-6 }
[metrics.m]
type = "category"
epsilon = 1
"""


def test_a_codebook_takes_the_default_limit_and_freezes_the_choice() -> None:
    values = f"values = {json.dumps([f'v{index}' for index in range(1024)])}\n"
    metric = Codebook.from_toml(COLLECTION + values).metric("m")
    assert metric.mechanism == choose(Categories(1024), 1, REPORT_BYTES)
    compiled = Codebook.from_toml(COLLECTION + values)
    assert Codebook.from_compiled(compiled.to_bytes()).metric("m").mechanism == metric.mechanism
