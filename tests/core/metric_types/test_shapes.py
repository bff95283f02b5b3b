"""Shapes of results: every value has a name of its own."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from hubbub.result_shapes import Axis, Grid

NAMES = st.lists(st.text('a×" \\', min_size=1, max_size=5), min_size=2, max_size=5, unique=True)


@given(NAMES, NAMES)
def test_no_two_cells_of_a_grid_have_one_name(rows: list[str], columns: list[str]) -> None:
    labels = Grid(Axis("row", rows), Axis("column", columns)).labels
    assert len(set(labels)) == len(rows) * len(columns)


def test_a_name_with_the_sign_between_names_is_put_in_quotes() -> None:
    axis = Axis("size", ["a", "a × b", "b"])
    labels = dict(zip(product(axis.labels, axis.labels), Grid(axis, axis).labels, strict=True))
    assert labels["a", "b"] == "a × b"
    assert labels["a", "a × b"] == 'a × "a × b"'
    assert labels["a × b", "b"] == '"a × b" × b'
