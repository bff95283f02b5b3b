"""The TypeScript SDK as it is published: what a browser loads, and how much that is."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from tests.support.node import NO_PACKAGES, TYPESCRIPT, packages, run

pytestmark = pytest.mark.skipif(not packages(), reason=NO_PACKAGES)

_UP_FRONT = 2_500
"""Bytes, compressed, that every page loads."""
_ALL = 23_500
"""Bytes that a page loads once there is consent: with the engine."""
_WORDS = 3_500


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    said = run("build.mjs", str(folder))
    assert said.returncode == 0, said.stderr
    return folder


def _needed(folder: Path, name: str) -> set[str]:
    """A module and all that it imports at once."""
    imported = re.findall(r'(?:import|from)"\./([^"]+)"', (folder / name).read_text("utf-8"))
    return {name}.union(*(_needed(folder, other) for other in imported))


def _compressed(folder: Path, names: set[str]) -> int:
    return sum(len(gzip.compress((folder / name).read_bytes(), 9)) for name in names)


def test_a_page_loads_little_before_there_is_consent(built: Path) -> None:
    (engine,) = (path.name for path in built.glob("engine-*"))
    up_front, with_engine = _needed(built, "browser.js"), _needed(built, "browser.js") | _needed(built, engine)
    before, whole = _compressed(built, up_front), _compressed(built, with_engine)
    words, tag = _compressed(built, {"words.js"}), _compressed(built, {"hubbub.js"})
    print(f"gzip: {before} bytes, {whole} with the engine, {words} words, {tag} for a script tag")  # noqa: T201
    assert before <= _UP_FRONT
    assert max(whole, tag) <= _ALL
    assert words <= _WORDS


def test_a_browser_gets_nothing_of_node_and_no_address(built: Path) -> None:
    for path in built.iterdir():
        text = path.read_text("utf-8")
        if path.name not in ("node.js", "testing.js"):
            assert "node:" not in text, path.name
        assert not re.search(r"https?://[a-z]", text.replace("https://telemetry.example.com", "")), path.name


def test_the_package_names_files_that_are_built(built: Path) -> None:
    package = json.loads((TYPESCRIPT / "package.json").read_text("utf-8"))
    assert package["sideEffects"] is False
    assert "dependencies" not in package
    for export in package["exports"].values():
        assert (built / export["default"].removeprefix("./dist/")).exists()
