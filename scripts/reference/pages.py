"""Preparation of pages for Sphinx: generated parts are inserted, and links that leave docs/ are rewritten.

On a code host a page shows its prose, and links lead to files of the repository. In the built site
`<!-- generated: NAME ARGUMENT -->` is replaced by text generated from the code. A page that is only a link to a file at
the root becomes that file, and a link to such a file leads to that page.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.reference.commands import commands
from scripts.reference.mechanisms import mechanisms
from scripts.reference.metrics import metrics
from scripts.reference.problems import problem, problems
from scripts.reference.python import python
from scripts.reference.routes import routes
from scripts.reference.settings import settings

if TYPE_CHECKING:
    from sphinx.application import Sphinx

__all__ = ["GENERATED", "MARK", "as_built", "setup"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED: dict[str, Callable[..., str]] = {
    "settings": settings,
    "commands": commands,
    "problems": problems,
    "problem": problem,
    "routes": routes,
    "mechanisms": mechanisms,
    "metrics": metrics,
    "python": python,
}
MARK = re.compile(r"<!-- generated: (\S+)((?: \S+)*) -->")
_LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
_FOLDER = re.compile(r"\[([^\[\]]*)\]\(([^)\s#:]+/)\)")
_PICTURE = re.compile(r"!\[([^\[\]]*)\]\(([^)\s]+)(\.webp)\)")
_ONLY_A_LINK = re.compile(r"\s*\[[^\]]+\]\(([^)]+)\)\s*")
_FENCE = re.compile(r"(^```.*?^```|^~~~.*?^~~~)", re.DOTALL | re.MULTILINE)


def as_built(text: str, page: Path) -> str:
    """The Markdown that Sphinx gets for a page of docs/."""
    at = page.parent
    if (only := _ONLY_A_LINK.fullmatch(text)) is not None:
        source = (at / only[1]).resolve()
        return _relinked(source.read_text(encoding="utf-8"), source.parent, at)
    return _relinked(MARK.sub(lambda found: GENERATED[found[1]](*found[2].split()), text), at, at)


@cache
def stand_ins() -> dict[Path, Path]:
    """Files outside docs/ that have a page in docs/, with that page."""
    found = {}
    for page in DOCS.rglob("*.md"):
        if (only := _ONLY_A_LINK.fullmatch(page.read_text(encoding="utf-8"))) is not None:
            found[(page.parent / only[1]).resolve()] = page
    return found


def _relinked(text: str, written: Path, read: Path) -> str:
    """Rewrite links of a text that was written in one folder and is read in another."""

    def turned(found: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", found[2]):
            return found[0]
        target = (written / found[2]).resolve()
        return found[1] + os.path.relpath(stand_ins().get(target, target), read) + found[3]

    def picture(found: re.Match[str]) -> str:
        """A picture that also has a dark version is shown in the reader's theme."""
        if not (written / f"{found[2]}-dark{found[3]}").exists():
            return found[0]
        dark = f"![{found[1]}]({found[2]}-dark{found[3]}){{.only-dark}}"
        return f"{found[0]}{{.only-light}}\n{dark}"

    def folder(found: re.Match[str]) -> str:
        """A folder of pages becomes its index. Of other folders only the name is left: a site has no listings."""
        return f"[{found[1]}]({found[2]}index.md)" if (written / found[2] / "index.md").exists() else found[1]

    pieces = _FENCE.split(text)
    return "".join(
        piece if n % 2 else _LINK.sub(turned, _FOLDER.sub(folder, _PICTURE.sub(picture, piece)))
        for n, piece in enumerate(pieces)
    )


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    source[0] = as_built(source[0], Path(str(app.env.doc2path(name))))


def _outdated(app: Sphinx, *_: object) -> list[str]:
    """Pages whose text depends on more than their file, which must be rebuilt each time."""
    return [
        name
        for name in app.env.found_docs
        if (page := Path(str(app.env.doc2path(name)))) in stand_ins().values() or MARK.search(page.read_text("utf-8"))
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Entry point for Sphinx."""
    app.connect("env-get-outdated", _outdated)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
