"""Import cost of the SDK: little more than that of the two libraries it stands on.

CPU time of fresh interpreters, of each the least of several runs in turn: other work on the machine can only add to it.
What an interpreter costs that imports nothing is taken off both sides.
"""

from __future__ import annotations

import pytest

from benchmarks.client import IMPORT_GOAL, IMPORTS, import_cost
from tests.repository.test_imports import HEAVY, loaded_by

WAYS = ["import hubbub_client", "from hubbub_client import Client"]
HEAVIER = f"{IMPORTS}, asyncio, unittest.mock"
"""What the test below must be able to tell from the libraries alone."""


@pytest.fixture(scope="module")
def cost() -> dict[str, float]:
    """CPU seconds of each import: of more runs where a few do not tell, as on a machine that is never quiet."""
    statements = [IMPORTS, *WAYS, HEAVIER]
    for rounds in (5, 15, 45):
        found = dict(zip(statements, import_cost(statements, rounds), strict=True))
        goal = IMPORT_GOAL * found[IMPORTS]
        if max(found[way] for way in WAYS) < goal < found[HEAVIER]:
            break
    return found


@pytest.mark.full  # it measures many fresh interpreters
@pytest.mark.parametrize("statement", WAYS)
def test_importing_the_sdk_costs_less_than_one_and_a_half_times_its_two_libraries(
    statement: str, cost: dict[str, float]
) -> None:
    """Also when what an app really imports is asked for: a package that loads nothing until then would be no saving."""
    assert cost[statement] < IMPORT_GOAL * cost[IMPORTS], f"{cost}: python -X importtime says why"


def test_the_measure_tells_a_heavier_import_from_a_lighter_one(cost: dict[str, float]) -> None:
    assert cost[HEAVIER] > IMPORT_GOAL * cost[IMPORTS]


@pytest.mark.parametrize("statement", ["from hubbub_client import Client, HttpTransport, Outcome"])
def test_whatever_the_package_offers_is_loaded_without_a_heavy_library(statement: str) -> None:
    """Names that are looked up when asked for must not bring in what `import hubbub_client` does not."""
    assert not {name.split(".")[0] for name in loaded_by(statement)} & HEAVY


def test_a_device_records_and_seals_without_a_heavy_library(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Not only the import: whatever is loaded at first use is as light."""
    loaded = loaded_by(
        "from pathlib import Path\n"
        "from tests.client.world import World\n"
        f"client = World(Path({str(tmp_path_factory.mktemp('device'))!r})).ready()\n"
        "assert client.record('theme', 'dark').value == 'recorded'\n"
        "assert client.record('startup_ms', 7).value == 'recorded'\n"
        "assert client.flush(0, now=True)\n"
        "client.close()\n"
    )
    assert "cryptography.hazmat.primitives.hpke" in loaded
    assert not {name.split(".")[0] for name in loaded} & HEAVY
