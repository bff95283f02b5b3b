"""`hubbub audit`: what people and CI see of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hubbub.errors import InvalidParameter
from hubbub_cli.all_commands import hubbub as command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["audit", *arguments])


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """Without the three attacks that take seconds: `make test-full` runs a whole audit."""
    from hubbub_audit import plan

    page = tmp_path_factory.mktemp("audit") / "report.html"
    slow = ("shuffler (", "aggregator", "twin devices")
    planned = [attack for attack in plan.attacks(["rr"], [1.0], 1_000) if not attack.subject.startswith(slow)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "attacks", lambda *_: planned)
        return run(
            "--mechanism", "rr", "--epsilon", "1", "--trials", "1000", "--jobs", "1", "--json", "--out", str(page)
        ), page


def test_too_few_trials_are_no_success(small: tuple[Result, Path]) -> None:
    result, _ = small
    assert result.exit_code == 3
    assert "raise --trials" in result.stderr
    assert "false alarms at most 1e-06" in result.stderr


def test_json_goes_to_stdout_and_the_page_to_its_file(small: tuple[Result, Path]) -> None:
    result, page = small
    found = json.loads(result.stdout)
    assert found["verdict"] == "weak"
    assert {finding["subject"].partition(",")[0] for finding in found["findings"]} >= {"rr"}
    assert "Privacy audit" in page.read_text()


def test_a_planted_bug_is_shown_to_be_caught() -> None:
    result = run("--self-test", "--plant", "fresh-retry", "--plant", "talkative", "--trials", "1000")
    assert result.exit_code == 0
    assert result.stdout.count("caught") == 2
    assert "All 2 planted bugs are caught." in result.stderr


def test_a_beaten_claim_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from hubbub_audit import plan
    from hubbub_audit.planted_bugs import PLANTS

    (plant,) = [plant for plant in PLANTS if plant.name == "sure-bit"]
    monkeypatch.setattr(plan, "attacks", lambda *_: plant.attacks(1_000))
    result = run("--mechanism", "rr", "--jobs", "1")
    assert result.exit_code == 1
    assert "BEATEN" in result.stdout
    assert "BEATEN: rr, epsilon 1" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--plant", "low-noise"], "--plant needs --self-test"),
        (["--self-test", "--plant", "low-nose"], "no planted bug is named 'low-nose'"),
        (["--trials", "5"], "--trials"),
        (["--mechanism", "krrr"], "krrr"),
        (["--codebook", "pyproject.toml", "--epsilon", "1"], "leave out --mechanism and --epsilon"),
    ],
)
def test_mistakes_are_answered_with_what_to_do(arguments: list[str], says: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert says in result.output


COLLECTION = """
[collection]
name = "demo"
period = "1d"
device_epsilon = 8
release = { epsilon = 1, delta = 1e-8 }
"""


def test_a_codebook_without_an_enabled_metric_is_a_mistake_and_no_traceback(tmp_path: Path) -> None:
    book = tmp_path / "metrics.toml"
    book.write_text(COLLECTION + '[metrics.a]\ntype = "boolean"\nepsilon = 1\nenabled = false\n')
    with pytest.raises(InvalidParameter, match="no metric of the codebook is enabled"):
        CliRunner().invoke(command, ["audit", "--codebook", str(book), "--trials", "1000"], catch_exceptions=False)
