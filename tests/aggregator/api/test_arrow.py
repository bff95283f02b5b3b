"""Arrow answers: the cells of the CSV with their types, for every reader of Arrow."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import polars
import pyarrow as pa
import pytest

from hubbub_aggregator.api.arrow_tables import ARROW_TYPE, to_arrow
from hubbub_aggregator.api.examples import LEDGER
from hubbub_aggregator.models.ledger import LedgerAnswer
from tests.aggregator.api.test_csv import TABLES, odd, taken_back
from tests.aggregator.world import DAY, START, Site

__all__ = ["odd"]

EVERY = {**TABLES, "metrics": "/v1/metrics", "releases": "/v1/releases", "privacy": "/v1/privacy"}


def arrow(site: Site, path: str) -> Any:
    answer = site.get(path, headers={"Accept": ARROW_TYPE})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == ARROW_TYPE
    return pa.ipc.open_stream(answer.content).read_all()


def as_text(cell: object) -> str:
    """A cell as the CSV writes it."""
    match cell:
        case None:
            return ""
        case bool():
            return str(cell).lower()
        case str():
            return cell
    return repr(cell)


@pytest.mark.parametrize("kind", EVERY)
def test_every_table_has_the_columns_and_cells_of_its_csv(odd: Site, kind: str) -> None:
    odd.clock.now = START + 3 * DAY  # a series then has gaps
    found = arrow(odd, EVERY[kind])
    header, *rows = csv.reader(io.StringIO(odd.get(EVERY[kind], headers={"Accept": "text/csv"}).text, newline=""))
    assert found.column_names == header
    assert [[as_text(cell) for cell in row.values()] for row in found.to_pylist()] == [
        [taken_back(cell) for cell in row] for row in rows
    ]


def test_columns_are_typed_and_gaps_are_null(odd: Site) -> None:
    odd.clock.now = START + 3 * DAY
    found = arrow(odd, f"{TABLES['series']}?top=2")
    kinds = {"estimate": pa.float64(), "reports": pa.int64(), "complete": pa.bool_(), "value": pa.string()}
    assert {name: found.schema.field(name).type for name in kinds} == kinds
    gaps = [row for row in found.to_pylist() if row["state"] != "released"]
    assert gaps
    assert all(row["shown"] is None and row["value"] is None and row["period"] for row in gaps)


def test_it_is_chosen_by_the_address_too_and_read_by_other_libraries(odd: Site) -> None:
    answer = odd.get(f"{TABLES['estimate']}?format=arrow")
    frame = polars.read_ipc_stream(io.BytesIO(answer.content))
    assert frame["value"].to_list() == [one["label"] for one in odd.json(TABLES["estimate"])["segments"][0]["values"]]
    assert answer.headers["etag"] != odd.get(f"{TABLES['estimate']}?format=csv").headers["etag"]


def test_a_table_without_rows_has_its_columns() -> None:
    empty: Any = json.loads(json.dumps(LEDGER)) | {"total": None, "per_metric": [], "per_period": [], "over_time": []}
    found = pa.ipc.open_stream(to_arrow(LedgerAnswer.model_validate(empty))).read_all()
    assert found.num_rows == 0
    assert found.schema.field("epsilon").type == pa.float64()
