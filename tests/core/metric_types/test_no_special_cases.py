"""No special cases: only its own file names a metric type or a mechanism.

Two searches. One lists every string that equals a name and every mention of a class, outside its own file; what is
no question but a use is allowed file by file, with a reason. The other finds what is certainly a question, also in
the files with such a permission.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from hubbub.mechanisms import Mechanism
from hubbub.mechanisms import registered as registered_mechanisms
from hubbub.metric_types import MetricType
from hubbub.metric_types import registered as registered_types
from tests.support.paths import ROOT

PRODUCT = ("core", "client_sdk", "service_common", "shuffler", "aggregator", "cli", "audit")
SEARCHED = (*PRODUCT, "scripts")
BUILT = ROOT / "cli/hubbub_cli/data/hubbub.js"
"""Made from the TypeScript SDK, mechanisms and all."""

SHIPPED: dict[str, type] = {**registered_types(), **registered_mechanisms()}
ORDINARY = {"count"}
"""Names that are ordinary words too, for which no search can tell one from the other. Their classes are looked for."""
NAMES = set(SHIPPED) - ORDINARY
FRAME = (Mechanism, MetricType)
BASES = {
    base
    for cls in SHIPPED.values()
    for base in cls.__mro__[1:]
    if base.__module__.startswith("hubbub.") and base not in FRAME
}
"""What several mechanisms share, such as `GridMean`: asking for it is asking for their names."""


class Permission(NamedTuple):
    """Words that a file may use, but not compare with."""

    words: set[str]
    reason: str


ALLOWED = {
    "core/hubbub/mechanisms/__init__.py": Permission(
        {cls.__name__ for cls in SHIPPED.values() if issubclass(cls, Mechanism)} | {"GridMean"},
        "loads and offers all of them: one of the files that the recipe names",
    ),
    "core/hubbub/metric_types/__init__.py": Permission(
        set(registered_types()) - ORDINARY, "the list of modules to load: one of the files that the recipe names"
    ),
    "core/hubbub/mechanisms/base.py": Permission({"mean"}, "a kind of mechanism, by what it estimates"),
    "core/hubbub/mechanisms/_grid_mean.py": Permission({"mean"}, "the same kind"),
    "core/hubbub/mechanisms/duchi.py": Permission({"mean"}, "the same kind"),
    "core/hubbub/mechanisms/laplace.py": Permission({"mean"}, "the same kind"),
    "core/hubbub/metric_types/_recorded_numbers.py": Permission({"mean"}, "the reducer of that name"),
    "core/hubbub/reduce.py": Permission({"mean"}, "the reducer of that name"),
    "core/hubbub/randomness.py": Permission({"subset"}, "a draw, offered in `__all__`"),
    "service_common/hubbub_service_common/http/health.py": Permission({"boolean"}, "a type of JSON, in a schema"),
    "aggregator/hubbub_aggregator/api/examples.py": Permission(
        {"boolean", "mean", "rr"}, "answers shown in the API's description"
    ),
    "aggregator/hubbub_aggregator/api/tables.py": Permission({"mean"}, "a number of an answer"),
    "cli/hubbub_cli/commands/query.py": Permission({"distribution"}, "a kind of question, as the API names it"),
    "cli/hubbub_cli/commands/privacy.py": Permission({"matrix"}, "the option of a mechanism that `--matrix` gives"),
    "cli/hubbub_cli/commands/simulate.py": Permission({"table"}, "a parameter of the command"),
    "cli/hubbub_cli/simulator/bins_outcome.py": Permission({"mean"}, "a number of an answer"),
    "cli/hubbub_cli/terminal/table.py": Permission({"table"}, "a function that lays out text"),
    "scripts/reference/markdown.py": Permission({"table"}, "a function that lays out text"),
    "audit/hubbub_audit/log_canaries.py": Permission(
        {"Category", "Mean", "KaryRandomizedResponse", "DiscreteLaplaceMean"},
        "an attack that looks for one word and one number in logs makes its own metrics",
    ),
    "audit/hubbub_audit/plan.py": Permission({"krr"}, "attacks on the services take one mechanism for all"),
    "audit/hubbub_audit/planted_bugs.py": Permission({"krr"}, "the same, for planted bugs"),
    "audit/hubbub_audit/planted_mechanisms.py": Permission(
        {"BinaryRandomizedResponse", "DiscreteLaplaceMean", "KaryRandomizedResponse", "SymmetricUnaryEncoding"},
        "bugs are planted in mechanisms that exist",
    ),
    "scripts/make_arrival_table.py": Permission({"table"}, "a function that writes a table"),
    "scripts/make_grafana_estimates.py": Permission({"table"}, "a kind of panel in Grafana, and a format of its data"),
    "scripts/make_looseness_table.py": Permission(
        {"hadamard", "hybrid", "krr", "laplace", "linear-hash", "olh", "oue", "piecewise", "subset", "sue", "table"},
        "the rows of a table in the documentation",
    ),
    "scripts/make_mean_tables.py": Permission({"TableMean"}, "computes what that mechanism ships"),
    "scripts/sbom.py": Permission({"Distribution", "distribution"}, "what is installed, as Python calls it"),
    "scripts/vectors/randomizer.py": Permission(
        set(registered_mechanisms()), "vectors of each: one of the files that the recipe names"
    ),
    "scripts/vectors/claims.py": Permission(set(registered_mechanisms()), "the same, for claims"),
    "scripts/vectors/codebook.py": Permission(
        {*registered_mechanisms(), "mean"} - {"ladder", "tree"},
        "codebooks with each: one of the files that the recipe names",
    ),
    "scripts/vectors/draws.py": Permission({"subset"}, "a draw"),
    "scripts/vectors/received.py": Permission({"mean"}, "a reducer that does not fit"),
    "scripts/vectors/traces/sending.py": Permission({"mean"}, "the reducer of that name"),
    "scripts/vectors/reducers.py": Permission({"mean"}, "the reducer and the type of that name"),
}
"""Uses that are no comparison, by file."""

EXCEPTIONS: dict[str, str] = {}
"""Comparisons: path to reason. At most three."""


def file_of(cls: type) -> str:
    return f"core/{cls.__module__.replace('.', '/')}.py"


@cache
def subclasses() -> dict[str, str]:
    """Classes that the product makes of those above, and the file of each."""
    found: dict[str, str] = {}
    known = {cls.__name__ for cls in (*SHIPPED.values(), *BASES)}
    trees = {path: parsed(path) for path in sources() if path.suffix == ".py"}
    while True:
        more = {
            node.name: str(path.relative_to(ROOT))
            for path, tree in trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and node.name not in known
            if any(_name(base) in known for base in node.bases)
        }
        if not more:
            return found
        known |= set(more)
        found |= more


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sources() -> Iterator[Path]:
    for part in SEARCHED:
        for path in sorted((ROOT / part).rglob("*")):
            is_built = "node_modules" in path.parts or path == BUILT
            if path.suffix in (".py", ".html", ".js") and not is_built:
                yield path


@cache
def words_at_home() -> dict[str, set[str]]:
    """What each file may say of itself: names and classes that are defined in it, and for a mechanism's own file or
    that of a base, the bases."""
    home: dict[str, set[str]] = {}
    bases = {base.__name__ for base in BASES}
    for name, cls in SHIPPED.items():
        home.setdefault(file_of(cls), set(bases)).update({name, cls.__name__})
    for base in BASES:
        home.setdefault(file_of(base), set(bases))
    for name, path in subclasses().items():
        home.setdefault(path, set()).add(name)
    return home


@cache
def classes() -> frozenset[str]:
    return frozenset(cls.__name__ for cls in (*SHIPPED.values(), *BASES)) | frozenset(subclasses())


# -- the search for any mention ------------------------------------------------------------------------


def used(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string that equals a name, or that of a class, and every mention of a class. Docstrings are passed over."""
    nodes = list(ast.walk(tree))
    texts = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if id(node) not in texts and (text in NAMES or text in classes()):
                yield node.lineno, text
            case ast.Constant(value=bytes(raw)) if raw.decode("latin-1") in NAMES:
                yield node.lineno, raw.decode()
            case ast.Name() | ast.Attribute() if _name(node) in classes():
                yield node.lineno, _name(node)
            case ast.ImportFrom(names=aliases):
                yield from ((node.lineno, alias.name) for alias in aliases if alias.name in classes())


def in_text(text: str) -> Iterator[tuple[int, str]]:
    """Every name in quotes, in a template or a script."""
    names = "|".join(map(re.escape, sorted(NAMES)))
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, found[2]) for found in re.finditer(rf"""(["'`])({names})\1""", line))


def _name(node: ast.AST) -> str:
    """Of a class, whether or not its module stands before it, or brackets behind it."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _name(value)
    return ""


# -- the search for questions --------------------------------------------------------------------------


def asked(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Comparisons, cases, look-ups and tables that hold a name, and questions for a class."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                parts = [left, *others]
            case ast.MatchValue(value=value):
                parts = [value]
            case ast.MatchClass(cls=cls):
                parts = [cls]
            case ast.Dict(keys=keys) if len({text for key in keys if key for text in _inside(key)}) > 1:
                parts = [key for key in keys if key is not None]
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, cls]):
                parts = [cls]
            case ast.Call(func=ast.Attribute(attr="startswith" | "endswith" | "removeprefix"), args=parts):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Dict(keys=keys), attr="get")):
                parts = [key for key in keys if key is not None]
            case _:
                continue
        yield from ((node.lineno, text) for part in parts for text in _inside(part))


def _inside(part: ast.expr) -> list[str]:
    """Names among constants, and classes; also inside a tuple, a list or a set."""
    return [text for _, text in used(ast.Module([ast.Return(part)], []))]


def found_in(path: Path) -> list[str]:
    """What a file may not say."""
    at = str(path.relative_to(ROOT))
    if path.suffix != ".py":
        found = [(line, f"names {word}") for line, word in in_text(path.read_text(encoding="utf-8"))]
    else:
        home, allowed = words_at_home().get(at, set()), ALLOWED[at].words if at in ALLOWED else set()
        strange = [(line, word) for line, word in used(parsed(path)) if word not in home]
        found = [(line, f"names {word}") for line, word in strange if word not in allowed]
        if strange:  # whoever asks for a word also uses it
            found += [(line, f"asks for {word}") for line, word in asked(parsed(path)) if word not in home]
    return [f"{at}:{line}: {what}" for line, what in found]


# -- what holds ----------------------------------------------------------------------------------------


def test_nothing_names_a_type_or_a_mechanism_outside_its_own_file() -> None:
    found = [line for path in sources() if str(path.relative_to(ROOT)) not in EXCEPTIONS for line in found_in(path)]
    assert not found, "\n".join(found)


def test_a_domain_answers_for_itself() -> None:
    """Whether a mechanism randomizes a list or a range is asked by mechanisms and metric types, and by nobody else."""
    inside = ("core/hubbub/mechanisms", "core/hubbub/metric_types")
    asked_for = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources()
        if not str(path.relative_to(ROOT)).startswith(inside)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"isinstance\(.*\b(Bounds|Categories)\b", line)
    ]
    assert not asked_for


def test_exceptions_are_few_and_still_needed() -> None:
    assert len(EXCEPTIONS) <= 3
    for path, reason in EXCEPTIONS.items():
        assert reason
        assert found_in(ROOT / path), f"{path} needs no exception any more"


@pytest.mark.parametrize("path", ALLOWED)
def test_what_is_allowed_is_still_needed(path: str) -> None:
    words, reason = ALLOWED[path]
    assert reason
    found = {word for _, word in used(parsed(ROOT / path))}
    assert words - found == set(), f"{path} needs not all of its permissions any more"


QUESTIONS = [
    'if metric.type == "boolean": pass',
    'if name in ("rr", "krr"): pass',
    'if "mean" != kind: pass',
    'match kind:\n    case "category":\n        pass',
    'match kind:\n    case "category" | "other":\n        pass',
    "if isinstance(values, Category): pass",
    "if isinstance(values, (int, Category)): pass",
    "if isinstance(v, boolean.Boolean): pass",
    "if isinstance(v, hubbub.metric_types.boolean.Boolean): pass",
    "if issubclass(cls, GridMean): pass",
    "if type(v) == Boolean: pass",
    "if type(v) is Boolean: pass",
    'if type(v).__name__ == "Boolean": pass',
    "match v:\n    case Mean():\n        pass",
    "match v:\n    case mean.Mean():\n        pass",
    'WORDS = {"laplace": 1, "duchi": 2}',
    'words = {"mean": 1}.get(kind)',
    'if kind.startswith("mean"): pass',
    'if kind.startswith(("mean", "other")): pass',
]
USES = [
    'NAMES = ("rr", "krr")\nif kind in NAMES: pass',
    'ONLY = "mean"\nif kind == ONLY: pass',
    'words = {"mean": 1}[kind]',
    'words = dict([("mean", 1)])',
    'kind in frozenset(["mean"])',
    'operator.eq(kind, "mean")',
    'kind == b"mean"',
    "from hubbub.mechanisms import KaryRandomizedResponse",
    "from hubbub.mechanisms import GridMean as Numbers",
    "from hubbub_audit.planted_mechanisms import RoundsDown",
    'getattr(module, "Boolean")',
    "TABLE = {Boolean: 1}",
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_is_seen_also_where_uses_are_allowed(text: str) -> None:
    assert list(asked(ast.parse(text)))
    assert list(used(ast.parse(text)))


@pytest.mark.parametrize("text", USES)
def test_a_use_is_seen(text: str) -> None:
    assert list(used(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        '{% if view.type != "mean" %}',
        "{% if 'mean' == view.type %}",
        "{% if view.type in ['boolean', 'mean'] %}",
        "switch (type) { case 'mean': break; }",
        "const WORDS = { 'linear-hash': 1 };",
        "if (kind === `krr`) {}",
    ],
)
def test_a_name_in_a_template_or_a_script_is_seen(text: str) -> None:
    assert list(in_text(text))


def test_what_only_describes_is_passed_over() -> None:
    text = '"""mean"""\n\nclass A:\n    x: int = 1\n    """mean"""\n\n    help = "the mean of all, by krr"\n'
    assert not list(used(ast.parse(text)))


def test_a_file_may_name_itself_and_not_another() -> None:
    at_home = words_at_home()["core/hubbub/mechanisms/krr.py"]
    assert {"krr", "KaryRandomizedResponse", "NamesOneItem"} <= at_home
    assert not at_home & {"rr", "BinaryRandomizedResponse", "mean"}
