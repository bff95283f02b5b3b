"""`hubbub codebook`: rows on stdout, diagnostics on stderr, exit code 1 for errors only."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hubbub.codebook import Codebook
from hubbub_cli.commands.codebook import codebook
from hubbub_cli.compile_codebook import freeze
from hubbub_cli.terminal.output_file import write
from hubbub_cli.terminal.table import table
from tests.support.compiled import compiled
from tests.support.paths import ROOT
from tests.support.unwrapped import unwrapped

EXAMPLE = ROOT / "examples" / "metrics.toml"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(codebook, [str(argument) for argument in arguments])


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    path = tmp_path / "faulty.toml"
    path.write_text(EXAMPLE.read_text().replace("epsilon = 2.0", "epsilom = 2.0").replace('"1d"', '"7h"'))
    return path


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    path = tmp_path / "edited.toml"
    path.write_text(EXAMPLE.read_text().replace("epsilon = 2.0", "epsilon = 1.5"))
    return path


def test_check_lists_metrics_and_budget_and_warns_on_stderr() -> None:
    result = run("check", EXAMPLE)

    assert result.exit_code == 0
    metric = Codebook.load(EXAMPLE).metric("startup_ms")
    assert f"startup_ms  mean      laplace          1     136  {metric.id.hex()[:8]}\n" in result.stdout
    assert "epsilon 4 of 4 in a period of 1d" in result.stdout
    assert "warning" not in result.stdout
    assert "metrics.startup_ms.missing" in result.stderr
    assert "fix: add missing" in result.stderr


def test_check_names_file_key_problem_and_fix_of_every_error_and_ends_with_1(faulty: Path) -> None:
    result = run("check", faulty)

    assert result.exit_code == 1
    assert result.stdout == ""
    said = unwrapped(result.stderr)
    assert f"error: {faulty}: metrics.theme.epsilom: there is no such key fix: did you mean 'epsilon'?" in said
    assert f"error: {faulty}: collection.period:" in said


def test_check_prints_json_alone_to_stdout() -> None:
    document = json.loads(run("check", EXAMPLE, "--json").stdout)

    assert document["ok"] is True
    assert Codebook.from_compiled(document["codebook"]) == compiled(EXAMPLE.read_text())
    assert [set(warning) for warning in document["warnings"]] == [{"file", "key", "problem", "fix"}]


def test_check_prints_errors_as_json_and_ends_with_1(faulty: Path) -> None:
    result = run("check", faulty, "--json")
    document = json.loads(result.stdout)

    assert result.exit_code == 1
    assert document["ok"] is False
    assert {error["key"] for error in document["errors"]} >= {"collection.period", "metrics.theme.epsilom"}


def test_check_asks_the_accountant_whether_a_release_is_in_reach() -> None:
    """theme needs 874 reports for epsilon 0.5 at delta 1e-8 with nine of ten honest; the others far fewer."""
    assert "metrics.theme.min_batch: 500 devices" in unwrapped(run("check", EXAMPLE, "--devices", 500).stderr)
    assert "min_batch" not in run("check", EXAMPLE, "--devices", 1_000).stderr


def test_check_warns_of_a_min_batch_out_of_reach(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(EXAMPLE.read_text().replace("missing = false", "missing = false\nmin_batch = 1000"))

    assert "min_batch: 999 devices send about 999 reports" in unwrapped(run("check", path, "--devices", 999).stderr)


def test_check_marks_a_metric_that_is_off(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(EXAMPLE.read_text().replace("missing = false", "enabled = false"))

    assert "dark_mode (off)" in run("check", path).stdout


def test_check_of_a_file_that_is_not_there_is_an_error() -> None:
    result = run("check", "absent.toml")

    assert result.exit_code == 1
    assert "error: absent.toml: cannot be read" in unwrapped(result.stderr)


def test_diff_says_what_a_change_means(edited: Path) -> None:
    result = run("diff", EXAMPLE, edited)

    assert result.exit_code == 0
    assert "theme: new id" in result.stdout
    assert "epsilon: 2 -> 1.5" in result.stdout
    assert json.loads(run("diff", EXAMPLE, edited, "--json").stdout)["metrics"][0]["effect"] == "new id"


def test_diff_names_the_file_that_is_faulty(faulty: Path) -> None:
    result = run("diff", EXAMPLE, faulty)

    assert result.exit_code == 1
    assert str(faulty) in result.stderr


def test_show_prints_the_compiled_form(faulty: Path) -> None:
    assert Codebook.from_compiled(json.loads(run("show", EXAMPLE).stdout)) == compiled(EXAMPLE.read_text())
    assert run("show", faulty).exit_code == 1
    assert "error:" in run("show", faulty).stderr
    assert json.loads(run("show", faulty, "--json").stdout)["ok"] is False


def test_compile_freezes_what_check_and_show_print(tmp_path: Path) -> None:
    out = tmp_path / "codebook.json"
    result = run("compile", EXAMPLE, "--out", out)
    frozen = Codebook.load(out)

    assert result.exit_code == 0
    assert result.stdout == f"{out}: codebook {frozen.id.hex()}\n"
    assert frozen == compiled(EXAMPLE.read_text())
    for file in (EXAMPLE, out):
        assert f"codebook {frozen.id.hex()}\n" in run("check", file).stdout
        assert json.loads(run("show", file).stdout) == frozen.compiled()

    again = run("compile", EXAMPLE, "--out", out)
    assert again.stderr.endswith("as it was before\n")
    edited = tmp_path / "metrics.toml"
    edited.write_text(EXAMPLE.read_text().replace("epsilon = 2.0", "epsilon = 1.5"))
    changed = run("compile", edited, "--out", out)
    assert "theme: new id" in changed.stderr
    document = json.loads(run("compile", EXAMPLE, "--out", out, "--json").stdout)
    assert (document["file"], document["id"]) == (str(out), frozen.id.hex())
    assert document["changed"]["metrics"][0]["effect"] == "new id"


def test_a_release_target_out_of_reach_is_an_error_of_its_metric(tmp_path: Path) -> None:
    hopeless = tmp_path / "metrics.toml"
    hopeless.write_text(re.sub(r"release = .*", "release = { epsilon = 0.0001, delta = 1e-18 }", EXAMPLE.read_text()))
    result = run("check", hopeless)

    assert result.exit_code == 1
    assert f"error: {hopeless}: metrics.dark_mode: no batch of up to" in unwrapped(result.stderr)


def test_only_an_edit_compiles_a_codebook_again(tmp_path: Path) -> None:
    """Another version of this software could choose another mechanism: what was frozen stays."""
    file, out = tmp_path / "metrics.toml", tmp_path / "codebook.json"
    file.write_text(EXAMPLE.read_text())
    first, was_compiled = freeze(file, out)
    assert was_compiled
    assert freeze(file, out) == (first, False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codebook.json", "codebook.json.source", "metrics.toml"]
    file.write_text(EXAMPLE.read_text() + "\n# a comment\n")
    assert freeze(file, out) == (first, True)


def test_a_kill_while_freezing_never_serves_what_is_not_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit that is taken back after the kill is compiled again."""
    file, out = tmp_path / "metrics.toml", tmp_path / "codebook.json"
    file.write_text(EXAMPLE.read_text())
    first, _ = freeze(file, out)

    def killed_after_the_codebook(path: Path, text: str, mode: int) -> None:
        if path != out:
            raise KeyboardInterrupt
        write(path, text, mode)

    file.write_text(EXAMPLE.read_text().replace("epsilon = 2.0", "epsilon = 1.5"))
    monkeypatch.setattr("hubbub_cli.compile_codebook.write", killed_after_the_codebook)
    with pytest.raises(KeyboardInterrupt):
        freeze(file, out)
    monkeypatch.undo()
    file.write_text(EXAMPLE.read_text())
    assert freeze(file, out) == (first, True)


def test_a_table_aligns_numbers_to_the_right_and_words_to_the_left() -> None:
    assert table(["name", "n"], [["a", "1"], ["long", "1,000"], ["c", "-"]]) == (
        "name      n\na         1\nlong  1,000\nc         -"
    )
    assert table(["name", "n"], []) == "name  n"


def test_a_notice_has_every_question_that_is_on_in_the_words_of_the_page_that_people_see() -> None:
    from hubbub_aggregator.dashboard.pages.what_is_collected import of_codebook

    result = run("notice", EXAMPLE)

    assert result.exit_code == 0
    page = of_codebook(Codebook.load(EXAMPLE))
    assert len(page.metrics) == 3
    for metric in page.metrics:
        for said in (
            metric.description,
            metric.what,
            metric.often,
            metric.hiding,
            metric.owner,
            f"(ε {metric.epsilon})",
        ):
            assert said in result.stdout
    assert "light, dark, sepia, other." in result.stdout
    assert "reports “light”, so that having nothing to say does not show" in result.stdout
    assert result.stdout.count("stays silent, which can be seen") == 1  # startup_ms declares nothing for missing
    assert "at most ε 4 in a day" in result.stdout


def test_a_notice_says_what_is_off_and_asks_for_what_is_not_described(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    text = EXAMPLE.read_text().replace('description = "Whether the dark theme is on"\n', "")
    path.write_text(text.replace("[metrics.theme]", "[metrics.theme]\nenabled = false"))

    said = run("notice", path).stdout

    assert "### theme" not in said
    assert "Switched off at the moment: theme." in said
    assert "The codebook does not describe this question" in said


def test_a_notice_rounds_odds_up_and_says_any_length_of_period(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(
        '[collection]\nname = "n"\nperiod = "6h"\ndevice_epsilon = 1.1\nrelease = { epsilon = 0.5, delta = 1e-8 }\n'
        '[metrics.on]\ntype = "boolean"\nepsilon = 1.1\n'
    )

    said = run("notice", path).stdout

    assert "at most 3.01 times as likely" in said  # e^1.1 is 3.0042
    assert "at most once in 6 hours. All of them together may cost it at most ε 1.1 in 6 hours;" in said


def test_nothing_that_an_author_writes_is_markup_in_a_notice(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(EXAMPLE.read_text().replace("Whether the dark", "<b>x</b> [a](b) *c* | `d` Whether the dark"))

    said = run("notice", path).stdout

    assert r"&lt;b&gt;x&lt;/b&gt; \[a\](b) \*c\* \| \`d\` Whether" in said


def test_a_notice_is_json_on_demand_and_a_faulty_codebook_makes_none(faulty: Path) -> None:
    document = json.loads(run("notice", EXAMPLE, "--json").stdout)

    assert [metric["name"] for metric in document["metrics"]] == ["dark_mode", "theme", "startup_ms"]
    assert run("notice", faulty).exit_code == 1
    assert run("notice", faulty).stdout == ""
