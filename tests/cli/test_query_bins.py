"""`hubbub query` of numbers in bins: people see only what is possible, and a count in whole numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

from hubbub_aggregator.dashboard.pages.metric_bins import bins_view
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_aggregator.models.distribution import NumberDistribution
from hubbub_cli.all_commands import hubbub
from tests.aggregator.served import served_by_http
from tests.aggregator.world import CODEBOOK, DAY, START, Site
from tests.support.unwrapped import unwrapped

ANALYST = "a-token-of-an-analyst"
BOUNDS = (20.0, 10_000.0)
CAP, REPORTS = 20, 600
METRICS = """
[metrics.wait]
type = "distribution"
bounds = [20, 10000]
epsilon = 1.0
min_batch = 400
[metrics.recipes]
type = "count"
cap = 20
unit = "recipes"
epsilon = 3.0
min_batch = 400
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[str]:
    """The address of an aggregator with two days of `recipes`, and one of each other metric."""
    text = CODEBOOK.partition("[metrics.startup_ms]")[0].replace("device_epsilon = 6.0", "device_epsilon = 12.0")
    site = Site.open(tmp_path_factory.mktemp("served"), pool, text + METRICS)
    for day in range(2):
        site.clock.now = START + day * DAY + 3600
        site.service.tick()
        site.settle(site.batch("recipes", [0] * 2500 + [2] * 2000 + [25] * 1500, seed=day))
    site.settle(site.batch("theme", ["light"] * REPORTS))
    site.settle(site.batch("wait", [30.0] * REPORTS))
    site.close()
    site.settings = type(site.settings)(
        codebook=site.codebook, state_dir=site.state_dir, analyst_token=SecretStr(ANALYST)
    )
    site.start()
    with served_by_http(site.service) as address:
        yield address
    site.close()


def query(served: str, *arguments: str) -> Result:
    return CliRunner(env={"HUBBUB_TOKEN": ANALYST, "HUBBUB_ADDRESS": served}).invoke(hubbub, ["query", *arguments])


def answer(served: str, metric: str) -> NumberDistribution:
    found = query(served, metric, "--json", "--quantiles", "0.25,0.5,0.99")
    assert found.exit_code == 0, found.output
    return NumberDistribution.model_validate(json.loads(found.stdout))


def numbers(line: str) -> list[float]:
    return [
        float(text.replace(",", "")) for text in re.findall(r"-?\d[\d,]*\.?\d*", line.replace("\N{MINUS SIGN}", "-"))
    ]


def test_people_see_possible_numbers_and_programs_the_raw_ones(served: str) -> None:
    """All devices hold a number of the first bin, and the noise of 600 reports at epsilon 1 is wide."""
    raw = answer(served, "wait")
    mean = raw.segments[-1].mean
    assert mean.low is not None
    assert mean.low < BOUNDS[0], "else this test shows nothing"
    lines = unwrapped(query(served, "wait").stdout)
    found = re.search(r"mean (\S+), (\S+) to (\S+) ", lines)
    assert found, lines
    value, low, high = (numbers(text)[0] for text in found.groups())
    assert BOUNDS[0] <= low <= value <= high <= BOUNDS[1]
    total = re.search(r"total of the devices that reported (\S+), (\S+) to (\S+) ", lines)
    assert total, lines
    assert all(REPORTS * BOUNDS[0] <= numbers(text)[0] <= REPORTS * BOUNDS[1] for text in total.groups())
    said = bins_view(raw).sentences[-1]
    assert said.startswith("The mean is 20.0 to "), said
    assert "-" not in said
    assert "\N{MINUS SIGN}" not in said


def test_a_count_has_whole_quantiles_within_its_cap_and_no_hint_at_zero(served: str) -> None:
    segment = answer(served, "recipes").segments[-1]
    assert segment.whole_numbers
    for one in segment.quantiles:
        for number in (one.estimate, one.low, one.high):
            assert number is None or (number == int(number) and 0 <= number <= CAP), one
    assert [one.estimate for one in segment.quantiles] == [0, 2, CAP]
    assert segment.quantiles[0].words == "a quarter of the devices have at most 0 recipes"
    assert segment.hint is not None
    assert "last bin" in segment.hint
    assert "first" not in segment.hint
    assert "a larger cap" in segment.hint


@pytest.mark.parametrize(
    "arguments", [[], ["--compare", "2027-01-15..2027-01-16", "2027-01-16..2027-01-17"]], ids=["estimate", "compare"]
)
def test_no_row_is_left_out_to_save_one(served: str, arguments: list[str]) -> None:
    shown = query(served, "recipes", *arguments)
    assert shown.exit_code == 0, shown.output
    assert "evenly spaced" not in shown.stdout
    assert all(re.search(rf"^{count}\b", shown.stdout, re.MULTILINE) for count in range(CAP + 1))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["theme", "--quantiles", "0.5"], "theme is no number in bins"),
        (["theme", "--ranges", "1..2"], "theme is no number in bins"),
        (["theme", "--quantiles", "0.5", "--json"], "has no bins"),
        (["recipes", "--quantiles", "0.5", "--series"], "without --series and --compare"),
        (["--quantiles", "0.5"], "take a METRIC"),
    ],
)
def test_a_question_about_bins_is_refused_where_there_are_none(served: str, arguments: list[str], said: str) -> None:
    failed = query(served, *arguments)
    assert failed.exit_code != 0
    assert failed.stdout == ""
    assert said in unwrapped(failed.stderr)
