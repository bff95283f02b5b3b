"""What the pages say of the TypeScript SDK: their code is that of the examples or runs, and all options are there."""

from __future__ import annotations

import re
import subprocess
from math import sqrt
from pathlib import Path

import numpy as np
import pytest

from hubbub.period import duration_seconds
from scripts.make_arrival_table import PAGE, arrives, table
from tests.docs.blocks import PAGES, ROOT, blocks
from tests.support.compiled import compiled
from tests.support.node import NO_PACKAGES, TYPESCRIPT, node, packages, project

SITE = ROOT / "examples" / "site" / "metrics.toml"
REFERENCE = ROOT / "docs" / "reference" / "sdk-typescript.md"
BLOCKS = [block for page in PAGES for block in blocks(page) if block.language in ("js", "ts", "tsx")]
RUN_HERE = "// run by tests/typescript/test_documented.py\n"


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_code_on_a_page_is_a_part_of_an_example_that_runs_or_runs_here(block: object, tmp_path: Path) -> None:
    text = getattr(block, "text", "")
    if not text.startswith(RUN_HERE):
        name, _, part = text.removeprefix("// ").partition("\n")
        assert part in (ROOT / name).read_text(), name
        return
    if not packages():
        pytest.skip(NO_PACKAGES)
    (project(tmp_path) / "codebook.json").write_bytes(compiled(SITE.read_text()).to_bytes())
    (tmp_path / "page.mjs").write_text(text)
    done = subprocess.run([str(node()), "page.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_there_is_code_of_each_kind() -> None:
    assert sum(block.text.startswith(RUN_HERE) for block in BLOCKS) == 1
    named = {block.text.partition("\n")[0] for block in BLOCKS}
    assert {"// examples/site/app.js", "// examples/react/telemetry.ts", "// examples/node_service.mjs"} <= named


def test_the_page_has_every_option_and_every_export() -> None:
    page = REFERENCE.read_text()
    listed = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    options = set()
    for file in ("client.ts", "browser.ts", "node.ts", "device/limits.ts"):
        text = (TYPESCRIPT / "src" / file).read_text()
        for body in re.findall(r"^export interface (?:\w*Options).*? \{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
            options |= set(re.findall(r"^  readonly (\w+)\??:", body, re.MULTILINE))
    assert {"timeout", "now"} <= options
    assert options - {"timeout", "now"} == listed
    for file in ("words.ts", "testing.ts"):
        exported = re.findall(r"^export (?:const|class) (\w+)", (TYPESCRIPT / "src" / file).read_text(), re.MULTILINE)
        assert len(exported) > 2
        for name in exported:
            assert f"`{name}`" in page, name


def test_the_arrival_table_is_the_one_that_the_script_gives() -> None:
    """`python -m scripts.make_arrival_table` renews it."""
    assert table() in PAGE.read_text()


@pytest.mark.parametrize(("grace", "delay", "gap"), [(1, 0.5, 1), (14, 7, 7), (14, 1 / 24, 30), (7, 3.5, 0.5)])
def test_the_formula_is_that_of_visits_at_random_times(grace: float, delay: float, gap: float) -> None:
    """200,000 reports; 5.5 standard errors have a false-alarm rate below 4e-8 each."""
    rng, count = np.random.default_rng(20261119), 200_000
    due = rng.uniform(0, delay, count)
    share = float(np.mean(due + rng.exponential(gap, count) <= grace))
    expected = arrives(grace, delay, gap)
    assert abs(share - expected) <= 5.5 * sqrt(expected * (1 - expected) / count) + 1e-9


def test_the_example_follows_the_advice_of_its_page() -> None:
    collection = compiled(SITE.read_text()).collection
    assert collection.grace == duration_seconds("14d")
    assert collection.delay == duration_seconds("1h")
    spent = compiled(SITE.read_text()).spent
    for path in ("site/app.js", "react/telemetry.ts"):
        (limit,) = re.findall(r"maxEpsilon: (\d+)", (ROOT / "examples" / path).read_text())
        assert int(limit) == 2 * spent
