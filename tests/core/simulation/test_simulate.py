"""`hubbub simulate`: what it prints, that a seed repeats it, and what it says when nothing would be released."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hubbub.accounting import guarantee, honest_reports_in_part
from hubbub.codebook import Codebook
from hubbub.errors import HubbubError
from hubbub_cli.all_commands import hubbub
from hubbub_cli.simulator.release_prediction import verdict

TEXT = """
[collection]
name = "simulated"
period = "1d"
device_epsilon = 20
release = { epsilon = 0.5, delta = 1e-6 }
[metrics.dark]
type = "boolean"
epsilon = 1
[metrics.theme]
type = "category"
values = ["light", "dark", "sepia", "other"]
other = "other"
epsilon = 2
mechanism = "krr"
[metrics.load]
type = "mean"
bounds = [0, 10]
epsilon = 1
mechanism = "laplace"
[metrics.off]
type = "boolean"
epsilon = 1
enabled = false
"""
ROWS = ["true,light,3", "false,dark,4.5", ",odd,", "false,light,99"] * 250
METRIC_KEYS = ["type", "mechanism", "reports", "privacy", "values", "coverage"]
VALUE_KEYS = ["value", "truth", "estimate", "stderr", "low", "high", "shown"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "metrics.toml").write_text(TEXT)
    (tmp_path / "devices.csv").write_text("\n".join(["dark,theme,load", *ROWS]))
    return ["--codebook", str(tmp_path / "metrics.toml"), "--data", str(tmp_path / "devices.csv")]


def simulate(*options: str) -> Result:
    result = CliRunner().invoke(hubbub, ["simulate", *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit | HubbubError):
        raise result.exception
    return result


def answer(*options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(simulate(*options, "--json").stdout)
    return found


def test_json_has_exactly_what_is_documented(files: list[str]) -> None:
    found = answer(*files, "--seed", "1", "--repeat", "3")
    assert list(found) == ["metrics"]
    assert sorted(found["metrics"]) == ["dark", "load", "theme"]
    for metric in found["metrics"].values():
        assert list(metric) == METRIC_KEYS
        assert list(metric["privacy"]) == ["local_epsilon", "epsilon", "delta", "method"]
        assert [list(row) for row in metric["values"]] == [VALUE_KEYS] * len(metric["values"])
        assert 0 <= metric["coverage"] <= 1
    dark, theme, load = (found["metrics"][name] for name in ("dark", "theme", "load"))
    assert (dark["type"], dark["mechanism"], dark["reports"]) == ("boolean", "rr", 750)
    assert [row["value"] for row in dark["values"]] == [False, True]
    assert [row["value"] for row in theme["values"]] == ["light", "dark", "sepia", "other"]
    assert [row["truth"] for row in theme["values"]] == [0.5, 0.25, 0, 0.25]
    assert [(row["value"], row["truth"]) for row in load["values"]] == [(None, (3 + 4.5 + 10) / 3)]
    assert theme["privacy"]["local_epsilon"] == pytest.approx(2)


def test_the_guarantee_is_that_of_the_honest_part_of_the_reports(files: list[str]) -> None:
    privacy = answer(*files, "--seed", "1")["metrics"]["theme"]["privacy"]
    promised = guarantee(Codebook.from_toml(TEXT).metric("theme").mechanism, 900, 1e-6)
    assert (privacy["epsilon"], privacy["method"]) == (promised.epsilon, promised.method)


def test_a_seed_repeats_a_run_and_another_does_not(files: list[str]) -> None:
    options = [*files, "--devices", "5000", "--repeat", "2"]
    first = simulate(*options, "--seed", "7")
    assert first.stdout == simulate(*options, "--seed", "7").stdout
    assert first.stdout != simulate(*options, "--seed", "8").stdout
    unseeded = simulate(*options)
    seed = unseeded.stderr.split("--seed ")[1].split()[0]
    assert unseeded.stdout == simulate(*options, "--seed", seed).stdout


def test_a_metric_has_the_same_numbers_whatever_others_there_are(files: list[str], tmp_path: Path) -> None:
    before = answer(*files, "--seed", "7")["metrics"]["theme"]
    (tmp_path / "metrics.toml").write_text(TEXT.replace("[metrics.dark]", "[metrics.dark]\nenabled = false"))
    assert answer(*files, "--seed", "7")["metrics"]["theme"] == before


def test_text_shows_truth_error_coverage_and_both_guarantees(files: list[str]) -> None:
    result = simulate(*files, "--seed", "1", "--repeat", "20")
    for line in (
        "category by krr: 1,000 reports",
        "95% intervals, each value by itself: ",
        "of 80 in 20 repeats hold the truth",
        "recall of the 2 largest: ",
        "if shuffler and aggregator collude: eps 2",
        "in root mean square",
    ):
        assert line in result.stdout
    assert "load: 250 of 1,000 values are out of bounds and clamped" in result.stderr
    assert "dark: 250 of 1,000 devices have nothing to report" in result.stderr
    assert "NOT" not in result.stdout


def test_too_few_devices_are_told_that_nothing_would_be_released(files: list[str]) -> None:
    needed = verdict(Codebook.from_toml(TEXT).metric("theme"), Codebook.from_toml(TEXT), 100).needed
    result = simulate(*files, "--seed", "1", "--devices", "120")
    told = " ".join(result.stdout.split())
    assert f"! theme would NOT be released: 120 reports are fewer than the {needed:,} reports" in told
    assert "The figures below are what the release would have been." in told
    assert "privacy: would be eps " in told
    as_json = simulate(*files, "--seed", "1", "--devices", "120", "--json")
    assert json.loads(as_json.stdout)["metrics"]["theme"]["values"]
    assert "theme would NOT be released" in as_json.stderr


def test_what_no_batch_can_meet_is_not_released_either() -> None:
    book = Codebook.from_toml(TEXT.replace("epsilon = 0.5, delta = 1e-6", "epsilon = 1e-7, delta = 1e-12"))
    found = verdict(book.metric("dark"), book, 10**6)
    assert (found.needed, found.released) == (None, False)


def test_a_crowd_above_the_largest_batch_is_promised_what_its_parts_are() -> None:
    book = Codebook.from_toml(TEXT)
    found = verdict(book.metric("dark"), book, 10_000_000)
    assert found.parts == 10
    failure = Fraction(1, 10**7)
    assert found.guarantee.reports == honest_reports_in_part(1_000_000, "0.9", failure) == 898_292
    assert found.guarantee.delta == 1e-6


def test_plots_are_drawn_and_refused_before_the_work(files: list[str], tmp_path: Path) -> None:
    picture = tmp_path / "sim.svg"
    simulate(*files, "--seed", "1", "--plot", str(picture))
    drawn = picture.read_text()
    for text in ("theme", "truth", "estimate and interval", "sepia", "eps"):
        assert text in drawn
    assert "ends in .svg or .png" in simulate(*files, "--plot", "sim.pdf").stderr
    assert "there is no folder" in simulate(*files, "--plot", str(tmp_path / "none" / "sim.svg")).stderr


def test_a_codebook_without_an_enabled_metric_has_nothing_to_simulate(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "metrics.toml").write_text(TEXT[: TEXT.index("[metrics.dark]")] + TEXT[TEXT.index("[metrics.off]") :])
    assert "nothing to simulate" in str(simulate(*files).exception)


@pytest.mark.full
def test_the_full_path_answers_in_the_same_shape_and_repeats(files: list[str]) -> None:
    options = [*files, "--seed", "3", "--repeat", "2", "--path", "full"]
    found = answer(*options)
    fast = answer(*files, "--seed", "3", "--repeat", "2")
    assert found == answer(*options)
    for name, metric in found["metrics"].items():
        assert list(metric) == METRIC_KEYS
        assert metric["privacy"] == fast["metrics"][name]["privacy"]
        assert metric["reports"] == fast["metrics"][name]["reports"]
        assert [row["truth"] for row in metric["values"]] == [row["truth"] for row in fast["metrics"][name]["values"]]
