"""`hubbub query`: what a person sees in the terminal, from a real aggregator."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from hubbub_aggregator.intake.open_reports import Pool
from hubbub_cli.all_commands import hubbub
from hubbub_cli.terminal import estimate_bars
from hubbub_cli.terminal.estimate_bars import BLOCKS, PLAIN
from tests.aggregator.served import served_by_http
from tests.aggregator.world import CODEBOOK, DAY, START, Site
from tests.support.unwrapped import unwrapped

ANALYST = "a-token-of-an-analyst"
LONG = ["a name that is much too long for a narrow terminal", "ünïcode", *(f"value {index}" for index in range(28))]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[str]:
    """The address of an aggregator with two days of `theme` and one of `long`, behind a token."""
    text = CODEBOOK.partition("[metrics.startup_ms]")[0].replace("device_epsilon = 6.0", "device_epsilon = 9.0")
    text += f'[metrics.long]\ntype = "category"\nvalues = {json.dumps(LONG)}\nepsilon = 3.0\n'
    site = Site.open(tmp_path_factory.mktemp("served"), pool, text)
    for day, light in enumerate((100, 500)):
        site.clock.now = START + day * DAY + 3600
        site.service.tick()
        site.settle(site.batch("theme", ["light"] * light + ["dark"] * (600 - light), seed=day))
    site.settle(site.batch("long", LONG[:6] * 500))
    site.close()
    site.settings = type(site.settings)(
        codebook=site.codebook, state_dir=site.state_dir, analyst_token=SecretStr(ANALYST)
    )
    site.start()

    with served_by_http(site.service) as address:
        yield address
    site.close()


def query(served: str, *arguments: str, charset: str = "utf-8", secret: str = ANALYST) -> Result:
    runner = CliRunner(charset=charset, env={"HUBBUB_TOKEN": secret, "HUBBUB_ADDRESS": served})
    return runner.invoke(hubbub, ["query", *arguments])


def test_an_estimate_is_a_table_with_bars_its_interval_and_both_guarantees(served: str) -> None:
    shown = query(served, "theme")
    assert shown.exit_code == 0, shown.output
    (row,) = [line for line in shown.stdout.splitlines() if line.startswith("light")]
    assert row.count("%") == 3
    assert "█" in row
    assert "░" in row
    for said in ("95% intervals", "privacy: eps", "if shuffler and aggregator collude: eps 4", "made up"):
        assert said in shown.stdout
    assert "\x1b" not in shown.stdout  # colours are for terminals
    assert max(map(len, shown.stdout.splitlines())) <= 80


def test_a_long_list_shows_its_largest_values_and_says_how_many_there_are(served: str) -> None:
    shown = query(served, "long")
    assert "and 10 smaller ones" in shown.stdout
    assert "hold for" in shown.stdout
    assert "a name that …ow terminal" in shown.stdout, "cut in the middle: lists often differ at their ends"
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert len(json.loads(query(served, "long", "--json").stdout)["segments"][0]["values"]) == 30
    assert "and 27 smaller ones" in query(served, "long", "--top", "3").stdout


@pytest.mark.parametrize(
    "arguments", [["theme"], ["theme", "--series"], ["long", "--top", "2"], ["long", "--series", "--top", "6"]]
)
def test_a_terminal_without_blocks_gets_ascii(served: str, arguments: list[str]) -> None:
    shown = query(served, *arguments, charset="ascii")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.isascii()
    assert "#" in shown.stdout


def test_a_series_has_a_row_for_each_period_and_says_what_a_gap_is(served: str) -> None:
    shown = query(served, "theme", "--series", "--top", "1")
    rows = [line for line in shown.stdout.splitlines() if line.endswith("░")]
    assert [" ".join(line.split()[:3]) for line in rows] == ["15 Jan 2027", "16 Jan 2027"]
    gaps = query(served, "dark_mode", "--series")
    assert gaps.exit_code == 0
    assert "open: batches may still arrive" in gaps.stdout


def test_a_comparison_shows_both_sides_the_change_and_p(served: str) -> None:
    shown = query(served, "theme", "--compare", "2027-01-15..2027-01-16", "2027-01-16..2027-01-17")
    assert shown.exit_code == 0, shown.output
    (row,) = [line for line in shown.stdout.splitlines() if line.startswith("light")]
    assert row.split()[6] == "<0.000001"
    assert "├" in row
    assert "noise is" in shown.stdout
    assert "privacy: eps" in shown.stdout


def test_csv_and_json_are_the_answer_and_nothing_else(served: str) -> None:
    rows = list(csv.DictReader(io.StringIO(query(served, "theme", "--csv").stdout, newline="")))
    answer = json.loads(query(served, "theme", "--json").stdout)
    assert [row["value"] for row in rows] == ["light", "dark", "sepia", "other"]
    assert {float(row["epsilon"]) for row in rows} == {answer["privacy"]["epsilon"]}
    assert "metric_id" in query(served, "--csv").stdout
    assert json.loads(query(served, "--json").stdout)["metrics"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["thme"], "did you mean 'theme'?"),
        (["dark_mode"], "hubbub query dark_mode --series"),
        (["theme", "--compare", "2027-01-15", "2027-01-16"], "write it FROM..TO"),
        (["theme", "--compare", "2027-01-15..2027-01-17", "2027-01-16..2027-01-18"], "share no period"),
        (["theme", "--compare", "a..b", "c..d", "--series"], "leave out --series"),
        (["theme", "--csv", "--json"], "either --csv or --json"),
        (["--series"], "name a METRIC"),
        (["theme", "--from", "yesterday"], "write it like 2027-01-04"),
    ],
)
def test_a_mistake_is_told_what_to_do(served: str, arguments: list[str], said: str) -> None:
    failed = query(served, *arguments)
    assert failed.exit_code != 0
    assert failed.stdout == ""
    assert said in unwrapped(failed.stderr)


def test_a_wrong_or_missing_token_is_told_apart_and_never_shown(served: str) -> None:
    assert "set HUBBUB_TOKEN" in query(served, secret="").stderr
    mistyped = "not-the-token-at-all"
    wrong = query(served, secret=mistyped)
    assert "the one in HUBBUB_TOKEN is not" in wrong.stderr
    assert mistyped not in wrong.output


# -- drawing ------------------------------------------------------------------------------------

SHARES = st.floats(-0.5, 1.5)


@given(numbers=st.tuples(SHARES, SHARES, SHARES), width=st.integers(1, 60), most=st.floats(0.001, 1.0))
def test_a_bar_never_leaves_its_room_and_shows_limits_in_order(
    numbers: tuple[float, float, float], width: int, most: float
) -> None:
    low, middle, high = sorted(numbers)
    for drawn in (BLOCKS, PLAIN):
        bar = estimate_bars.bar(low, middle, high, width, most, drawn)
        assert len(bar) <= width
        assert bar == drawn.sure * bar.count(drawn.sure) + drawn.likely * bar.count(
            drawn.likely
        ) + drawn.possible * bar.count(drawn.possible)
        ends = (min(low, 0.0), max(high, 0.0))
        line = estimate_bars.whisker(low, middle, high, ends, width, drawn)
        assert len(line) <= width
        assert drawn.middle in line


def test_blocks_are_for_terminals_that_have_them() -> None:
    assert estimate_bars.signs("utf-8") is BLOCKS
    assert (
        estimate_bars.signs("ascii")
        is estimate_bars.signs("latin-1")
        is estimate_bars.signs("no-such-encoding")
        is PLAIN
    )


def test_nothing_released_says_what_to_do(site: Site) -> None:
    with served_by_http(site.service) as address:
        shown = CliRunner().invoke(hubbub, ["query", "--address", address])
    assert "hubbub plan" in shown.stderr
    assert "theme" in shown.stdout
