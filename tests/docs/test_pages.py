"""Pages of README and docs: Python examples run, links lead somewhere, and what exists is mentioned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub import errors
from hubbub.mechanisms import registered
from hubbub_cli.all_commands import hubbub as command
from hubbub_client import testing
from hubbub_client._development_notices import forget_notices
from hubbub_client.testing import MemoryTransport
from tests.client.world import served
from tests.docs.blocks import PAGES, ROOT, TUTORIAL, blocks


@pytest.mark.parametrize("name", sorted(registered()))
def test_every_mechanism_is_documented(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "reference" / "mechanisms.md").read_text()


@pytest.mark.parametrize("name", sorted(command.commands))
def test_every_command_is_mentioned_in_the_changelog(name: str) -> None:
    assert f"hubbub {name}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_error_stands_in_the_tree_at_the_top_of_its_module() -> None:
    found = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(found) > 10
    for name in found:
        assert re.search(rf"\b{name}\b", errors.__doc__ or ""), name


LOCAL = "http://127.0.0.1:8701"
"""Where `hubbub up` listens, and so the pages' snippets report."""
STARTS_WITH_A_NAME = re.compile(r"# (examples/\S+\.py)\n")
RUN_ELSEWHERE = {
    "crowd.py": "it takes six periods of real services: test_the_tutorial_leads_to_its_chart runs it",
    "ask.py": "it needs an aggregator: test_the_page_asks_as_it_says runs it",
}


@contextmanager
def shuffler_in(text: str) -> Iterator[str]:
    """The text with the address of a shuffler that serves the example's codebook in place of the local one."""
    if LOCAL not in text:
        yield text
        return
    book = TUTORIAL_BOOK if "min_period" in text else (ROOT / "examples" / "metrics.toml").read_text()
    with served(MemoryTransport.serving(book)) as address:
        yield text.replace(LOCAL, address)


TUTORIAL_BOOK = next(block.text for block in blocks(TUTORIAL) if block.file == "metrics.toml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for block in blocks(page):
        if block.language == "python" and not block.not_run and block.file not in RUN_ELSEWHERE:
            forget_notices()
            named = STARTS_WITH_A_NAME.match(block.text)
            with shuffler_in(block.text) as text, monkeypatch.context() as moved:
                if block.file:  # the reader saves it in a folder of their own
                    moved.chdir(tmp_path)
                names = {"__name__": "snippet", "__file__": str(ROOT / named[1] if named else page)}
                exec(compile(text, block.place, "exec"), names)  # noqa: S102  our own documentation
            said = capsys.readouterr().err
            assert "hubbub: " not in said or "Outcome.DISABLED" in block.text, f"{block.place}: {said}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_snippet_of_the_sdk_stands_outside_of_a_python_block(page: Path) -> None:
    """Else nothing would run it."""
    for block in blocks(page):
        if block.language in JAVASCRIPT:
            assert IS_RUN.match(block.text), f"{block.place}: the first line names a file of examples/, or a test"
        else:
            assert block.language == "python" or not SDK_CALL.search(block.text), f"{block.place}: write ```python"
    outside = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for line in outside.splitlines():
        assert not (line.startswith("    ") and SDK_CALL.search(line)), f"{page.name}: put {line!r} in ```python"


JAVASCRIPT = {"js", "ts", "tsx"}
IS_RUN = re.compile(r"// (examples/\S+|run by tests/typescript/test_documented\.py)\n")
SDK_CALL = re.compile(r"\b(Client|Fleet|Device)\(|import hubbub_client|from hubbub_client\b|\bclient\.record\(")


def test_what_the_help_of_the_testing_kit_shows_of_a_fleet_is_run_on_its_page() -> None:
    shown = re.findall(r"^    (with Fleet.*\n {4} {4}.*)$", testing.__doc__ or "", re.MULTILINE)
    page = (ROOT / "docs" / "reference" / "sdk.md").read_text()
    assert len(shown) == 1
    assert shown[0].replace("\n    ", "\n") in page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_readme_names_the_two_commands_and_ci_runs_the_second() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make demo " in readme
    assert "make test " in readme
    assert "make test" in (ROOT / ".ci" / "run").read_text()


def test_nothing_names_a_registry_or_a_machine() -> None:
    for name in ("requirements.lock", "benchmarks/mechanisms/peers.lock"):
        lock = (ROOT / name).read_text()
        assert "://" not in lock, name
        assert "--index" not in lock, name
    assert not (ROOT / "uv.lock").exists()
