"""Open epsilons: worked out while compiling, certified at the crowd that is left, within cap and budget."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import pytest
from click.testing import CliRunner

from hubbub.accounting import guarantee, honest_reports
from hubbub.accounting.auto_epsilon import solve_open_epsilons
from hubbub.accounting.budget_split import Asked, split
from hubbub.accounting.codebook_plan import plan
from hubbub.accounting.min_batch_sizes import with_batch_sizes
from hubbub.accounting.release_choice import choose_for_release
from hubbub.accounting.release_target import Target
from hubbub.codebook import Codebook, Metric, diff
from hubbub.errors import CodebookError
from hubbub.mechanisms import Bounds, Categories, choose
from hubbub_cli.all_commands import hubbub as command

HEAD = """
[collection]
name = "photo-app"
period = "1d"
device_epsilon = {budget}
release = {{ epsilon = {target}, delta = 1e-8 }}
devices = 50000
{more}
"""
THEME = """
[metrics.theme]
type = "category"
values = ["light", "dark", "system", "other"]
other = "other"
missing = "other"
"""
CRASHED = """
[metrics.crashed]
type = "boolean"
missing = false
"""
START = """
[metrics.start]
type = "mean"
bounds = [0, 5000]
"""
AUTO = 'epsilon = "auto"\n'
CAP = "local_epsilon_cap = 4"


def solved(*parts: str, budget: str = "20", target: str = "0.5", more: str = CAP) -> Codebook:
    text = HEAD.format(budget=budget, target=target, more=more) + "".join(parts)
    return Codebook.from_toml(text, solve=solve_open_epsilons)


def findings(*parts: str, budget: str = "20", target: str = "0.5", more: str = CAP) -> str:
    with pytest.raises(CodebookError) as refused:
        solved(*parts, budget=budget, target=target, more=more)
    return str(refused.value)


def is_on_target(metric: Metric, codebook: Codebook, reports: int) -> bool:
    """Whether the integers alone, checked from the start, meet the target for so many reports."""
    rules, one = codebook.collection, metric.mechanism
    again = type(one).from_parameters(one.epsilon, one.domain, one.parameters())
    honest = honest_reports(reports, rules.honest_fraction)
    return guarantee(again, honest, rules.release_delta).epsilon <= rules.release_epsilon


# -- auto ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [THEME, CRASHED, START], ids=["category", "boolean", "mean"])
def test_the_epsilon_is_the_largest_that_the_remaining_crowd_is_certified_for(part: str) -> None:
    codebook = solved(part, AUTO, "local_epsilon_cap = 30", budget="30")
    (metric,) = codebook.metrics
    assert is_on_target(metric, codebook, 40_000), "at the margin of 0.8"
    more = type(metric.mechanism).calibrate(metric.epsilon + Fraction(1, 50), metric.mechanism.domain)
    honest = honest_reports(40_000, codebook.collection.honest_fraction)
    assert guarantee(more, honest, codebook.collection.release_delta).epsilon > codebook.collection.release_epsilon
    (frozen,) = with_batch_sizes(codebook).metrics
    assert frozen.min_batch is not None
    assert 0.98 * 40_000 < frozen.min_batch <= 40_000


def test_a_cap_holds_whatever_the_crowd_allows() -> None:
    capped = solved(THEME, AUTO, CRASHED, AUTO, "local_epsilon_cap = 2.5\n")
    assert {metric.name: metric.epsilon for metric in capped.metrics} == {"theme": 4, "crashed": Fraction(5, 2)}


def test_without_a_cap_the_error_says_what_each_would_buy() -> None:
    said = findings(THEME, AUTO, more="")
    assert "metrics.theme.epsilon" in said
    assert "needs a cap" in said
    for cap in ("1: ±", "2: ±", "4: ±", "none, which comes to "):
        assert cap in said
    for most in (1, 2, 4):
        asked = Target(Fraction(1, 2), Fraction("1e-8"), 36_000, 40_000)
        error = choose_for_release(Categories(4), asked, most).error * NormalDist().inv_cdf(0.975)
        assert f"{most}: ±{100 * error:.2g}%" in said


def test_a_written_epsilon_is_held_to_the_cap_too() -> None:
    assert "above the local_epsilon_cap of 4" in findings(THEME, "epsilon = 5\n")
    assert solved(THEME, "epsilon = 4\n").metrics[0].epsilon == 4


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("epsilon = 1\nerror = 0.01\n", "cannot both decide"),
        ("epsilon = 1\nconfidence = 0.9\n", "nothing to be confident of"),
        (AUTO + 'mechanism = { name = "subset", count = 2 }\n', "name the mechanism only"),
        (AUTO + 'mechanism = "matrix"\n', "what a person designs"),
        (AUTO + 'mechanism = "laplace"\n', "laplace does not fit"),
        (AUTO + "devices = 1\n", "none of them surely honest"),
        (AUTO + "local_epsilon_cap = 31\n", "between 0.0001 and 30"),
        (AUTO + "importance = 0\n", "above 0"),
        ("error = 0.0001\n", "is out of reach with 40,000 reports: the cap of 4 allows ±"),
        ('epsilon = "car"\n', "expected a number"),
    ],
)
def test_what_cannot_be_worked_out_is_said(part: str, said: str) -> None:
    assert said in findings(THEME, part)


def test_devices_are_needed() -> None:
    with pytest.raises(CodebookError, match="does not say how many devices"):
        Codebook.from_toml(
            HEAD.format(budget=9, target=1, more=CAP).replace("devices = 50000\n", "") + THEME + AUTO,
            solve=solve_open_epsilons,
        )


def test_a_service_or_a_device_works_nothing_out() -> None:
    """Neither gives a solver: only compiling does."""
    for part in (AUTO, "error = 0.01\n"):
        with pytest.raises(CodebookError, match="hubbub codebook compile"):
            Codebook.from_toml(HEAD.format(budget=9, target=1, more=CAP) + THEME + part)


def test_a_named_mechanism_is_kept() -> None:
    (metric,) = solved(THEME, AUTO, 'mechanism = "subset"\n').metrics
    assert metric.mechanism.name == "subset"


# -- error -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [THEME, CRASHED], ids=["category", "boolean"])
def test_an_error_gets_the_smallest_epsilon_that_reaches_it(part: str) -> None:
    codebook = solved(part, "error = 0.008\nconfidence = 0.9\n")
    (metric,) = codebook.metrics
    quantile = NormalDist().inv_cdf(0.95)
    assert quantile * metric.expected_error(40_000) <= 0.008
    less = choose(metric.values.domain, metric.epsilon - Fraction(1, 1000))
    assert quantile * metric.values.expected_error(less, 40_000) > 0.008
    assert is_on_target(metric, codebook, 40_000)


def test_an_error_that_the_locally_best_mechanism_cannot_release_is_reached_by_another() -> None:
    """At 1,024 values another mechanism reaches it at a smaller epsilon, and reveals too much after shuffling."""
    values = json.dumps([f"v{k}" for k in range(1024)])
    wish = "error = 0.00168\ndevices = 12500\nlocal_epsilon_cap = 12\n"
    text = f'[metrics.page]\ntype = "category"\nvalues = {values}\n{wish}'
    codebook = solved(text, target="1", budget="12")
    (metric,) = codebook.metrics
    quantile = NormalDist().inv_cdf(0.975)
    assert quantile * metric.expected_error(10_000) <= 0.00168
    assert is_on_target(metric, codebook, 10_000)
    asked = Asked(metric.values.domain, Target(Fraction(1), Fraction("1e-8"), 9_000, 10_000), report_bytes=32)
    low, high = Fraction(4), metric.epsilon
    while high - low > Fraction(1, 100):
        middle = (low + high) / 2
        reaches = quantile * metric.values.expected_error(asked.locally_best(middle), 10_000) <= 0.00168
        low, high = (low, middle) if reaches else (middle, high)
    assert high < metric.epsilon - Fraction(1, 20)
    assert not asked.target.meets(asked.locally_best(high))


# -- the budget ------------------------------------------------------------------------------------


def test_a_short_budget_is_split_by_equal_relative_errors() -> None:
    wide = {"theme": Categories(4), "start": Bounds(Fraction(0), Fraction(5000)), "crashed": Categories(2)}
    target = Target(Fraction(1), Fraction("1e-8"), 36_000, 40_000)
    asked = {name: Asked(domain, target, Fraction(4), 32) for name, domain in wide.items()}
    found = split(asked, Fraction(5))
    total = sum(made.mechanism.epsilon for made in found.values())
    assert Fraction(49, 10) < total <= 5
    errors = [made.error for made in found.values()]
    assert max(errors) < 1.06 * min(errors)
    assert all(made.certified.epsilon <= 1 for made in found.values())
    weighed = split(
        {name: Asked(domain, target, Fraction(4), 32, None, Fraction(2 if name == "theme" else 1))
         for name, domain in wide.items()},
        Fraction(5),
    )  # fmt: skip
    assert weighed["theme"].error == pytest.approx(weighed["crashed"].error / 2, rel=0.06)


def test_metrics_with_auto_share_what_the_others_leave() -> None:
    codebook = solved(THEME, AUTO, CRASHED, "error = 0.01\n", START, "epsilon = 2\n", budget="5")
    spent = {metric.name: metric.epsilon for metric in codebook.metrics}
    assert spent["start"] == 2
    assert spent["theme"] + spent["crashed"] <= 3
    assert codebook.spent > Fraction(9, 2)
    assert "the rest: a budget must be above 0" in findings(THEME, AUTO, START, "epsilon = 4\n", budget="4")


# -- what is frozen --------------------------------------------------------------------------------


def test_the_numbers_are_frozen_and_the_metric_id_is_that_of_the_same_numbers_by_hand() -> None:
    worked_out = with_batch_sizes(solved(THEME, AUTO))
    by_hand = with_batch_sizes(solved(THEME, "epsilon = 4\n", 'mechanism = "krr"\n', "report_bytes = 1\n"))
    (one,), (other,) = worked_out.metrics, by_hand.metrics
    assert (one.id, one.min_batch) == (other.id, other.min_batch)
    raw = worked_out.to_bytes()
    again = Codebook.from_compiled(raw)
    assert again.to_bytes() == raw
    assert again.metrics[0].chosen_for == one.chosen_for
    notes = json.loads(raw)["metrics"][0]["notes"]["chosen_for"]
    assert notes == {"devices": 50_000, "reports": 40_000, "local_epsilon_cap": "4"}
    assert "auto" not in raw.decode()
    assert not {"devices", "devices_margin", "local_epsilon_cap"} & json.loads(raw)["collection"].keys()


def test_a_diff_says_that_the_crowd_or_the_cap_changed() -> None:
    old = solved(THEME, AUTO)
    new = solved(THEME, AUTO, "devices = 60000\n")
    assert "chosen_for" in diff(old, new).render()


def test_compile_says_what_it_worked_out(tmp_path: Path) -> None:
    file = tmp_path / "metrics.toml"
    file.write_text(HEAD.format(budget=9, target=1, more=CAP) + THEME + AUTO)
    run = CliRunner().invoke(command, ["codebook", "compile", str(file), "--out", str(tmp_path / "codebook.json")])
    assert run.exit_code == 0, run.output
    said = " ".join(run.output.split())
    assert "epsilon 4 (its cap), which is what holds if shuffler and aggregator collude" in said
    assert "From 40,000 reports: ±0.17% at 95%" in said


# -- the plan --------------------------------------------------------------------------------------


def test_a_plan_says_how_mechanisms_were_compared_and_why(tmp_path: Path) -> None:
    file = tmp_path / "metrics.toml"
    file.write_text(HEAD.format(budget=9, target=1, more="") + THEME + "epsilon = 2\n" + CRASHED + AUTO + CAP + "\n")
    run = CliRunner().invoke(command, ["plan", str(file), "--devices", "50000", "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)["metrics"]
    assert found["theme"]["compared"] == "at equal local epsilon"
    assert found["crashed"]["compared"] == "at equal certificate"
    best = found["theme"]["at_equal_certificate"]
    assert best["certified"]["epsilon"] <= 1
    assert best["standard_error"] < found["theme"]["stderr"] / 5
    assert found["crashed"]["at_equal_certificate"]["epsilon"] <= 4
    shown = " ".join(CliRunner().invoke(command, ["plan", str(file), "--devices", "50000"]).output.split())
    assert "at equal local epsilon, because the codebook fixes eps0: theme" in shown
    assert "at equal certificate, because the codebook leaves epsilon open and gives a crowd: crashed" in shown


def test_a_budget_is_allotted(tmp_path: Path) -> None:
    file = tmp_path / "metrics.toml"
    file.write_text(HEAD.format(budget=3, target=1, more="") + THEME + "epsilon = 2\n" + CRASHED + "epsilon = 1\n")
    asked = ["plan", str(file), "--devices", "50000", "--allot"]
    found = json.loads(CliRunner().invoke(command, [*asked, "--json"]).stdout)["allotment"]
    assert 2.9 < found["spent"] <= 3
    errors = {name: one["standard_error"] for name, one in found["metrics"].items()}
    assert errors["theme"] == pytest.approx(errors["crashed"], rel=0.06)
    run = CliRunner().invoke(command, [*asked, "--importance", "theme=2", "--importance", "crashed=0.5"])
    assert run.exit_code == 0, run.output
    assert "would be" in run.output
    for wrong, said in (("theme", "NAME=NUMBER"), ("teme=1", "theme"), ("theme=0", "above 0")):
        refused = CliRunner().invoke(command, [*asked, "--importance", wrong])
        assert refused.exit_code != 0
        assert said in str(refused.exception or refused.output)


def test_a_plan_without_comparison_costs_nothing_more() -> None:
    codebook = solved(THEME, AUTO)
    assert plan(codebook, 50_000).metrics[0].at_equal_certificate is None
