"""Pages typed in from top to bottom: the reader gets what they promise."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.serve import serving
from tests.docs.blocks import PAGES, SHELL, TUTORIAL, blocks, counted, name_of, runnable
from tests.docs.terminal import terminal

TYPED = [page for page in PAGES if page != TUTORIAL and any(block.language in SHELL for block in blocks(page))]


@pytest.fixture(scope="module")
def populated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An aggregator with a year of releases, for pages that ask one."""
    with serving(tmp_path_factory.mktemp("populated"), "populated") as sites:
        yield sites["populated"]


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", TYPED, ids=name_of)
def test_what_a_page_says_to_type_works(page: Path, tmp_path: Path, populated: str) -> None:
    run, _ = runnable(page)
    with terminal(tmp_path, populated) as typing:
        for block in run:
            typing.follow(block)


def test_most_blocks_of_commands_run() -> None:
    """How many do is said at the end of every run of these tests."""
    run, marked = counted()
    assert run > marked


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_the_tutorial_leads_to_its_chart(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("the tutorial is typed into bash: install bash")
    run, _ = runnable(TUTORIAL)
    with terminal(tmp_path) as typing:
        for block in run:
            typing.follow(block)
        printed = "\n".join(typing.said)
    truth = [float(share) / 100 for share in re.findall(r"([\d.]+)% dark", printed)]
    assert len(truth) == 6
    asked = next(said for said in typing.said if said.startswith("theme,") and "score" in said)
    row = re.search(r"^dark +([\d.]+)% +([\d.]+)% +([\d.]+)%", asked, re.MULTILINE)
    assert row is not None
    estimate, low, high = (float(number) / 100 for number in row.groups())
    assert low < estimate < high
    # it may be asked before the last periods are out, so the truth is that of any number of the first ones; six
    # times the interval's half is twelve standard errors and covers the rounding
    means = [sum(truth[: n + 1]) / (n + 1) for n in range(len(truth))]
    assert min(abs(estimate - mean) for mean in means) < 6 * (high - low) / 2
