"""What is particular to a metric type or a mechanism stands in its own file: nothing else asks for its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub.mechanisms import registered as registered_mechanisms
from hubbub.metric_types import registered as registered_types

ROOT = Path(__file__).parent.parent.parent
PRODUCT = ("core", "client_sdk", "service_common", "shuffler", "aggregator", "cli", "audit")
NAMES = {*registered_types(), *registered_mechanisms()}
SEARCHED = (*PRODUCT, "scripts")
CLASSES = {cls.__name__ for cls in (*registered_types().values(), *registered_mechanisms().values())}

EXCEPTIONS: dict[str, str] = {}
"""Path to reason. At most three."""

_FILES = (cls.__module__ for cls in (*registered_types().values(), *registered_mechanisms().values()))
OWN = {name.replace(".", "/") + ".py" for name in _FILES}


def sources() -> Iterator[Path]:
    for part in SEARCHED:
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".py", ".html", ".js") and not any(str(path).endswith(own) for own in OWN):
                yield path


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comparisons, cases and tables that hold the name of a type or a mechanism, and questions for its class."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                for constant in _texts([left, *others]):
                    yield node.lineno, f"compares with {constant!r}"
            case ast.MatchValue(value=ast.Constant(value=str(text))) if text in NAMES:
                yield node.lineno, f"case {text!r}"
            case ast.MatchClass(cls=ast.Name(id=name)) if name in CLASSES:
                yield node.lineno, f"case {name}"
            case ast.Dict(keys=keys) if len(_texts([key for key in keys if key is not None])) > 1:
                yield node.lineno, "a table of names"
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
                for part in ast.walk(asked):
                    if isinstance(part, ast.Name) and part.id in CLASSES:
                        yield node.lineno, f"asks for {part.id}"


def _texts(nodes: list[ast.expr]) -> list[str]:
    """Names among constants, also inside a tuple, a list or a set."""
    found = []
    for node in nodes:
        inside = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
        found += [one.value for one in inside if isinstance(one, ast.Constant) and one.value in NAMES]
    return [text for text in found if isinstance(text, str)]


def in_text(text: str) -> Iterator[tuple[int, str]]:
    """The same in a template or a script."""
    names = "|".join(map(re.escape, sorted(NAMES)))
    for number, line in enumerate(text.splitlines(), 1):
        for found in re.finditer(rf"""(?:[!=]=+|\bin\b\s*[(\[]?)\s*["']({names})["']""", line):
            yield number, f"compares with {found[1]!r}"


def found_in(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    found = named(ast.parse(text)) if path.suffix == ".py" else in_text(text)
    return [f"{path.relative_to(ROOT)}:{line}: {what}" for line, what in found]


def test_nothing_compares_a_name_outside_its_own_file() -> None:
    found = [line for path in sources() if str(path.relative_to(ROOT)) not in EXCEPTIONS for line in found_in(path)]
    assert not found, "\n".join(found)


def test_a_domain_answers_for_itself() -> None:
    """Whether a mechanism randomizes a list or a range is asked by mechanisms and metric types, and by nobody else."""
    inside = ("core/hubbub/mechanisms", "core/hubbub/metric_types")
    asked = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources()
        if not str(path.relative_to(ROOT)).startswith(inside)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"isinstance\(.*\b(Bounds|Categories)\b", line)
    ]
    assert not asked


def test_exceptions_are_few_and_still_needed() -> None:
    assert len(EXCEPTIONS) <= 3
    for path, reason in EXCEPTIONS.items():
        assert reason
        assert found_in(ROOT / path), f"{path} needs no exception any more"


@pytest.mark.parametrize(
    "text",
    [
        'if metric.type == "boolean": pass',
        'if name in ("rr", "krr"): pass',
        'if "mean" != kind: pass',
        'match kind:\n    case "category":\n        pass',
        "if isinstance(values, Category): pass",
        'WORDS = {"laplace": 1, "duchi": 2}',
    ],
)
def test_the_search_sees_what_it_is_for(text: str) -> None:
    assert list(named(ast.parse(text)))
    assert list(in_text('{% if view.type != "mean" %}'))
