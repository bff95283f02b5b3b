"""The import graph in ARCHITECTURE.md: it shows the code as it is."""

from __future__ import annotations

from scripts.make_import_graph import BOXES, PICTURE, arrows, draw, imports


def test_the_picture_is_the_one_that_the_code_gives() -> None:
    """`python -m scripts.make_import_graph` renews it."""
    assert PICTURE.read_text(encoding="utf-8") == draw()


def test_every_arrow_points_down_to_a_box_below() -> None:
    rows = {box.package: box.row for box in BOXES}
    assert arrows()
    assert all(rows[user] < rows[used] for user, used in arrows())


def test_every_package_imports_the_core_and_the_core_imports_none() -> None:
    assert imports()["hubbub"] == set()
    assert all("hubbub" in used for package, used in imports().items() if package != "hubbub")
