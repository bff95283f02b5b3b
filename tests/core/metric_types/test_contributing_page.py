"""The recipes of CONTRIBUTING: they name every file that a new metric type or mechanism needs, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub import mechanisms, metric_types
from tests.core.metric_types.test_no_special_cases import PRODUCT, parsed, used
from tests.support.paths import ROOT

SHIPPED = {
    "type": {name: cls.__module__ for name, cls in metric_types.registered().items()},
    "name": {name: cls.__module__ for name, cls in mechanisms.registered().items()},
}
CLASSES = {
    "type": {cls.__name__ for cls in metric_types.registered().values()},
    "name": {cls.__name__ for cls in mechanisms.registered().values()},
}
TITLES = {"type": "Add a metric type", "name": "Add a mechanism"}
COUNTS = {"Seven": 7, "Eight": 8, "Nine": 9, "Ten": 10}
NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5}
BUILT_BY_HAND = {
    "audit/hubbub_audit/log_canaries.py": "an attack that looks for a word and a number in logs makes its own metrics",
    "audit/hubbub_audit/planted_mechanisms.py": "bugs are planted in mechanisms that exist",
    "core/hubbub/mechanisms/_least_variance.py": "the least variance known of a mean is that of the shipped tables",
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
    head = r"^(\w+) files(?:, its randomizer in TypeScript)?, and nothing else in the product:$"
    (said,) = re.findall(head, recipe(what), re.MULTILINE)
    assert len(files(what)) == COUNTS[said]


@pytest.mark.parametrize("what", TITLES)
def test_every_file_of_a_recipe_is_there_for_what_is_shipped(what: str) -> None:
    for name, module in SHIPPED[what].items():
        for path in files(what):
            found = ROOT / path.replace(f"<{what}>", module.rpartition(".")[2])
            assert found.is_file(), path
            text = found.read_text(encoding="utf-8")
            quoted = f'"{name}"' in text.replace('\\"', '"')
            if found.suffix == ".json" or path.startswith("scripts/"):
                assert quoted, f"{name} is not in {path}"
            elif found.suffix == ".ts":
                assert re.search(rf"\b{re.escape(name)}\b", text), f"{name} is not in {path}"
            elif found.name != "CHANGELOG.md":
                assert quoted or f"`{name}`" in text or module in text, f"{name} is not in {path}"


@pytest.mark.everyday("name")
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
        if particular(what, path)
    }
    assert others - named - set(BUILT_BY_HAND) == set()


def test_what_is_built_by_hand_still_is() -> None:
    for path, reason in BUILT_BY_HAND.items():
        assert reason
        assert any(particular(what, ROOT / path) for what in TITLES), f"{path} need not be listed any more"


@pytest.mark.usefixtures("toys")
def test_the_recipe_knows_how_many_toys_there_are() -> None:
    (said,) = re.findall(r"takes (\w+) types and a mechanism", recipe("type"))
    assert len(metric_types.registered()) - len(SHIPPED["type"]) == NUMBERS[said]
    assert len(mechanisms.registered()) - len(SHIPPED["name"]) == 1


def particular(what: str, path: Path) -> set[str]:
    """What a file takes of one type or mechanism: its module, or its class from wherever that is offered."""
    return set(SHIPPED[what].values()) & set(loaded(path)) | CLASSES[what] & {word for _, word in used(parsed(path))}


def loaded(path: Path) -> Iterator[str]:
    """Modules that a file imports from, by their full names."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
