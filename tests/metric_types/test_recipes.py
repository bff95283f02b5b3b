"""CONTRIBUTING names every file that a new metric type or mechanism needs: they are counted, and are all."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub import mechanisms, metric_types
from tests.metric_types.test_names import PRODUCT

ROOT = Path(__file__).parent.parent.parent
SHIPPED = {
    "type": {name: cls.__module__ for name, cls in metric_types.registered().items()},
    "name": {name: cls.__module__ for name, cls in mechanisms.registered().items()},
}
TITLES = {"type": "Add a metric type", "name": "Add a mechanism"}
COUNTS = {"Four": 4, "Six": 6}
BUILT_BY_HAND = {
    "audit/hubbub_audit/logged.py": "an attack that looks for one word and one number in logs makes its own metrics",
    "core/hubbub/mechanisms/_optimum.py": "the least variance known of a mean is that of the shipped tables",
}
"""Files that use one type or mechanism in particular and go on doing so whatever is added."""


def recipe(what: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.split(f"## {TITLES[what]}\n")[1].split("\n## ")[0]


def files(what: str) -> list[str]:
    """The paths at the head of its list of files."""
    listed = re.findall(r"^- (`[^`]+`(?: and `[^`]+`)?)", recipe(what), re.MULTILINE)
    return [path for entry in listed for path in re.findall(r"`([^`]+)`", entry)]


@pytest.mark.parametrize("what", TITLES)
def test_a_recipe_names_as_many_files_as_it_says(what: str) -> None:
    (said,) = re.findall(r"^(\w+) files, and nothing else in the product:$", recipe(what), re.MULTILINE)
    assert len(files(what)) == COUNTS[said]


@pytest.mark.parametrize("what", TITLES)
def test_every_file_of_a_recipe_is_there_for_what_is_shipped(what: str) -> None:
    for name, module in SHIPPED[what].items():
        for path in files(what):
            found = ROOT / path.replace(f"<{what}>", module.rpartition(".")[2])
            assert found.is_file(), path
            if found.name in ("__init__.py", "mechanisms.md", "codebook.md"):
                text = found.read_text(encoding="utf-8")
                assert name in text or module in text, f"{name} is not in {path}"


@pytest.mark.parametrize("what", TITLES)
def test_nothing_else_in_the_product_loads_one_in_particular(what: str) -> None:
    named = {
        path.replace(f"<{what}>", module.rpartition(".")[2])
        for path in files(what)
        for module in SHIPPED[what].values()
    }
    others = {
        str(path.relative_to(ROOT))
        for part in PRODUCT
        for path in (ROOT / part).rglob("*.py")
        if any(module in SHIPPED[what].values() for module in loaded(path))
    }
    assert others - named - set(BUILT_BY_HAND) == set()


def test_what_is_built_by_hand_still_is() -> None:
    modules = {module for shipped in SHIPPED.values() for module in shipped.values()}
    classes = {cls.__name__ for cls in (*metric_types.registered().values(), *mechanisms.registered().values())}
    for path, reason in BUILT_BY_HAND.items():
        assert reason
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert modules & set(loaded(ROOT / path)) or classes & used, f"{path} need not be listed any more"


def loaded(path: Path) -> Iterator[str]:
    """Modules that a file imports from, by their full names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
