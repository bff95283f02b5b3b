"""The same toys where people see them: terminal, dashboard, report, simulator, planner, audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hubbub.codebook import Codebook
from hubbub.randomness import SystemRandomness
from hubbub_audit.local_epsilon_and_law import law
from hubbub_audit.targets import Subject, usual
from hubbub_cli.all_commands import hubbub
from hubbub_cli.commands.audit import WEAK
from tests.aggregator.dashboard.markup import Page
from tests.core.metric_types.conftest import Ran
from tests.core.metric_types.test_toys import CELLS, EDGES, PLANS
from tests.core.metric_types.toys import CODEBOOK

METRICS = {"look": CELLS, "wait": EDGES, "minutes": PLANS}

pytestmark = pytest.mark.usefixtures("toys")


def command(*arguments: str, address: str = "") -> str:
    found = CliRunner(env={"HUBBUB_ADDRESS": address} if address else {}).invoke(hubbub, arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.fixture
def book(tmp_path: Path) -> str:
    path = tmp_path / "metrics.toml"
    path.write_text(CODEBOOK)
    return str(path)


def test_the_terminal_shows_a_grid(address: str) -> None:
    shown = command("query", "look", address=address)
    (head,) = [line for line in shown.splitlines() if line.startswith("theme / size")]
    assert head.split() == ["theme", "/", "size", "small", "medium", "large"]
    (dark,) = [line for line in shown.splitlines() if line.startswith("dark ")]
    assert dark.count("±") == 3


def test_the_terminal_shows_a_curve(address: str) -> None:
    shown = command("query", "wait", address=address)
    assert "time to start" in shown
    assert all(edge in shown for edge in EDGES)
    assert "at most 20.5:" in command("query", "wait", "--series", address=address), "the one that leads"


def test_the_terminal_shows_numbers_by_group(address: str) -> None:
    lines = command("query", "minutes", address=address).splitlines()
    (place,) = [number for number, line in enumerate(lines) if line.startswith("plan ")]
    assert [line.split()[0] for line in lines[place + 1 :] if line.split()[:1] and line.split()[0] in PLANS] == PLANS
    assert "in min" in lines
    assert "%" not in "".join(lines[place : place + 5]), "these are no shares"


@pytest.mark.parametrize("metric", METRICS)
def test_the_terminal_gives_the_answer_as_it_came(ran: Ran, address: str, metric: str) -> None:
    answer = json.loads(command("query", metric, "--json", address=address))
    assert answer["segments"][-1]["shape"] == ran.found[0][metric]["shape"]
    assert [row["label"] for row in answer["segments"][-1]["values"]] == METRICS[metric]
    table = command("query", metric, "--csv", address=address).splitlines()
    assert len(table) == 1 + len(METRICS[metric])


@pytest.mark.parametrize("metric", METRICS)
def test_the_terminal_compares_them(ran: Ran, address: str, metric: str) -> None:
    a, b = ("..".join(one) for one in ran.ranges(metric))
    shown = command("query", metric, "--compare", a, b, address=address)
    assert "b against a" in shown
    assert all(label in shown for label in METRICS[metric])


def test_the_overview_has_a_card_for_each(ran: Ran) -> None:
    overview = ran.visited.page("/").text
    for named in ("look", "wait", "at most 20.5", "minutes", "team", "min"):
        assert named in overview


def test_the_dashboard_draws_a_grid(ran: Ran) -> None:
    look = ran.visited.page("/metric/look").text
    assert all(cell in look for cell in CELLS)
    assert "the stronger the colour, the larger the share" in look
    assert "tells the truth or shrugs, of 6 values" in look, "the mechanism's own sentence"


def test_the_dashboard_draws_a_curve(ran: Ran) -> None:
    wait = ran.visited.page("/metric/wait").text
    assert "as a band" in wait
    assert "norm_sub" not in wait


def test_the_dashboard_draws_numbers_by_group(ran: Ran) -> None:
    minutes = ran.visited.page("/metric/minutes").text
    assert "By plan in min: estimates with 95" in minutes
    assert all(plan in minutes for plan in PLANS)
    assert "percentage points" not in minutes


@pytest.mark.parametrize("metric", METRICS)
def test_the_dashboard_compares_them(ran: Ran, metric: str) -> None:
    (a_from, a_to), (b_from, b_to) = ran.ranges(metric)
    asked = f"from={b_from}&to={b_to}&compare_from={a_from}&compare_to={a_to}"
    page = ran.visited.page(f"/metric/{metric}?{asked}").text
    assert "Change of each value with its 95" in page
    assert "can't be compared" not in page


def test_what_is_collected_is_said_in_their_words(ran: Ran) -> None:
    told = ran.visited.page("/what-is-collected").text
    assert "Both theme and size." in told
    assert "An amount, and your plan." in told


def test_a_report_has_them_all(address: str, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    command("report", "--out", str(out), address=address)
    report = Page(out.read_text()).text
    for label in (*CELLS, *EDGES, *PLANS):
        assert label in report
    for caption in ("the stronger the colour", "as a band", "By plan in min"):
        assert caption in report


DATA = "look,wait,minutes\n" + "dark/large,15,paid:90\nlight/small,5,free:30\n" * 1_500


def simulated(book: str, tmp_path: Path, *options: str) -> Any:
    data = tmp_path / "devices.csv"
    data.write_text(DATA)
    return command("simulate", "--codebook", book, "--data", str(data), "--seed", "1", *options)


def test_the_simulator_reads_their_cells(book: str, tmp_path: Path) -> None:
    found = json.loads(simulated(book, tmp_path, "--json"))["metrics"]
    look = {row["value"]: row["truth"] for row in found["look"]["values"]}
    assert look["dark × large"] == look["light × small"] == 0.5
    assert [row["truth"] for row in found["wait"]["values"]] == [0.5, 1.0, 1.0]
    assert [row["truth"] for row in found["minutes"]["values"]] == [15.0, 45.0, 0.0]


def test_the_simulator_tells_them_in_words(book: str, tmp_path: Path) -> None:
    told = simulated(book, tmp_path)
    for labels in METRICS.values():
        assert all(label in told for label in labels)
    assert "by_group by krr: 3,000 reports" in told


@pytest.mark.full
def test_the_simulator_draws_them(book: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    simulated(book, tmp_path, "--plot", str(picture))
    assert all(label in picture.read_text() for label in (*EDGES, *PLANS))


@pytest.mark.full
@pytest.mark.parametrize("path", ["fast", "full"])
def test_the_simulator_sends_them_all_the_way(book: str, tmp_path: Path, path: str) -> None:
    found = json.loads(simulated(book, tmp_path, "--path", path, "--json"))["metrics"]
    for metric in METRICS:
        for row in found[metric]["values"]:
            assert abs(row["estimate"] - row["truth"]) < 8 * row["stderr"]


@pytest.mark.full
def test_the_audit_attacks_them_in_the_terminal(book: str) -> None:
    asked = ("audit", "--codebook", book, "--trials", "1000", "--jobs", "1", "--json")
    found = CliRunner().invoke(hubbub, asked)
    assert found.exit_code == WEAK, "so few trials beat nothing, and cannot say that all holds"
    findings = json.loads(found.stdout)["findings"]
    assert {one["verdict"] for one in findings} == {"holds", "weak"}
    assert all(any(one["subject"].startswith(f"{metric}, ") for one in findings) for metric in METRICS)


def test_the_planner_plans_for_them(book: str) -> None:
    planned = command("plan", book, "--devices", "5000", "--why")
    assert all(name in planned for name in ("shrug", *METRICS))
    for one in ("pair", "ladder", "by_group"):
        assert "shrug" in command("select", "--type", one, "--size", "8", "--epsilon", "1")


@pytest.mark.parametrize("name", METRICS)
def test_the_audit_holds_them_to_their_law(name: str) -> None:
    (finding,) = law(Subject(Codebook.from_toml(CODEBOOK).metric(name)), 400).run(1e-9)
    assert finding.verdict != "beaten", finding


def test_the_audit_finds_the_mechanism_through_the_registry() -> None:
    subject = usual("shrug", 1.0)
    assert subject.mechanism.name == "shrug"
    assert subject.payloads(0, 3, SystemRandomness()).shape == (3, 1)
