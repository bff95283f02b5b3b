"""Claims of the pages: the tests, modules and figures that they name as proof exist."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
NO_MODULES = re.compile(r"hubbub\.(sqlite3|witness|disabled|recorded|device|client)\b")
"""Files of the SDK, and the fixture `hubbub` of its pytest plugin."""
ROOMS = [
    ROOT / room
    for room in ("core", "client_sdk", "query_sdk", "service_common", "shuffler", "aggregator", "audit", "cli")
]


@cache
def known_tests() -> frozenset[str]:
    found = (re.findall(r"def (test_\w+)", path.read_text()) for path in (ROOT / "tests").rglob("*.py"))
    return frozenset(name for names in found for name in names)


def named(page: str, pattern: str) -> set[str]:
    """What stands between backticks, or inside them after a call or a path, and looks like this."""
    return {name for code in re.findall(r"`([^`\n]+)`", page) for name in re.findall(pattern, code)}


def file_of(module: str) -> Path | None:
    for room in ROOMS:
        path = room / module.replace(".", "/")
        for candidate in (path.with_suffix(".py"), path / "__init__.py"):
            if candidate.exists():
                return candidate
    return None


def is_there(dotted: str) -> bool:
    """Whether the longest part of a dotted name that is a module holds the rest of it."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        if (path := file_of(".".join(parts[:end]))) is not None:
            text = path.read_text()
            return all(re.search(rf"\b{re.escape(part)}\b", text) for part in parts[end:])
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_and_modules_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text()
    for path in named(text, r"\b(?:tests|scripts|benchmarks|examples)/[\w/.-]+\.\w+"):
        assert (ROOT / path).exists(), path
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    for name in named(text, r"\btest_\w+(?:\.py)?"):
        assert name in files if name.endswith(".py") else name in known_tests() or f"{name}.py" in files, name
    for dotted in named(text, r"(?<![\w/.-])hubbub(?:_\w+)?(?:\.\w+)+"):
        assert NO_MODULES.match(dotted) or is_there(dotted), dotted


def believed(epsilon: float) -> float:
    """In per cent, from even odds."""
    return 100 / (1 + math.exp(-epsilon))


def test_what_pages_say_that_somebody_may_believe_at_most_is_rounded_up() -> None:
    table = (ROOT / "docs/how-to/choose-epsilon.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| `\w+` \|.*\| ([\d.]+) % \|$", table, re.MULTILINE)
    text = " ".join((ROOT / "docs/explanation/privacy-model.md").read_text().split())
    said = re.search(
        r"at most ([\d.]+) in a hundred; with eps0 = 2 at most ([\d.]+); with eps0 = 4 at most ([\d.]+)\.", text
    )
    assert said
    claims = [*rows, *zip(("1", "2", "4"), said.groups(), strict=True)]
    assert len(claims) == 7
    for epsilon, shown in claims:
        assert believed(float(epsilon)) <= float(shown) < believed(float(epsilon)) + 1


def test_what_counting_linked_reports_tells_is_as_the_page_says() -> None:
    text = " ".join((ROOT / "docs/explanation/what-we-do-not-protect.md").read_text().split())
    assert "in 99.8 % of cases after 31 days at epsilon 1, and in more than 99.9 % after 11 days at epsilon 2" in text

    def right(epsilon: int, days: int) -> float:
        p = believed(epsilon) / 100
        return sum(math.comb(days, k) * p**k * (1 - p) ** (days - k) for k in range(days // 2 + 1, days + 1))

    assert 0.997 < right(1, 31) < 0.998
    assert right(2, 11) > 0.999
    assert right(4, 3) > 0.999


def test_a_name_that_is_not_there_would_be_found() -> None:
    assert is_there("hubbub_aggregator.analysis.answer_guarantee.ONE_OPERATOR")
    assert not is_there("hubbub_aggregator.analysis.answer_guarantee.TWO_OPERATORS")
    assert not is_there("hubbub_nobody.here")
    assert named("see `tests/x.py`, `test_y`", r"\btest_\w+") == {"test_y"}
