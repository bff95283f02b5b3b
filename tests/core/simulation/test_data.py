"""CSV data of the simulator: what is read, and what is said about a file that is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from hubbub.codebook import Codebook
from hubbub.errors import InvalidParameter
from hubbub_cli.simulator.csv_data import Data, read

METRICS = Codebook.from_toml("""
[collection]
name = "data"
period = "1d"
device_epsilon = 9
release = { epsilon = 1, delta = 1e-6 }
[metrics.dark]
type = "boolean"
epsilon = 1
[metrics.theme]
type = "category"
values = ["light", "dark", "a, b"]
epsilon = 1
[metrics.load]
type = "mean"
bounds = [0, 9]
epsilon = 1
""").metrics


def data(folder: Path, text: str | bytes) -> Data:
    path = folder / "devices.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, METRICS)


def test_columns_may_stand_in_any_order_among_others(tmp_path: Path) -> None:
    found = data(tmp_path, 'id,load,theme,dark\n1,2.5,"a, b",TRUE\n2,,dark,no\n\n3,-1e3,,\n')
    assert found.values == {
        "dark": [True, False, None],
        "theme": ["a, b", "dark", None],
        "load": [2.5, None, -1000.0],
    }
    assert found.ignored == ["id"]


def test_a_gzipped_file_and_a_byte_order_mark_are_read_as_well(tmp_path: Path) -> None:
    text = "\ufeffdark,theme,load\r\n1,light,3\r\n"
    plain, packed = data(tmp_path, text), data(tmp_path, gzip.compress(text.encode()))
    assert plain == packed
    assert plain.values == {"dark": [True], "theme": ["light"], "load": [3.0]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty: its first line must name the columns"),
        ("dark,theme,load\n", "no rows under its header"),
        ("dark,thme,load\n1,light,2\n", r"no column for 'theme' \(did you mean 'thme'\?\).*Rename a column"),
        ("dark,theme,load,dark\n", "two columns are named 'dark'"),
        ("dark,theme,load\n1,light,2\n1,light\n", "line 3: 2 cells where the header has 3"),
        ("dark,theme,load\nmaybe,light,2\n", "line 2: 'maybe' in column 'dark' is not true or false"),
        ("dark,theme,load\n1,light,many\n", "line 2: 'many' in column 'load' is not a number.*leave the cell empty"),
        ('dark,theme,load\n1,"light,2\n', "is it a CSV file"),
        (b"dark,theme,load\n1,\xff,2\n", "not UTF-8"),
        (b"\x1f\x8bnonsense", "can't be read"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_what_to_do(tmp_path: Path, text: str | bytes, told: str) -> None:
    with pytest.raises(InvalidParameter, match=told):
        data(tmp_path, text)
