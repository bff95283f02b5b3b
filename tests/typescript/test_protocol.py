"""The TypeScript SDK's protocol: the vectors, planted faults, the law of its randomizers, and cases against Python.

Node runs the tests of client_sdk/typescript/test; here one runner reports them with all others.
"""

from __future__ import annotations

import json
import os

import pytest

from hubbub.mechanisms import registered
from scripts.make_typescript import modules
from tests.support.node import NO_NODE, NO_PACKAGES, TYPESCRIPT, node, packages, run
from tests.typescript.differential import compare

pytestmark = pytest.mark.skipif(node() is None, reason=NO_NODE)

FAULTS = json.loads((TYPESCRIPT / "test" / "faults.json").read_text("utf-8"))
_EVERYDAY = {"revoked keys are used", "mirror images in the same order", "modulo instead of drawing again"}


def test_what_both_sdks_share_is_generated_from_python() -> None:
    """If this fails, run `python -m scripts.make_typescript`."""
    for path, text in modules().items():
        assert path.read_text("utf-8") == text, path.name
    assert {path.name for path in (TYPESCRIPT / "src" / "generated").iterdir()} == {path.name for path in modules()}


@pytest.mark.parametrize("name", sorted(path.name for path in (TYPESCRIPT / "test").glob("*.test.ts")))
def test_node_finds_nothing_wrong(name: str) -> None:
    said = run("--test", "--test-reporter=spec", f"test/{name}")
    assert said.returncode == 0, said.stdout + said.stderr
    assert "ℹ skipped 0" in said.stdout


@pytest.mark.skipif(not packages(), reason=NO_PACKAGES)
def test_the_types_are_strict_and_right() -> None:
    said = run("node_modules/typescript/bin/tsc", "--noEmit")
    assert said.returncode == 0, said.stdout


def test_every_fault_can_be_planted() -> None:
    for fault in FAULTS:
        source = (TYPESCRIPT / "src" / fault["file"]).read_text("utf-8")
        assert source.count(fault["old"]) == 1, f"{fault['name']}: change test/faults.json with the source"


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(i, marks=() if f["name"] in _EVERYDAY else pytest.mark.full, id=f["name"])
        for i, f in enumerate(FAULTS)
    ],
)
def test_a_planted_fault_is_caught(number: int) -> None:
    played = FAULTS[number].get("caught by", "vectors")
    said = run(
        "--import", "./test/plant.mjs", "--test-reporter=tap", f"test/{played}.test.ts", env={"FAULT": str(number)}
    )
    assert "the source has this" not in said.stdout + said.stderr
    assert "\nnot ok" in said.stdout


def test_the_sources_without_reasons_pass_the_same_vectors() -> None:
    """The build for browsers leaves out why something is refused."""
    said = run(
        "--import", "./test/plant.mjs", "--test-reporter=tap", "test/vectors.test.ts", env={"WITHOUT_REASONS": "1"}
    )
    assert said.returncode == 0, said.stdout


def test_each_randomizer_has_the_law_that_it_claims() -> None:
    """By walking through all outcomes of its coins. Those of `laplace` have no end: the vectors check it."""
    said = run("--import", "./test/plant.mjs", "test/law.ts", env={"DRAWS": "walking_draws.ts"})
    assert said.returncode == 0, said.stderr
    assert {*said.stdout.split(), "laplace"} == set(registered())


@pytest.mark.parametrize("count", [280, pytest.param(10_000, marks=pytest.mark.full)])
def test_random_cases_come_out_as_in_python(count: int) -> None:
    assert compare(count, int(os.environ.get("HUBBUB_SEED", "27"))) == []
