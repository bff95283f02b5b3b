"""Import graph of the project as a picture: `python -m scripts.make_import_graph` renews docs/images/imports.svg.

Packages, folders and arrows come from the code. Only the positions of the boxes are set here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

__all__ = ["PICTURE", "arrows", "draw", "imports"]

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "images" / "imports.svg"
WIDTH, MARGIN, GAP, LINE, PADDING = 1100, 20, 34, 17, 12


class Box(NamedTuple):
    """A package and its position: its row, left edge and width, and the number of columns for its names."""

    folder: str
    package: str
    row: int
    x: int
    width: int
    columns: int


BOXES = (
    Box("cli", "hubbub_cli", 0, 20, 1060, 5),
    Box("query_sdk", "hubbub_query", 1, 20, 225, 2),
    Box("audit", "hubbub_audit", 1, 265, 815, 4),
    Box("client_sdk", "hubbub_client", 2, 265, 285, 2),
    Box("shuffler", "hubbub_shuffler", 2, 570, 230, 2),
    Box("aggregator", "hubbub_aggregator", 2, 820, 260, 2),
    Box("service_common", "hubbub_service_common", 3, 570, 510, 3),
    Box("core", "hubbub", 4, 20, 1060, 5),
)


class Place(NamedTuple):
    """A box with its top and bottom edge."""

    box: Box
    top: int
    bottom: int


def draw() -> str:
    """The picture as SVG."""
    places = _places()
    height = max(place.bottom for place in places.values()) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="Which package imports which">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    parts += [_arrow(places[user], places[used]) for user, used in arrows()]
    for place in places.values():
        parts += _drawn(place)
    return "\n".join([*parts, "</svg>"]) + "\n"


def arrows() -> list[tuple[str, str]]:
    """Which package imports which, without arrows that follow from two others."""
    direct = imports()
    return sorted(
        (user, used)
        for user, targets in direct.items()
        for used in targets
        if not any(used in _reached(direct, other) for other in targets - {used})
    )


@cache
def imports() -> dict[str, set[str]]:
    """The packages of this project that each package imports."""
    packages = {box.package for box in BOXES}
    return {
        box.package: {
            name.split(".")[0] for path in _modules(box) for name in _imported(path) if name.split(".")[0] in packages
        }
        - {box.package}
        for box in BOXES
    }


def _reached(direct: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        for used in direct[left.pop()] - found:
            found.add(used)
            left.append(used)
    return found


def _modules(box: Box) -> list[Path]:
    return sorted((ROOT / box.folder / box.package).rglob("*.py"))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _names(box: Box) -> list[str]:
    """The folders of a package, then its top-level modules."""
    here = ROOT / box.folder / box.package
    folders = sorted(f"{path.parent.name}/" for path in here.glob("*/__init__.py"))
    modules = sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("__"))
    return folders + modules


def _places() -> dict[str, Place]:
    """Boxes of one row start at the same height; the next row starts below the tallest of them."""
    found: dict[str, Place] = {}
    top = MARGIN
    for row in sorted({box.row for box in BOXES}):
        here = [box for box in BOXES if box.row == row]
        bottom = top + max(2 * PADDING + 22 + LINE * -(-len(_names(box)) // box.columns) for box in here)
        found |= {box.package: Place(box, top, bottom) for box in here}
        top = bottom + GAP
    return found


def _drawn(place: Place) -> Iterator[str]:
    box, (left, top) = place.box, (place.box.x + PADDING, place.top + PADDING + 10)
    yield (
        f'<rect x="{box.x}" y="{place.top}" width="{box.width}" height="{place.bottom - place.top}" rx="6" '
        'fill="#f6f8fa" stroke="#57606a"/>'
    )
    yield (
        f'<text x="{left}" y="{top}" font-weight="600">{escape(box.folder)}/ '
        f'<tspan fill="#57606a" font-weight="400">import {box.package}</tspan></text>'
    )
    names = _names(box)
    rows = -(-len(names) // box.columns)
    for at, name in enumerate(names):
        x = left + at // rows * ((box.width - PADDING) // box.columns)
        yield f'<text x="{x}" y="{top + 22 + at % rows * LINE}" fill="#24292f" font-size="12">{escape(name)}</text>'


def _arrow(user: Place, used: Place) -> str:
    """Straight down, in the middle of the range where the two boxes overlap."""
    x = (max(user.box.x, used.box.x) + min(user.box.x + user.box.width, used.box.x + used.box.width)) // 2
    return f'<path d="M{x} {user.bottom} {x} {used.top}" stroke="#555" marker-end="url(#tip)"/>'


def main() -> None:
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
