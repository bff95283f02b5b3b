"""Pages of README and docs: Python examples run, links lead somewhere, and what exists is mentioned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hubbub import errors
from hubbub.mechanisms import registered
from hubbub_cli.all_commands import hubbub as command
from tests.docs.blocks import PAGES, ROOT, blocks


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_examples_run(page: Path) -> None:
    for block in blocks(page):
        # what the tutorial lets its reader save as a file is run by tests/docs, with the services that it needs
        if block.language == "python" and not (block.file and page.parent.name == "tutorial"):
            exec(compile(block.text, str(page), "exec"), {})  # noqa: S102  our own documentation


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
