"""The planner and the privacy command: what they promise is what the accountant certifies."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from hubbub.accounting import AnyRandomizer, compose, guarantee, min_reports
from hubbub.accounting.codebook_plan import min_batch, plan
from hubbub.accounting.min_batch_sizes import with_batch_sizes
from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub.mechanisms import Categories, KaryRandomizedResponse
from hubbub_cli.all_commands import hubbub as command
from tests.support.paths import ROOT

EXAMPLE = ROOT / "examples" / "metrics.toml"


@pytest.fixture(scope="module")
def codebook() -> Codebook:
    return Codebook.load(EXAMPLE)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_min_batch_is_just_enough_for_the_honest_part(codebook: Codebook) -> None:
    for metric in codebook.metrics:
        batch = min_batch(metric, codebook)
        target, delta = float(codebook.collection.release_epsilon), float(codebook.collection.release_delta)
        assert guarantee(metric.mechanism, int(batch * codebook.collection.honest_fraction), delta).epsilon <= target
        fewer = int((batch - 2) * codebook.collection.honest_fraction)
        assert guarantee(metric.mechanism, fewer, delta).epsilon > target


def test_a_plan_says_what_the_accountant_says(codebook: Codebook) -> None:
    made = plan(codebook, devices=5000, periods=7)
    for one in made.metrics:
        assert one.guarantee == guarantee(one.metric.mechanism, 4500, Fraction(1, 10**8))
        assert one.composed == compose([(one.metric.mechanism, 4500, 7)], Fraction(1, 10**8))
        assert one.released
    together = [(one.metric.mechanism, 4500, 1) for one in made.metrics]
    assert made.device_period == compose(together, Fraction(1, 10**8))


def test_a_target_out_of_reach_comes_with_what_to_change(codebook: Codebook) -> None:
    theme = next(one for one in plan(codebook, devices=500).metrics if one.metric.name == "theme")
    assert not theme.released
    advice = " ".join(theme.advice)
    assert advice.startswith(f"needs {theme.min_batch:,} reports")
    assert "longer period" in advice
    smaller = float(advice.split("with epsilon = ")[1].split()[0])
    easier = KaryRandomizedResponse.calibrate(smaller, Categories(4))
    assert guarantee(easier, 450, 1e-8).epsilon <= 0.5
    harder = KaryRandomizedResponse.calibrate(round(smaller + 0.01, 2), Categories(4))
    assert guarantee(harder, 450, 1e-8).epsilon > 0.5


def test_advice_is_about_the_file_that_a_compiled_codebook_comes_from(codebook: Codebook) -> None:
    """Its `min_batch` was worked out for the old epsilon: another epsilon gets another one."""
    frozen = with_batch_sizes(codebook)
    (now,) = [one for one in plan(frozen, devices=500, is_frozen=True).metrics if one.metric.name == "theme"]
    (before,) = [one for one in plan(codebook, devices=500).metrics if one.metric.name == "theme"]
    assert now.min_batch == before.min_batch
    assert "min_batch of" not in " ".join(now.advice)
    assert [line.partition(": edit metrics.toml and compile it again")[0] for line in now.advice] == list(before.advice)
    assert any(line.endswith("compile it again") for line in now.advice)


def test_a_min_batch_that_a_person_wrote_is_named_as_what_holds_a_release_back() -> None:
    text = EXAMPLE.read_text().replace('type = "boolean"', 'type = "boolean"\nmin_batch = 5000')
    for read, again in ((Codebook.from_toml(text), ""), (with_batch_sizes(Codebook.from_toml(text)), " and compile")):
        (dark_mode,) = [
            one for one in plan(read, 2000, is_frozen=bool(again)).metrics if one.metric.name == "dark_mode"
        ]
        said = " ".join(dark_mode.advice)
        assert "its min_batch of 5,000 is above the 158 that the release target needs" in said
        assert f"lower it in metrics.toml{again}" in said
        assert "with epsilon" not in said, "a smaller epsilon would change nothing"


@pytest.mark.parametrize(("devices", "periods"), [(0, 1), (1, 0), (True, 1), (2.5, 1)])
def test_impossible_plans_are_refused(codebook: Codebook, devices: int, periods: int) -> None:
    with pytest.raises(InvalidParameter, match="whole number"):
        plan(codebook, devices, periods)


def test_a_single_device_is_answered_not_crashed(codebook: Codebook) -> None:
    assert all(not one.released and one.guarantee is None for one in plan(codebook, devices=1).metrics)


def test_the_plan_command_prints_rows_and_json() -> None:
    answer = json.loads(run("plan", str(EXAMPLE), "--devices", "2000", "--periods", "30", "--json"))
    assert set(answer["metrics"]) == {"dark_mode", "theme", "startup_ms"}
    for metric in answer["metrics"].values():
        assert metric["released"]
        assert (
            metric["per_period"]["epsilon"] < metric["after_periods"]["epsilon"] < 30 * metric["per_period"]["epsilon"]
        )
    assert answer["device_total"]["epsilon"] > answer["device_period"]["epsilon"]
    shown = run("plan", str(EXAMPLE), "--devices", "2000")
    assert "an assumption that nothing enforces" in " ".join(shown.split())
    assert "eps x1" not in shown
    assert "The rule:" not in shown
    assert shown.splitlines()[1].startswith("dark_mode"), "in the order of the file"
    assert "theme: krr: n x variance" in run("plan", str(EXAMPLE), "--devices", "2000", "--why")
    assert "eps x30" in run("plan", str(EXAMPLE), "--devices", "2000", "--periods", "30")
    few = run("plan", str(EXAMPLE), "--devices", "500")
    assert "\n! theme: needs 874 reports a period" in few


@pytest.mark.full  # seven seconds; every day test_simulate.py draws with the same engine
@pytest.mark.parametrize("name", ["plan.svg", pytest.param("plan.png", marks=pytest.mark.full)])
def test_the_plan_is_drawn(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    run("plan", str(EXAMPLE), "--devices", "1000", "--plot", str(target))
    drawn = target.read_bytes()
    assert drawn.startswith(b"<svg" if name.endswith("svg") else b"\x89PNG")
    assert len(drawn) > 5000
    if name.endswith("svg"):
        assert b"devices per period" in drawn
        assert b"startup_ms" in drawn


def test_the_privacy_command_prints_the_guarantee() -> None:
    answer = json.loads(
        run(
            "privacy",
            "--mechanism",
            "krr",
            "--size",
            "10",
            "--epsilon",
            "4",
            "--reports",
            "100000",
            "--delta",
            "1e-6",
            "--json",
        )
    )
    assert answer["epsilon"] == pytest.approx(0.109909, rel=1e-3)
    assert (answer["method"], answer["adjacency"], answer["reports"]) == ("blanket", "replacement", 100_000)
    assert answer["local_epsilon"] == 4
    assert answer["assumptions"]


def test_any_randomizer_gets_the_bound_that_holds_for_all() -> None:
    answer = json.loads(run("privacy", "--any", "--epsilon", "4", "--reports", "100000", "--delta", "1e-6", "--json"))
    assert answer["method"] == "extremal-pair"
    assert answer["epsilon"] == pytest.approx(0.11815, rel=1e-3)
    assert answer["epsilon"] == guarantee(AnyRandomizer(4), 100_000, 1e-6).epsilon


@pytest.mark.everyday("options[02]")
@pytest.mark.parametrize(
    "options",
    [
        ["--mechanism", "rr"],
        ["--mechanism", "duchi"],
        ["--mechanism", "laplace", "--steps", "8"],
        ["--mechanism", "matrix", "--matrix", "[[0.7, 0.4], [0.3, 0.6]]"],
    ],
)
def test_every_mechanism_can_be_asked_about(options: list[str]) -> None:
    answer = json.loads(run("privacy", *options, "--epsilon", "1", "--reports", "1000", "--times", "4", "--json"))
    assert 0 < answer["epsilon"] < answer["composed"]["epsilon"] < 4 * answer["epsilon"]


def test_more_dishonest_reports_mean_a_weaker_promise() -> None:
    shown = json.loads(
        run(
            *("privacy", "--mechanism", "rr", "--epsilon", "1", "--reports", "1000"),
            *("--dishonest", "0", "--dishonest", "100", "--dishonest", "900", "--json"),
        )
    )
    epsilons = [point["epsilon"] for point in shown["curve"]]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] == shown["epsilon"]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--any", "--mechanism", "rr"],
        ["--mechanism", "krr"],
        ["--mechanism", "matrix", "--matrix", "[["],
        ["--mechanism", "nothing"],
        ["--any", "--delta", "2"],
    ],
)
def test_contradictory_options_are_refused(options: list[str]) -> None:
    result = CliRunner().invoke(command, ["privacy", "--epsilon", "1", "--reports", "100", *options])
    assert result.exit_code == 2


def test_a_smaller_batch_never_suffices(codebook: Codebook) -> None:
    rr = codebook.metric("dark_mode").mechanism
    least = min_reports(rr, 0.3, 1e-6)
    assert guarantee(rr, least, 1e-6).epsilon <= 0.3 < guarantee(rr, least - 1, 1e-6).epsilon
