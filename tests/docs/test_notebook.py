"""The example notebook: its cells run from the top, and say what an aggregator with the game's metrics says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from examples.game import crowd
from hubbub_aggregator.intake.open_reports import Pool
from hubbub_query import Query
from scripts.run_notebook import run
from tests.aggregator.conftest import pool
from tests.aggregator.served import served_by_http
from tests.aggregator.world import START, Site
from tests.docs.blocks import ROOT

__all__ = ["pool"]

NOTEBOOK = ROOT / "examples" / "game" / "analysis.ipynb"
WRITTEN: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
CODE = [cell for cell in WRITTEN["cells"] if cell["cell_type"] == "code"]


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[str]:
    """The game's aggregator after two periods of its crowd, with a gap between them."""
    site = Site.open(tmp_path_factory.mktemp("game"), pool, (NOTEBOOK.parent / "metrics.toml").read_text())
    for number, crashes in ((0, 0.04), (2, 0.12)):
        site.clock.now = START + 10 * number + 12
        site.service.tick()
        for name, played in crowd.players(crashes).items():
            missing = site.metric(name).missing
            values = [missing if one is None else one for one in played[: site.least(name)]]
            site.settle(site.batch(name, values, seed=number))
    with served_by_http(site.service) as address:
        yield address
    site.close()


def test_its_cells_run_and_give_what_is_kept_in_the_file(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are others, as noise is: only their kind is compared, and one table with the aggregator."""
    monkeypatch.setenv("HUBBUB_ADDRESS", game)
    monkeypatch.delenv("HUBBUB_TOKEN", raising=False)
    outputs = list(run(WRITTEN))
    kinds = [[sorted(one.get("data", [one.get("name")])) for one in cell] for cell in outputs]
    assert kinds == [[sorted(one.get("data", [one.get("name")])) for one in cell["outputs"]] for cell in CODE]
    table = "".join(outputs[1][0]["data"]["text/plain"])
    for metric in Query(game).metrics().names:
        assert metric in table
    assert "crashed: " in "".join(outputs[3][0]["text"])
    assert "<svg" in "".join(outputs[2][0]["data"]["image/svg+xml"])


def test_its_file_is_a_notebook_with_outputs() -> None:
    assert (WRITTEN["nbformat"], WRITTEN["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in WRITTEN["cells"]}) == len(WRITTEN["cells"])
    assert all(cell["outputs"] for cell in CODE), "python -m scripts.run_notebook examples/game/analysis.ipynb"
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    assert NOTEBOOK.stat().st_size < 100_000
